#include "ref/ref_runner.h"

#include <optional>

#include "base/error.h"
#include "engine/host_runner.h"
#include "model/gemma4_plan.h"
#include "ref/ref_blocks.h"
#include "ref/ref_drafter.h"

namespace carat {
namespace {

class RefRunner final : public HostRunner {
 public:
  RefRunner(ModelPlan plan, const RunnerOptions& options)
      : HostRunner(describe(plan, options)),
        plan_(std::move(plan)),
        kv_(plan_.kv_groups, options),
        blocks_(plan_, kv_) {
    if (plan_.drafter) drafter_.emplace(plan_, blocks_, kv_);
  }

  std::vector<int32_t> draft(const DraftRows& rows, int count) override {
    return guess(drafter_.value(), *plan_.drafter, rows, count);
  }

  void copy_pages(std::span<const PageCopy> copies) override {
    for (const PageCopy& copy : copies) kv_.copy_page(copy);
  }

 protected:
  std::span<float> run(const StepRows& step) override {
    forward(blocks_, plan_, step);
    return step.tail_rows.empty() ? std::span<float>{} : blocks_.logits();
  }

 private:
  static RunnerInfo describe(const ModelPlan& plan, const RunnerOptions& options) {
    return {"ref",      options,        bytes_per_token(plan),  kv_bytes_per_token(plan, sizeof(float)),
            plan.vocab, plan.kv_groups, plan.drafter != nullptr};
  }

  const ModelPlan plan_;
  RefKv kv_;
  RefBlocks blocks_;
  std::optional<RefDrafter> drafter_;
};

}  // namespace

std::unique_ptr<Runner> make_ref_runner(ModelPlan plan, const RunnerOptions& options) {
  if (options.kv_type == KvType::f16)
    fail(ErrorKind::unsupported, "the reference backend keeps K and V as f32, or as int8");
  return std::make_unique<RefRunner>(std::move(plan), options);
}

}  // namespace carat
