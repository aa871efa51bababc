// --device: the one place that knows which backends exist.
#pragma once
#include <memory>
#include <string>

#include "engine/runner.h"

namespace carat {

struct DeviceOptions {
  std::string device = "cpu";  // "cpu", "ref", "cuda" or "cuda:N"
  int threads = 0;             // cpu: 0 for the cores this process may use
  std::string isa;             // cpu: empty for the best this machine has
  std::string format;          // cpu: "bf16", "int8", "int4"; empty: as stored
  bool mmap = false;           // cpu: read the checkpoint's pages in place
};

/// Whether `device` is spelled like one that may exist.
bool is_device_name(const std::string& device);

/// Throws Error{invalid_argument} for an unknown device or an option the device doesn't have,
/// Error{unavailable} when it can't be used here. Shows the progress of loading on stderr unless `quiet`.
std::unique_ptr<Runner> make_runner(ModelPlan plan, const RunnerOptions& limits, const DeviceOptions& options,
                                    bool quiet);

/// Threads on this machine that read the weights of a decode step; 0 when a device reads them from its own
/// memory.
int reading_threads(const DeviceOptions& options);

}  // namespace carat
