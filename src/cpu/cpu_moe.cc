// The mixture-of-experts part of CpuBlocks: a step's tokens are gathered by expert, so one pass over an
// expert's weights serves all tokens that chose it.
#include <algorithm>
#include <cmath>

#include "cpu/cpu_blocks.h"

namespace carat {
namespace {

/// Rows [first, ...) of x.
Activations from_row(const Activations& x, int64_t first) {
  Activations part = x;
  part.values += first * x.stride;
  if (x.quantized) {
    part.quantized += first * x.quantized_stride;
    part.blocks += first * x.blocks_stride;
  }
  return part;
}

}  // namespace

void CpuBlocks::moe_ffn(const LayerPlan& l, const Rows& rows) {
  const MoePlan& moe = *l.moe;
  dense_mlp(l, rows.count());
  route(l, rows.count());
  run_experts(l, rows.count());
  for_rows(rows.count(), [&](int row, int) {
    float* branch = branch_.row(row);
    float* sum = sum_experts(row);
    kernels_.rms_norm(branch, moe.post_dense.data(), plan_.norm_eps, plan_.d_model, branch);
    kernels_.rms_norm(sum, moe.post_experts.data(), plan_.norm_eps, plan_.d_model, sum);
    kernels_.weighted_sum(1.f, branch, 1.f, sum, plan_.d_model, branch);
  });
  add_ffn_branch(l, rows.count());
}

/// Chooses the experts: router(norm(x) * scale / sqrt(d_model)).
void CpuBlocks::route(const LayerPlan& l, int count) {
  const MoePlan& moe = *l.moe;
  const float scale = 1.f / std::sqrt(static_cast<float>(plan_.d_model));
  for_rows(count, [&](int row, int) {
    float* u = xn_.row(row);
    kernels_.rms_norm(x_.row(row), moe.router_scale.data(), plan_.norm_eps, plan_.d_model, u);
    kernels_.weighted_sum(scale, u, 0.f, u, plan_.d_model, u);
  });
  multiply({{&weights_.layers[static_cast<std::size_t>(l.index)].router, &router_}}, xn_, count);
  for_rows(count, [&](int row, int) {
    routing_.choose(row, {router_.row(row), static_cast<std::size_t>(moe.experts)}, moe.expert_scale);
  });
  routing_.group(count);
}

/// expert_out = down(gelu(gate m) * up m) for every visit, m = norm(x, pre_experts).
void CpuBlocks::run_experts(const LayerPlan& l, int count) {
  const MoePlan& moe = *l.moe;
  const std::vector<PackedExpert>& experts = weights_.layers[static_cast<std::size_t>(l.index)].experts;
  const int visits = count * moe.experts_per_token;
  for_rows(visits, [&](int visit, int) {
    const int32_t row = routing_.visits()[static_cast<std::size_t>(visit)].row;
    kernels_.rms_norm(x_.row(row), moe.pre_experts.data(), plan_.norm_eps, plan_.d_model,
                      expert_in_.row(visit));
  });
  const Activations in = activations(expert_in_, experts[0].gate, visits);
  for_expert_shares(
      experts[0].gate.panels(), [&](const ExpertRouting::Group& group, IndexRange panels, int thread) {
        const PackedExpert& expert = experts[static_cast<std::size_t>(group.expert)];
        gated_panels(expert.gate, expert.up, panels, from_row(in, group.first_visit), group.visits,
                     expert_hidden_, group.first_visit, scratch_[static_cast<std::size_t>(thread)].tile);
      });
  const Activations hidden = activations(expert_hidden_, experts[0].down, visits);
  for_expert_shares(experts[0].down.panels(), [&](const ExpertRouting::Group& group, IndexRange panels, int) {
    kernels_.matmul(experts[static_cast<std::size_t>(group.expert)].down, panels.first, panels.count(),
                    from_row(hidden, group.first_visit), group.visits, expert_out_.row(group.first_visit),
                    expert_out_.stride());
  });
}

/// Lays `panels` panels of every chosen expert end to end and calls work(group, panels, thread) for the
/// pieces of each thread's share.
template <class Work>
void CpuBlocks::for_expert_shares(int64_t panels, const Work& work) {
  const auto groups = routing_.groups();
  pool_.run([&](int thread) {
    const IndexRange share = share_of(panels * static_cast<int64_t>(groups.size()), thread, pool_.size());
    for (int64_t at = share.first; at < share.last;) {
      const int64_t group = at / panels, first = at % panels,
                    last = std::min(panels, first + share.last - at);
      work(groups[static_cast<std::size_t>(group)], IndexRange{first, last}, thread);
      at += last - first;
    }
  });
}

/// The weighted sum of a row's expert results, by ascending expert; it replaces the first of them.
float* CpuBlocks::sum_experts(int row) {
  const auto visits = routing_.visits_of(row);
  const auto weight = [&](int32_t visit) {
    return routing_.visits()[static_cast<std::size_t>(visit)].weight;
  };
  float* sum = expert_out_.row(visits[0]);
  kernels_.weighted_sum(weight(visits[0]), sum, 0.f, sum, plan_.d_model, sum);
  for (const int32_t visit : visits.subspan(1)) {
    kernels_.weighted_sum(1.f, sum, weight(visit), expert_out_.row(visit), plan_.d_model, sum);
  }
  return sum;
}

}  // namespace carat
