#include "cpu/cpu_runner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cpu/cpu_blocks.h"
#include "cpu/cpu_drafter.h"
#include "engine/host_runner.h"
#include "model/formats.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

/// K and V in 16 bits shift logits by up to 1e-2 on small models: ten times the tolerance of an exact
/// backend, and far less than what quantised weights do.
KvFormat kv_format(const PackedWeights& weights, KvType wanted) {
  switch (wanted) {
    case KvType::f32:
      return KvFormat::f32;
    case KvType::f16:
      return KvFormat::f16;
    case KvType::int8:
      return KvFormat::int8;
    case KvType::automatic:
      break;
  }
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
        kv_(plan_.kv_groups, limits, kv_format(weights_, limits.kv_type)),
        blocks_(plan_, weights_, limits, kv_, kernels, *pool_) {
    if (plan_.drafter) drafter_.emplace(plan_, blocks_, limits, kv_, kernels, *pool_);
  }

  std::vector<int32_t> draft(const DraftRows& rows, int count) override {
    return guess(drafter_.value(), *plan_.drafter, rows, count);
  }

  void time_phases(bool on) override { times_phases_ = on; }
  StepTimes phase_times() override { return std::exchange(times_, {}); }

  void copy_pages(std::span<const PageCopy> copies) override {
    for (const PageCopy& copy : copies) kv_.copy_page(copy);
  }

 protected:
  std::span<float> run(const StepRows& step) override {
    kv_.use(step.page_tables);
    blocks_.begin(step);
    if (times_phases_) {
      PhaseClock clock(times_.of(step.all));
      MarkedBlocks marked(blocks_, clock);
      forward(marked, plan_, step);
    } else {
      forward(blocks_, plan_, step);
    }
    return blocks_.logits();
  }

  std::vector<int32_t> draw(std::span<float> logits, std::span<const RowSampling> sampling) override {
    const auto vocab = static_cast<std::size_t>(plan_.vocab);
    CHECK(logits.size() == sampling.size() * vocab);
    if (sampling.size() == 1) return draw_rows(logits, plan_.vocab, sampling);
    std::vector<int32_t> tokens(sampling.size());
    pool_->run_throwing([&](int thread) {
      const IndexRange rows = share_of(std::ssize(tokens), thread, pool_->size());
      const auto first = static_cast<std::size_t>(rows.first), count = static_cast<std::size_t>(rows.count());
      std::ranges::copy(draw_rows(logits.subspan(first * vocab, count * vocab), plan_.vocab,
                                  sampling.subspan(first, count)),
                        tokens.begin() + rows.first);
    });
    return tokens;
  }

 private:
  static RunnerInfo describe(const ModelPlan& plan, const RunnerOptions& limits,
                             const PackedWeights& weights) {
    const KvFormat format = kv_format(weights, limits.kv_type);
    const std::size_t scale_bytes = format == KvFormat::int8 ? sizeof(float) : 0;
    std::size_t row_bytes = size_bytes(slice_rows(plan.embed, 0, 1));
    if (plan.ple_dim > 0) row_bytes += size_bytes(slice_rows(plan.ple_table, 0, 1));
    return {"cpu",
            limits,
            weights.bytes_per_token() + row_bytes,
            kv_bytes_per_token(plan, static_cast<std::size_t>(kv_element_bytes(format)), scale_bytes),
            plan.vocab,
            plan.kv_groups,
            plan.drafter != nullptr};
  }

  const ModelPlan plan_;
  const std::unique_ptr<ThreadPool> pool_;
  const PackedWeights weights_;
  CpuKv kv_;
  CpuBlocks blocks_;
  std::optional<CpuDrafter> drafter_;
  bool times_phases_ = false;
  StepTimes times_;
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
