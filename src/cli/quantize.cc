// `carat quantize`: a copy of a checkpoint with int8 or int4 weights that loads faster and as it is.
#include <csignal>
#include <string>

#include "api/loaded_model.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/streams.h"
#include "cli/units.h"
#include "model/formats.h"
#include "model/quantized_checkpoint.h"

namespace carat {
namespace {

double total_bytes(const Checkpoint& checkpoint) {
  double bytes = 0;
  for (const MappedFile& file : checkpoint.files()) bytes += static_cast<double>(file.bytes().size());
  return bytes;
}

volatile std::sig_atomic_t interrupted_by = 0;

/// The first signal ends the work where nothing is left behind, the second one the program.
void stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    catch_first(signal, [](int number) { interrupted_by = number; });
}

struct Interrupted {};

}  // namespace

int quantize_command(const QuantizeOptions& options) {
  const LoadedModel model = load_model(options.model, warning_printer(options.quiet));
  ThreadPool pool(options.threads);
  stop_on_signals();
  try {
    Progress progress("quantizing", options.quiet);
    write_quantized_checkpoint(model.config, model.checkpoint, parse_format(options.format), options.output,
                               pool, [&](double fraction) {
                                 if (interrupted_by != 0) throw Interrupted();
                                 progress.update(fraction);
                               });
  } catch (const Interrupted&) {
    print_message("interrupted; what was written is removed");
    return 128 + interrupted_by;  // as a shell says of a program ended by a signal
  }
  const auto written = Checkpoint::open(options.output);
  write_stdout(printable(options.output) + ": " + format_si(total_bytes(*written), "B") + " of " +
               format_si(total_bytes(*model.checkpoint), "B") + "\n");
  return 0;
}

}  // namespace carat
