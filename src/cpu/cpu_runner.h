// The production CPU backend: weights at memory speed, one thread pool, kernels chosen once for the machine.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/runner.h"

namespace carat {

struct CpuOptions {
  int threads = 0;     // 0: the cores this process may use
  std::string isa;     // "scalar", "avx2", "avx512", "neon"; empty: the best this machine has
  std::string format;  // "bf16", "int8", "int4"; empty: as stored
  bool mmap = false;   // read the checkpoint's pages in place instead of repacking them
  std::function<void(double fraction)> progress;  // of loading; called from the calling thread
};

std::unique_ptr<Runner> make_cpu_runner(ModelPlan plan, const RunnerOptions& options, const CpuOptions& cpu);

}  // namespace carat
