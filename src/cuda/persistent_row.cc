#include "cuda/persistent_row.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "cuda/packed_rows.h"

namespace carat::cuda {
namespace {

/// Shared memory of the kernel that isn't allocated dynamically, and what the system takes.
constexpr int kStaticSharedBytes = 5 * 512;

constexpr int round_up_floats(int floats) { return round_up(floats, 4); }

template <class T>
DeviceArray<T> upload(const std::vector<T>& values) {
  DeviceArray<T> array(values.size());
  check(cudaMemcpy(array.data(), values.data(), array.bytes(), cudaMemcpyHostToDevice), "upload");
  return array;
}

/// Words that nobody has written.
template <class Word>
DeviceArray<Word> no_words(std::size_t size) {
  DeviceArray<Word> words(size);
  check(cudaMemset(words.data(), 0, words.bytes()), "cudaMemset");
  return words;
}

/// Such as "attention sliding" and "q k v 1536", the columns of its input.
std::string name_of(Phase name, const TokenPhase& phase) {
  const std::string what = phase_name(name);
  if (phase.kind == PhaseKind::attention) return what + (phase.window > 0 ? " sliding" : " full");
  return phase.kind == PhaseKind::product ? what + " " + std::to_string(phase.cols) : what;
}

int head_pairs(const ModelPlan& plan, int group) {
  const KvGroup& g = plan.kv_groups[static_cast<std::size_t>(group)];
  return g.layers > 0 ? g.head_dim / 2 : 0;
}

/// CTAs of each KV head in layers that see everything, as a power of two; -1 where the kernel cannot share
/// out their heads so.
int group_parts_shift(const ModelPlan& plan, int ctas) {
  int shift = -1;
  for (const LayerPlan& l : plan.layers) {
    const AttentionPlan& a = l.attention;
    if (a.window > 0) continue;
    const int kv_heads = plan.kv_groups[static_cast<std::size_t>(a.kv_group)].kv_heads,
              group = a.heads / kv_heads;
    const int parts =
        std::min(kMostGroupParts, static_cast<int>(std::bit_floor(static_cast<unsigned>(ctas / kv_heads))));
    const int share = group * a.head_dim / parts;
    if (group > kMostGroup || !std::has_single_bit(static_cast<unsigned>(group)) || parts < 8 || share < 1 ||
        share > 32)
      return -1;
    shift = std::countr_zero(static_cast<unsigned>(parts));
  }
  return shift;
}

/// Whether a CTA's keys, where it has one query head, fit ContextPart.
bool has_rows(const ModelPlan& plan, int page_tokens, int ctas) {
  if (!std::has_single_bit(static_cast<unsigned>(page_tokens)) || page_tokens < ContextPart::kTile)
    return false;
  return std::ranges::all_of(plan.layers, [&](const LayerPlan& l) {
    const int heads = l.attention.heads, most = std::min(kMostContextParts, ctas / heads);
    const int parts = static_cast<int>(std::bit_floor(static_cast<unsigned>(most)));
    return heads <= ctas && std::max(l.attention.window, kGroupedFrom) <= parts * ContextPart::kMostRows;
  });
}

/// Floats behind the ring that don't depend on the schedule's vectors and sums.
int fixed_floats(const ModelPlan& plan) {
  return plan.d_model + 2 * (head_pairs(plan, 0) + head_pairs(plan, 1));
}

}  // namespace

bool PersistentRow::takes(int position) const { return position < most_positions_; }

bool PersistentRow::supports(const ModelPlan& plan, int page_tokens, const Queue& queue,
                             int shared_bytes_per_block) {
  constexpr int kFewestStages = static_cast<int>(kFewestRingStages), kVectorAndSumsBytes = 40 * 1024;
  return queue.overlap && has_rows(plan, page_tokens, queue.sm_count) &&
         persistent_supports(plan, queue.sm_count) &&
         kFewestStages * ring_stage_bytes(persistent_format(plan)) + fixed_floats(plan) * 4 +
                 kVectorAndSumsBytes <=
             shared_bytes_per_block;
}

PersistentRow::PersistentRow(const ModelPlan& plan, const KvStorage& kv, const CudaBlocks& blocks,
                             Queue& queue, int shared_bytes_per_block)
    : queue_(queue), soft_tokens_(blocks.soft_tokens()) {
  std::size_t heads = 0, qkv = 0, hidden = 0;
  KvLayers layers;
  for (const LayerPlan& l : plan.layers) {
    const AttentionPlan& a = l.attention;
    layers.push_back(kv.layer(a));
    heads = std::max(heads, static_cast<std::size_t>(a.heads * a.head_dim));
    qkv = std::max(qkv, static_cast<std::size_t>((a.heads + 2 * layers.back().kv_heads) * a.head_dim));
    hidden = std::max(hidden, static_cast<std::size_t>(l.intermediate_size));
    const auto group = static_cast<std::size_t>(a.kv_group);
    args_.frequencies[group] = blocks.frequencies(a.kv_group);
    args_.rotary_pairs[group] = a.rope.rotary_pairs;
    args_.head_pairs[group] = head_pairs(plan, a.kv_group);
    const KvLayer& kv_layer = layers.back();
    args_.contexts[group] = {a.heads,
                             a.kv_heads,
                             a.head_dim,
                             a.window,
                             static_cast<uint32_t>(kv_layer.page_stride / 8),
                             kv_layer.low_offset > 0};
  }
  const auto ctas = static_cast<std::size_t>(queue.sm_count);
  qkv_ = no_words<TaggedFloat>(qkv);
  branch_ = no_words<MarkedFloat>(static_cast<std::size_t>(plan.d_model));
  mixed_ = no_words<MarkedFloat>(static_cast<std::size_t>(plan.ple_dim));
  hidden_ = DeviceArray<float>(hidden);
  projected_ = DeviceArray<float>(static_cast<std::size_t>(plan.ple_dim) * plan.layers.size());
  per_layer_ = DeviceArray<float>(static_cast<std::size_t>(plan.ple_dim) * plan.layers.size());
  for (DeviceArray<MarkedFloat>& context : contexts_) context = no_words<MarkedFloat>(heads);
  parts_ = no_words<TaggedFloat>(heads * kMostGroupParts);
  part_sizes_ = no_words<TaggedFloat>(static_cast<std::size_t>(plan.layers.front().attention.heads) *
                                      kMostGroupParts * 2);
  candidate_values_ = DeviceArray<float>(ctas);
  candidate_ids_ = DeviceArray<int32_t>(ctas);
  schedule_ = persistent_schedule(plan, layers,
                                  {hidden_.data(),
                                   projected_.data(),
                                   per_layer_.data(),
                                   qkv_.data(),
                                   branch_.data(),
                                   mixed_.data(),
                                   {contexts_[0].data(), contexts_[1].data()}},
                                  queue.sm_count);
  phases_ = upload(schedule_.phases);
  tape_ = upload(schedule_.tape);
  ranges_ = upload(schedule_.ranges);
  counters_ = DeviceArray<unsigned>(schedule_.phases.size() * kCounterWords);
  check(cudaMemset(counters_.data(), 0, counters_.bytes()), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  int device = 0, clock_khz = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device), "cudaDeviceGetAttribute");
  clock_hz_ = 1e3 * clock_khz;
  set_args(plan, layers.front().page_tokens, shared_bytes_per_block);
}

/// What stays the same from step to step.
void PersistentRow::set_args(const ModelPlan& plan, int page_tokens, int shared_bytes_per_block) {
  args_.phases = phases_.data();
  args_.phase_count = static_cast<int>(schedule_.phases.size());
  args_.tape = tape_.data();
  args_.ranges = ranges_.data();
  args_.counters = counters_.data();
  args_.format = persistent_format(plan);
  args_.stage_bytes = ring_stage_bytes(args_.format);
  args_.vector_at = round_up_floats(plan.d_model);
  args_.sums_at = args_.vector_at + round_up_floats(schedule_.vector_floats);
  args_.rope_at = args_.sums_at + round_up_floats(schedule_.sums_floats);
  args_.parts_at = round_up_floats(args_.rope_at + 2 * (args_.rotary_pairs[0] + args_.rotary_pairs[1]));
  const int floats = args_.parts_at + 2 * static_cast<int>(sizeof(ContextPart) / sizeof(float));
  args_.group_parts_shift = group_parts_shift(plan, queue_.sm_count);
  args_.page_shift = std::countr_zero(static_cast<unsigned>(page_tokens));
  most_positions_ = args_.group_parts_shift < 0
                        ? kGroupedFrom
                        : ContextPart::kMostRows * ContextPart::kTile << args_.group_parts_shift;
  args_.stages = std::min(kMostRingStages,
                          (shared_bytes_per_block - kStaticSharedBytes - 4 * floats) / args_.stage_bytes);
  shared_bytes_ = static_cast<std::size_t>(args_.stages * args_.stage_bytes + 4 * floats);
  args_.embedding = matrix(plan.embed);
  args_.embed_scale = plan.embed_scale;
  args_.d_model = plan.d_model;
  args_.ple_dim = plan.ple_dim;
  args_.eps = plan.norm_eps;
  args_.qkv = qkv_.data();
  args_.parts = parts_.data();
  args_.part_sizes = part_sizes_.data();
  args_.head.finish = VectorFinish::logits;
  args_.head.cap = plan.logit_cap;
  args_.head.candidate_values = candidate_values_.data();
  args_.head.candidate_ids = candidate_ids_.data();
}

void PersistentRow::run(const DeviceStep& step, const StepUpload& upload, int slot, float* logits,
                        int32_t* drawn, int32_t* host_token) {
  if (queue_.status != cudaSuccess) return;
  fetch_step(queue_, upload.host_words(slot), upload.device_words(), step.tokens, drawn, soft_tokens_);
  args_.token = step.tokens;
  args_.position = step.tail.places.positions;
  args_.tables = step.tables;
  args_.head.out = logits;
  args_.head.suppressed = step.suppressed;
  args_.head.suppressed_count = step.suppressed_count;
  args_.drawn = drawn;
  args_.host_token = host_token;
  ++args_.launch;
  persistent_step(queue_, args_, shared_bytes_);
}

void PersistentRow::record_times(bool on) {
  if (on && cycles_.size() == 0) {
    cycles_ = DeviceArray<PhaseCycles>(schedule_.phases.size());
    check(cudaMemset(cycles_.data(), 0, cycles_.bytes()), "cudaMemset");
  }
  args_.cycles = on ? cycles_.data() : nullptr;
}

std::vector<PhaseCycles> PersistentRow::cycles() const {
  std::vector<PhaseCycles> cycles(cycles_.size());
  if (cudaStreamSynchronize(queue_.stream) != cudaSuccess ||
      cudaMemcpy(cycles.data(), cycles_.data(), cycles_.bytes(), cudaMemcpyDeviceToHost) != cudaSuccess)
    return {};
  return cycles;
}

void PersistentRow::add_times(PhaseTimes& times) const {
  const std::vector<PhaseCycles> cycles = this->cycles();
  ++times.steps;
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    const PhaseCycles& c = cycles[i];
    const int64_t end = i + 1 < cycles.size() ? cycles[i + 1].start : c.done;
    PhaseTime& time = times[schedule_.names[i]];
    ++time.times;
    time.seconds += static_cast<double>(end - c.start) / clock_hz_;
    time.waiting_seconds += static_cast<double>(c.waited - c.start + c.starved) / clock_hz_;
  }
}

void PersistentRow::report(std::FILE* to) const {
  const std::vector<PhaseCycles> cycles = this->cycles();
  struct Sums {
    int count = 0;
    int64_t wait = 0, words = 0, vector = 0, products = 0, starved = 0, join = 0, output = 0;
  };
  std::map<std::string, Sums> sums;
  for (std::size_t i = 0; i < cycles.size(); ++i) {
    const PhaseCycles& c = cycles[i];
    const bool attention = schedule_.phases[i].kind == PhaseKind::attention;
    Sums& s = sums[name_of(schedule_.names[i], schedule_.phases[i])];
    ++s.count;
    if (i + 1 < cycles.size()) s.output += cycles[i + 1].start - c.done;
    s.wait += c.waited - c.start;
    const int64_t loaded = c.loaded > c.waited && c.loaded < c.ready ? c.loaded : c.waited;
    s.words += loaded - c.waited;
    s.vector += c.ready - loaded;
    s.products += c.done - c.ready;
    s.starved += c.starved;
    s.join += attention ? c.done - c.part : 0;
  }
  std::fprintf(
      to, "CTA 0, cycles            count     wait    words   vector products  starved     join   output\n");
  for (const auto& [name, s] : sums) {
    const auto mean = [&s](int64_t sum) { return static_cast<long long>(sum / s.count); };
    std::fprintf(to, "%-24s %5d %8lld %8lld %8lld %8lld %8lld %8lld %8lld\n", name.c_str(), s.count,
                 mean(s.wait), mean(s.words), mean(s.vector), mean(s.products), mean(s.starved), mean(s.join),
                 mean(s.output));
  }
}

}  // namespace carat::cuda
