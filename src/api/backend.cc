#include "api/backend.h"

#include <charconv>
#include <utility>

#include "api/loaded_model.h"
#include "base/cache_size.h"
#include "base/cpu_count.h"
#include "base/error.h"
#include "base/huge_pages.h"
#include "base/utf8.h"
#include "cpu/cpu_runner.h"
#include "cuda/cuda_runner.h"
#include "model/formats.h"
#include "model/gemma4_plan.h"
#include "model/quantized_checkpoint.h"
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

/// What the CPU backend copies into its own memory: all but the tables, of which it reads single rows.
std::size_t repacked_bytes(ModelPlan& plan, const DeviceOptions& options) {
  std::size_t bytes = 0;
  for_each_linear(plan, [&](const std::string& role, const Linear& w) {
    if (role == "embed" || role == "ple_table") return;
    Linear packed = w;
    if (!options.format.empty()) packed.format = format_of_role(role, w.format, parse_format(options.format));
    bytes += size_bytes(packed);
  });
  return bytes;
}

KvType kv_type(const std::string& name) {
  if (name.empty()) return KvType::automatic;
  if (name == "f32") return KvType::f32;
  if (name == "f16") return KvType::f16;
  if (name == "int8") return KvType::int8;
  fail(ErrorKind::invalid_argument, "K and V can't be kept as ", in_quotes(name), "; known: f32, f16, int8");
}

}  // namespace

bool is_device_name(const std::string& device) {
  return device == "ref" || device == "cpu" || cuda_index(device) >= 0;
}

std::unique_ptr<Runner> make_runner(ModelPlan plan, RunnerOptions limits, const DeviceOptions& options,
                                    const LoadProgress& progress) {
  limits.kv_type = kv_type(options.kv_type);
  if (options.device == "cpu") {
    refuse_format_in_place(plan, options);
    const CpuOptions cpu{options.threads, options.isa, options.format, options.mmap, progress};
    return make_cpu_runner(std::move(plan), limits, cpu);
  }
  refuse_cpu_options(options);
  if (options.device == "ref") return make_ref_runner(std::move(plan), limits);
  const int index = cuda_index(options.device);
  if (index >= 0)
    return make_cuda_runner(std::move(plan), limits,
                            {.device = index, .format = options.format, .progress = progress});
  fail(ErrorKind::invalid_argument, "no device ", in_quotes(options.device), "; known: ref, cpu, cuda:N");
}

std::size_t kv_value_bytes(const ModelPlan& plan, const DeviceOptions& options) {
  if (options.device == "ref") return 4;
  const KvType type = kv_type(options.kv_type);
  if (type != KvType::automatic) return type == KvType::f32 ? 4 : type == KvType::f16 ? 2 : 1;
  if (options.device != "cpu") return 4;  // two float16 halves
  return is_quantized(options.format.empty() ? stored_format(plan) : parse_format(options.format)) ? 2 : 4;
}

std::size_t kv_scale_bytes(const DeviceOptions& options) {
  if (options.device == "ref" || kv_type(options.kv_type) != KvType::int8) return 0;
  return options.device == "cpu" ? sizeof(float) : 2 * sizeof(float);  // cuda: with padding
}

std::size_t free_bytes_for_kv(ModelPlan plan, const DeviceOptions& options, int sequences, int step_tokens) {
  const int index = cuda_index(options.device);
  if (index >= 0) {
    RunnerOptions limits;
    limits.max_sequences = sequences;
    limits.max_step_tokens = step_tokens;
    limits.kv_type = kv_type(options.kv_type);
    return free_cuda_bytes_for_kv(std::move(plan), limits, {.device = index, .format = options.format});
  }
  const std::size_t free = available_memory_bytes();
  const std::size_t weights = options.device == "cpu" && !options.mmap ? repacked_bytes(plan, options) : 0;
  return free > weights ? free - weights : 0;
}

int prompt_step_tokens(const DeviceOptions& options) {
  constexpr int kOfCpu = 512, kOfGpu = 2048;
  return cuda_index(options.device) >= 0 ? kOfGpu : kOfCpu;
}

std::optional<double> gpu_read_bandwidth(const DeviceOptions& options) {
  const int index = cuda_index(options.device);
  if (index < 0) return std::nullopt;
  try {
    return measure_cuda_read_bandwidth({.device = index});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    return std::nullopt;
  }
}

std::optional<double> gpu_matrix_rate(const DeviceOptions& options) {
  const int index = cuda_index(options.device);
  if (index < 0) return std::nullopt;
  return measure_cuda_matrix_rate({.device = index});
}

std::size_t cache_bytes(const DeviceOptions& options) {
  const int index = cuda_index(options.device);
  return index >= 0 ? cuda_cache_bytes({.device = index}) : last_cache_bytes();
}

int reading_threads(const DeviceOptions& options) {
  if (options.device == "ref") return 1;
  if (options.device != "cpu") return 0;
  return options.threads > 0 ? options.threads : usable_cpu_count();
}

}  // namespace carat
