#include "cli/backend.h"

#include <charconv>

#include "base/cpu_count.h"
#include "base/error.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "cpu/cpu_runner.h"
#include "cuda/cuda_runner.h"
#include "model/formats.h"
#include "ref/ref_runner.h"

namespace carat {
namespace {

/// N of "cuda:N", 0 for "cuda", -1 when `device` is neither.
int cuda_index(const std::string& device) {
  if (device == "cuda") return 0;
  if (device.rfind("cuda:", 0) != 0) return -1;
  int index = -1;
  const char *first = device.data() + 5, *last = device.data() + device.size();
  const auto [end, error] = std::from_chars(first, last, index);
  return error == std::errc{} && end == last ? index : -1;
}

void refuse_cpu_options(const DeviceOptions& options) {
  const bool ref = options.device == "ref";
  const char* flag = options.threads != 0             ? "--threads"
                     : !options.isa.empty()           ? "--isa"
                     : ref && !options.format.empty() ? "--format"
                     : options.mmap                   ? "--mmap"
                                                      : nullptr;
  if (flag)
    fail(ErrorKind::invalid_argument, flag, " has no effect on --device ", options.device, "; drop it");
}

void refuse_format_in_place(const ModelPlan& plan, const DeviceOptions& options) {
  if (!options.mmap || options.format.empty()) return;
  const char* stored = format_name(plan.head.format);
  if (options.format == stored) return;
  fail(ErrorKind::invalid_argument, "--mmap reads the weights as they are stored, in ", stored,
       "; drop --mmap or --format ", options.format);
}

}  // namespace

bool is_device_name(const std::string& device) {
  return device == "ref" || device == "cpu" || cuda_index(device) >= 0;
}

std::unique_ptr<Runner> make_runner(ModelPlan plan, const RunnerOptions& limits, const DeviceOptions& options,
                                    bool quiet) {
  if (options.device == "cpu") {
    refuse_format_in_place(plan, options);
    Progress progress("loading", quiet);
    const auto update = [&](double fraction) { progress.update(fraction); };
    const CpuOptions cpu{options.threads, options.isa, options.format, options.mmap, update};
    return make_cpu_runner(std::move(plan), limits, cpu);
  }
  refuse_cpu_options(options);
  if (options.device == "ref") return make_ref_runner(std::move(plan), limits);
  const int index = cuda_index(options.device);
  if (index >= 0)
    return make_cuda_runner(std::move(plan), limits, {.device = index, .format = options.format});
  fail(ErrorKind::invalid_argument, "no device ", in_quotes(options.device), "; known: ref, cpu, cuda:N");
}

int reading_threads(const DeviceOptions& options) {
  if (options.device == "ref") return 1;
  if (options.device != "cpu") return 0;
  return options.threads > 0 ? options.threads : usable_cpu_count();
}

}  // namespace carat
