// `carat quantize`: a copy of a checkpoint with int8 or int4 weights that loads faster and as it is.
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/progress.h"
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

}  // namespace

int quantize_command(const QuantizeOptions& options) {
  const LoadedModel model = load_model(options.model);
  ThreadPool pool(options.threads);
  {
    Progress progress("quantizing", options.quiet);
    write_quantized_checkpoint(model.config, model.checkpoint, parse_format(options.format), options.output,
                               pool, [&](double fraction) { progress.update(fraction); });
  }
  const auto written = Checkpoint::open(options.output);
  write_stdout(options.output + ": " + format_si(total_bytes(*written), "B") + " of " +
               format_si(total_bytes(*model.checkpoint), "B") + "\n");
  return 0;
}

}  // namespace carat
