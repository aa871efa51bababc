#include "cuda/cuda_drafter.h"

#include <algorithm>

#include "base/error.h"

namespace carat::cuda {
namespace {

/// A row's token has no K/V yet: it stands behind the last key that it sees.
constexpr int kLead = 1;

/// Whether one row can take the kernels for single rows. These bring a row of weights on chip at a time: too
/// little for a dense head of short rows.
bool supports_single_row(const DrafterPlan& plan, const Queue& queue) {
  constexpr std::size_t kFewestHeadBytes = 1024;
  const Linear& head = plan.model.head;
  if (head && row_bytes(head.format, head.cols) < kFewestHeadBytes) return false;
  const auto supports_columns = [](const Linear& w) {
    return matvec_supports(w.format, static_cast<int>(w.cols));
  };
  return SingleRow::supports(plan.model, queue) && supports_columns(plan.pre) &&
         supports_columns(plan.post) && (!plan.ordered.centroids || supports_columns(plan.ordered.centroids));
}

/// Logits of one row: of an ordered head those of its centroids.
std::size_t logits_of(const DrafterPlan& plan) {
  return static_cast<std::size_t>(plan.ordered.centroids ? plan.ordered.centroids.rows : plan.model.vocab);
}

}  // namespace

CudaDrafter::CudaDrafter(const ModelPlan& target, const CudaBlocks& target_blocks, const KvStorage& kv,
                         const RunnerOptions& limits, Queue& queue, bool fused_single_rows)
    : target_(target),
      target_blocks_(target_blocks),
      queue_(queue),
      plan_(*target.drafter),
      weights_(upload_weights(plan_)),
      cluster_tokens_(plan_.ordered.tokens.size()),
      upload_(plan_.model, one_row_each(limits), queue.shared_bytes),
      blocks_(plan_.model, kv, one_row_each(limits), queue, /*fast_prompts=*/false) {
  const auto rows = static_cast<std::size_t>(limits.max_sequences);
  const auto d = static_cast<std::size_t>(target.d_model);
  joined_hi_ = DeviceArray<bfloat16>(rows * 2 * d);
  joined_lo_ = DeviceArray<bfloat16>(rows * 2 * d);
  hidden_ = DeviceArray<float>(rows * d);
  logits_ = DeviceArray<float>(rows * logits_of(plan_));
  found_clusters_ = DeviceArray<int32_t>(rows * static_cast<std::size_t>(plan_.ordered.searched));
  candidate_values_ = DeviceArray<float>(rows * kGreedyChunks);
  candidate_ids_ = DeviceArray<int32_t>(rows * kGreedyChunks);
  if (fused_single_rows && supports_single_row(plan_, queue)) {
    single_row_.emplace(plan_.model, kv, blocks_, queue, kLead);
    joined32_ = DeviceArray<float>(2 * d);
    x_ = DeviceArray<float>(static_cast<std::size_t>(plan_.model.d_model));
  }
  if (cluster_tokens_.size() == 0) return;
  check(cudaMemcpy(cluster_tokens_.data(), plan_.ordered.tokens.data(), cluster_tokens_.bytes(),
                   cudaMemcpyHostToDevice),
        "upload");
  plan_.ordered.tokens = {};
}

std::size_t CudaDrafter::weight_bytes(const DrafterPlan& plan) {
  DrafterPlan copy = plan;
  return cuda::weight_bytes(copy) + plan.ordered.tokens.size() * sizeof(int32_t);
}

std::size_t CudaDrafter::buffer_bytes(const ModelPlan& target, const RunnerOptions& limits, int sm_count) {
  const DrafterPlan& plan = *target.drafter;
  const auto rows = static_cast<std::size_t>(limits.max_sequences);
  const std::size_t per_row = 3 * static_cast<std::size_t>(target.d_model) + logits_of(plan) +
                              static_cast<std::size_t>(plan.ordered.searched) + 2 * kGreedyChunks;
  constexpr std::size_t kRounds = 4;  // of a graph, on average
  const RunnerOptions rounds = one_row_each(limits);
  return graph_cache_bytes(kRounds * plan.model.layers.size()) +
         CudaBlocks::bytes(plan.model, rounds, sm_count) + StepUpload::bytes(plan.model, rounds) +
         SingleRow::bytes(plan.model, sm_count) + rows * per_row * 4;
}

std::vector<int32_t> CudaDrafter::draft(const DraftRows& rows, const DeviceStep& last, int count) {
  const auto row_count = static_cast<std::size_t>(rows.count()), rounds = static_cast<std::size_t>(count);
  reserve_guesses(row_count * rounds);
  const DeviceStep step = pack(rows);
  upload_.copy(queue_, 0);
  run(step, target_blocks_.final_residuals(last), rows.past.front() - kLead, count);
  if (queue_.status == cudaSuccess)
    queue_.status =
        cudaMemcpyAsync(host_guesses_.data(), guesses_.data(), row_count * rounds * sizeof(int32_t),
                        cudaMemcpyDeviceToHost, queue_.stream);
  check(queue_.status, "launching a drafter");
  done_.record(queue_.stream);
  done_.wait();
  std::vector<int32_t> guesses;
  for (std::size_t r = 0; r < row_count; ++r)
    for (std::size_t i = 0; i < rounds; ++i)
      guesses.push_back(std::max(0, host_guesses_[i * row_count + r]));  // a failed guess: any token
  return guesses;
}

/// Rows as they stand in a step whose last key they see. The rows of the final states take the place of its
/// tail rows.
DeviceStep CudaDrafter::pack(const DraftRows& rows) {
  const std::vector<Segment> seen = draft_segments(rows, /*seen=*/true);
  const Rows all{rows.tokens, seen};
  return upload_.pack(0, {all, all, rows.logit_rows, rows.page_tables}, /*suppressed=*/{});
}

/// Grows to the largest number of guesses asked for.
void CudaDrafter::reserve_guesses(std::size_t size) {
  if (guesses_.size() >= size) return;
  graphs_.clear();  // they know the buffer
  guesses_ = DeviceArray<int32_t>();
  guesses_ = DeviceArray<int32_t>(size);
  host_guesses_ = PinnedArray<int32_t>(size);
}

void CudaDrafter::run(const DeviceStep& step, const float* states, int position, int count) {
  const auto launch_all = [&] {
    step_ = step;
    position_ = position;
    round_ = 0;
    join_.states = states;
    join_.state_rows = step.tail_rows;
    join_.norm = target_.layers.back().tail.next_norm.data();
    blocks_.begin(step, logits_.data(), kLead);
    guess_rounds(*this, plan_, Tokens{step.tokens}, count, [](int, Tokens) {});
  };
  const int length_class = step.all.count == 1 ? SingleRow::length_class(position) : 0;
  graphs_.run(queue_, {step, states, count, length_class}, launch_all);
}

void CudaDrafter::join(const DrafterPlan& d, Tokens tokens) {
  join_.tokens = tokens;
  join_.soft = target_blocks_.soft_tokens();
  join_.table = matrix(target_.embed);
  join_.scale = target_.embed_scale;
  join_.eps = target_.norm_eps;
  join_.d_model = target_.d_model;
  join_.joined = {joined_hi_.data(), joined_lo_.data()};
  join_.joined32 = single() ? joined32_.data() : nullptr;
  cuda::join(queue_, join_, rows());
  if (!single()) return blocks_.start(d.pre, join_.joined);
  multiply(d.pre, SingleRow::plain(joined32_.data()), x_.data());
  next_ = single_row_->start(x_.data());
}

void CudaDrafter::layer(const LayerPlan& l) {
  if (single()) {
    next_ = single_row_->layer(l, step_, position_, next_);
    return;
  }
  blocks_.qkv(l, {}, {});
  blocks_.attend(l, {}, {});
  blocks_.attention_out(l, {});
  blocks_.ffn(l, {});
}

CudaDrafter::Tokens CudaDrafter::likeliest(const DrafterPlan& d) {
  GreedyArgs args{};
  args.logits = logits_.data();
  args.vocab = d.model.vocab;
  args.candidate_values = candidate_values_.data();
  args.candidate_ids = candidate_ids_.data();
  args.drawn = guesses_.data() + std::ptrdiff_t{round_++} * rows();
  if (d.ordered.centroids) {
    search(d.ordered);
    pick_greedy(queue_, args, rows());
  } else if (single()) {
    single_row_->head(step_, next_, logits_.data());
    single_row_->draw(args.drawn, args.drawn);
  } else {
    blocks_.logits(d.model, {});
    greedy(queue_, args, rows());
  }
  return args.drawn;
}

void CudaDrafter::search(const OrderedHead& head) {
  multiply_final(head.centroids, logits_.data());
  ClusterArgs clusters{};
  clusters.logits = logits_.data();
  clusters.clusters = static_cast<int>(head.centroids.rows);
  clusters.searched = head.searched;
  clusters.found = found_clusters_.data();
  best_clusters(queue_, clusters, rows());
  ClusterTokenArgs tokens{};
  tokens.x = single() ? next_.x_out : blocks_.final_residuals(step_);
  tokens.norm = plan_.model.layers.back().tail.next_norm.data();
  tokens.eps = plan_.model.norm_eps;
  tokens.head = matrix(head.embed);
  tokens.tokens = cluster_tokens_.data();
  tokens.found = found_clusters_.data();
  tokens.searched = head.searched;
  tokens.cluster_size = head.cluster_size();
  tokens.candidate_values = candidate_values_.data();
  tokens.candidate_ids = candidate_ids_.data();
  best_cluster_tokens(queue_, tokens, rows());
}

void CudaDrafter::multiply_final(const Linear& w, float* out) {
  if (single()) return multiply(w, next_, out);
  MatmulOutput output;
  output.out = out;
  matmul(queue_, matrix(w), blocks_.final_states(), rows(), output);
}

void CudaDrafter::multiply(const Linear& w, const VectorInput& input, float* out) {
  MatvecArgs args{};
  args.w = matrix(w);
  args.input = input;
  args.output.out = out;
  matvec(queue_, args);
}

void CudaDrafter::next_hidden(const DrafterPlan& d) {
  multiply_final(d.post, hidden_.data());
  join_.states = hidden_.data();
  join_.state_rows = nullptr;
  join_.norm = nullptr;
}

}  // namespace carat::cuda
