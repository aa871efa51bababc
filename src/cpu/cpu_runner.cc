#include "cpu/cpu_runner.h"

#include <utility>

#include "cpu/cpu_blocks.h"
#include "engine/host_runner.h"
#include "model/formats.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

/// K and V in 16 bits shift logits by up to 1e-2 on small models: ten times the tolerance of an exact
/// backend, and far less than what quantised weights do.
KvFormat kv_format(const PackedWeights& weights) {
  return weights.quantized() ? KvFormat::f16 : KvFormat::f32;
}

class CpuRunner final : public HostRunner {
 public:
  CpuRunner(ModelPlan plan, const RunnerOptions& limits, std::unique_ptr<ThreadPool> pool,
            PackedWeights weights, const Kernels& kernels)
      : HostRunner(describe(plan, limits, weights)),
        plan_(std::move(plan)),
        pool_(std::move(pool)),
        weights_(std::move(weights)),
        kv_(plan_.kv_groups, limits, kv_format(weights_)),
        blocks_(plan_, weights_, limits, kv_, kernels, *pool_) {}

  void copy_pages(std::span<const PageCopy> copies) override {
    for (const PageCopy& copy : copies) kv_.copy_page(copy);
  }

 protected:
  std::span<float> run(const StepRows& step) override {
    blocks_.begin(step);
    forward(blocks_, plan_, step);
    return blocks_.logits();
  }

 private:
  static RunnerInfo describe(const ModelPlan& plan, const RunnerOptions& limits,
                             const PackedWeights& weights) {
    const std::size_t element_bytes = kv_format(weights) == KvFormat::f16 ? 2 : 4;
    std::size_t row_bytes = size_bytes(slice_rows(plan.embed, 0, 1));
    if (plan.ple_dim > 0) row_bytes += size_bytes(slice_rows(plan.ple_table, 0, 1));
    return {"cpu",
            limits,
            weights.bytes_per_token() + row_bytes,
            kv_bytes_per_token(plan, element_bytes),
            plan.vocab,
            plan.kv_groups};
  }

  const ModelPlan plan_;
  const std::unique_ptr<ThreadPool> pool_;
  const PackedWeights weights_;
  CpuKv kv_;
  CpuBlocks blocks_;
};

}  // namespace

std::unique_ptr<Runner> make_cpu_runner(ModelPlan plan, const RunnerOptions& options, const CpuOptions& cpu) {
  const Kernels& kernels = kernels_for(choose_isa(cpu.isa));
  auto pool = std::make_unique<ThreadPool>(cpu.threads);
  PackOptions pack{.format = {}, .in_place = cpu.mmap, .progress = cpu.progress};
  if (!cpu.format.empty()) pack.format = parse_format(cpu.format);
  PackedWeights weights(plan, pack, kernels, *pool);
  return std::make_unique<CpuRunner>(std::move(plan), options, std::move(pool), std::move(weights), kernels);
}

}  // namespace carat
