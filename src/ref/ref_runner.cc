#include "ref/ref_runner.h"

#include "engine/host_runner.h"
#include "model/gemma4_plan.h"
#include "ref/ref_blocks.h"

namespace carat {
namespace {

class RefRunner final : public HostRunner {
 public:
  RefRunner(ModelPlan plan, const RunnerOptions& options)
      : HostRunner(describe(plan, options)),
        plan_(std::move(plan)),
        kv_(plan_.kv_groups, options),
        blocks_(plan_, kv_) {}

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
    return {"ref",      options,       bytes_per_token(plan), kv_bytes_per_token(plan, sizeof(float)),
            plan.vocab, plan.kv_groups};
  }

  const ModelPlan plan_;
  RefKv kv_;
  RefBlocks blocks_;
};

}  // namespace

std::unique_ptr<Runner> make_ref_runner(ModelPlan plan, const RunnerOptions& options) {
  return std::make_unique<RefRunner>(std::move(plan), options);
}

}  // namespace carat
