// The one place that knows which backends exist.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/runner.h"

namespace carat {

struct DeviceOptions {
  std::string device = "cpu";  // "cpu", "ref", "cuda" or "cuda:N"
  int threads = 0;             // cpu: 0 for the cores this process may use
  std::string isa;             // cpu: empty for the best this machine has
  std::string format;          // cpu: "bf16", "int8", "int4"; empty: as stored
  bool mmap = false;           // cpu: read the checkpoint's pages in place
  /// For K and V: a share of what is free beside the weights ("0.9") or an amount ("8GiB"). Empty: the
  /// default of whoever sizes them; see engine_setup.h.
  std::string kv_memory;
  std::string kv_type = {};  // "f32" (cpu, ref), "f16" (cpu, cuda), "int8"; empty: the device's choice
};

/// How much of loading is done, in [0, 1].
using LoadProgress = std::function<void(double fraction)>;

/// Whether `device` is spelled like one that may exist.
bool is_device_name(const std::string& device);

/// Throws Error{invalid_argument} for an unknown device or an option the device doesn't have,
/// Error{unavailable} when it can't be used here. `progress`, if any, hears of loading, from this thread.
/// options.kv_type counts, not that of `limits`.
std::unique_ptr<Runner> make_runner(ModelPlan plan, RunnerOptions limits, const DeviceOptions& options,
                                    const LoadProgress& progress = {});

/// Bytes of one number of K or V in the device's memory.
std::size_t kv_value_bytes(const ModelPlan& plan, const DeviceOptions& options);
/// Of what comes with K, and as much with V, of each token and head.
std::size_t kv_scale_bytes(const DeviceOptions& options);

/// Bytes that the device, which may be the machine itself, has free beside the weights and what steps of so
/// many sequences and tokens take; 0 when unknown or when not even those fit. Throws as make_runner() does.
std::size_t free_bytes_for_kv(ModelPlan plan, const DeviceOptions& options, int sequences, int step_tokens);

/// Tokens of the step with which a device reads prompts fastest.
int prompt_step_tokens(const DeviceOptions& options);

/// Bytes per second at which a GPU reads its memory; nothing for other devices and when there is too little
/// memory to measure it.
std::optional<double> gpu_read_bandwidth(const DeviceOptions& options);

/// Bfloat16 operations per second of a GPU's tensor cores; nothing for other devices.
std::optional<double> gpu_matrix_rate(const DeviceOptions& options);

/// Bytes of the last cache before the memory that the weights lie in; 0 when unknown.
std::size_t cache_bytes(const DeviceOptions& options);

/// Threads on this machine that read the weights of a decode step; 0 when a device reads them from its own
/// memory.
int reading_threads(const DeviceOptions& options);

}  // namespace carat
