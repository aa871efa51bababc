// The last kernel of a draw: a CTA per row applies the filters and draws its token.
#include "cuda/draw_row.h"

namespace carat::cuda {
namespace {

constexpr int kPickThreads = 1024;
static_assert(kFewCandidates == 2 * kPickThreads && kSamplingBuckets % kPickThreads == 0);

/// Candidates of a row: all of a piece of it, or a list in any order.
struct Elements {
  const float* logits;
  const int32_t* ids;  // null: `first` and those behind it
  int first, count;
};

/// Ascends as tokens rank: by logit, the largest first, then by id.
__device__ Mass rank_key(float logit, int id) {
  const unsigned bits = __float_as_uint(logit == 0.f ? 0.f : logit);  // -0 ranks as 0
  const unsigned ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<Mass>(~ascending) << 20 | static_cast<unsigned>(id);
}
__device__ float logit_of(Mass key) {
  const unsigned ascending = ~static_cast<unsigned>(key >> 20);
  return __uint_as_float((ascending & 0x80000000u) != 0 ? ascending & 0x7fffffffu : ~ascending);
}

/// What the filters leave.
struct Kept {
  Mass last = ~Mass{0};  // rank key
  Mass least = 0;        // weight
};

/// Where a running sum is known to reach its target: up to `count` keys in [low, high], behind `below`.
struct Range {
  Mass low, high;
  Amount below;
  unsigned count;
};

struct PickScratch {
  Mass keys[kFewCandidates];
  Mass masses[kSamplingBuckets];
  unsigned counts[kSamplingBuckets];
  CrossingScratch crossing;
  Candidate best[kPickThreads / 32];
  Mass lowest, highest;
  unsigned filled;
  Mass found_key;
  Amount found_through;
};

/// Calls `use(logit, id, distance)` for each candidate whose bucket isn't the last one.
template <class Use>
__device__ void visit(const Elements& e, const Scale& scale, Use use) {
  constexpr int kAtOnce = 4;
  for (int base = static_cast<int>(threadIdx.x); base < e.count; base += kAtOnce * kPickThreads) {
    float logits[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = base + j * kPickThreads;
      logits[j] = i < e.count ? e.logits[i] : -INFINITY;
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = base + j * kPickThreads;
      const float distance = scale.distance(logits[j]);
      if (sampling_bucket(distance) < kSamplingBuckets - 1)
        use(logits[j], e.ids ? e.ids[i] : e.first + i, distance);
    }
  }
}

/// Ascending; `size` is a power of two.
__device__ void sort(Mass* keys, int size) {
  for (int run = 2; run <= size; run *= 2) {
    for (int stride = run / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < size / 2; i += kPickThreads) {
        const int low = 2 * i - (i & (stride - 1)), high = low + stride;
        const Mass a = keys[low], b = keys[high];
        if ((a > b) == ((low & run) == 0)) {
          keys[low] = b;
          keys[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

enum class Order { rank, id };

struct Found {
  Mass key;
  Amount through;  // all up to it
};

/// The key at which the sum over the kept candidates, in this order, reaches `target`. Ranges with too many
/// candidates to sort are cut into 2,048 pieces, again and again.
template <Order kOrder>
__device__ Found find(const Elements& e, const Scale& scale, const Kept& kept, bool by_count, Mass target,
                      Range range, PickScratch& s) {
  constexpr int kIdShift = kWeightBits + 1;  // a weight beside its id
  const int t = static_cast<int>(threadIdx.x);
  const auto visit_range = [&](auto use) {
    visit(e, scale, [&](float logit, int id, float distance) {
      const Mass rank = rank_key(logit, id), key = kOrder == Order::rank ? rank : static_cast<Mass>(id);
      const Mass weight = sampling_weight(distance);
      if (rank <= kept.last && weight >= kept.least && key >= range.low && key <= range.high)
        use(key, weight);
    });
  };
  while (range.count > kFewCandidates) {
    const int shift = max(0, 53 - __clzll(static_cast<long long>(range.high - range.low)));
    for (int b = t; b < kSamplingBuckets; b += kPickThreads) s.masses[b] = s.counts[b] = 0;
    __syncthreads();
    visit_range([&](Mass key, Mass weight) {
      atomicAdd(&s.masses[(key - range.low) >> shift], weight);
      atomicAdd(&s.counts[(key - range.low) >> shift], 1u);
    });
    __syncthreads();
    const Mass left = target - range.below.measure(by_count);
    const Crossing c = find_crossing<kPickThreads>(
        s.counts, s.masses, by_count, [&](const Amount&) { return left; }, s.crossing);
    range.low += static_cast<Mass>(c.bucket) << shift;
    range.high = min(range.high, range.low + (Mass{1} << shift) - 1);
    range.below.add(c.before);
    range.count = c.in.count;
  }
  if (t == 0) s.filled = 0;
  __syncthreads();
  visit_range([&](Mass key, Mass weight) {
    const unsigned at = atomicAdd(&s.filled, 1u);
    if (at < kFewCandidates) s.keys[at] = kOrder == Order::rank ? key : key << kIdShift | weight;
  });
  __syncthreads();
  const int filled = min(static_cast<int>(s.filled), kFewCandidates);
  int size = 2;
  while (size < filled) size *= 2;
  for (int i = filled + t; i < size; i += kPickThreads) s.keys[i] = ~Mass{0};
  sort(s.keys, size);
  const auto amount_at = [&](int i) -> Amount {
    if (i >= filled) return {};
    if (kOrder == Order::id) return {s.keys[i] & ((Mass{1} << kIdShift) - 1), 1};
    return {sampling_weight(scale.distance(logit_of(s.keys[i]))), 1};
  };
  const Amount own[2] = {amount_at(2 * t), amount_at(2 * t + 1)};
  Amount both = own[0], total;
  both.add(own[1]);
  Amount sum = sum_before<kPickThreads>(both, s.crossing.warp_sums, total);
  sum.add(range.below);
  for (int j = 0; j < 2; ++j) {
    Amount through = sum;
    through.add(own[j]);
    if (sum.measure(by_count) < target && through.measure(by_count) >= target) {
      s.found_key = kOrder == Order::rank ? s.keys[2 * t + j] : s.keys[2 * t + j] >> kIdShift;
      s.found_through = through;
    }
    sum = through;
  }
  __syncthreads();
  return {s.found_key, s.found_through};
}

/// The rank keys of a bucket.
__device__ Range range_of(const Elements& e, const Scale& scale, const Crossing& c, PickScratch& s) {
  Mass low = ~Mass{0}, high = 0;
  if (threadIdx.x == 0) s.lowest = low, s.highest = high;
  __syncthreads();
  visit(e, scale, [&](float logit, int id, float distance) {
    if (sampling_bucket(distance) != c.bucket) return;
    low = min(low, rank_key(logit, id));
    high = max(high, rank_key(logit, id));
  });
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    low = min(low, __shfl_xor_sync(kAllLanes, low, offset));
    high = max(high, __shfl_xor_sync(kAllLanes, high, offset));
  }
  if (threadIdx.x % 32 == 0) {
    atomicMin(&s.lowest, low);
    atomicMax(&s.highest, high);
  }
  __syncthreads();
  return {s.lowest, s.highest, c.before, c.in.count};
}

/// Top-k and top-p. `few`: the candidates that matter have been gathered in `e`.
__device__ Kept apply_filters(const DrawArgs& a, int r, const SampledRow& row, const Elements& e,
                              const Scale& scale, const Crossing& cut, bool few, PickScratch& s) {
  Kept kept;
  const auto find_by_rank = [&](bool by_count, Mass target, const Crossing& c) {
    const Range all{0, ~Mass{0}, {}, static_cast<unsigned>(e.count)};
    return find<Order::rank>(e, scale, kept, by_count, target, few ? all : range_of(e, scale, c, s), s);
  };
  Mass mass = cut.total.mass;
  if (row.top_k > 0 && cut.found) {
    const Found last = find_by_rank(/*by_count=*/true, static_cast<Mass>(row.top_k), cut);
    kept.last = last.key;
    mass = last.through.mass;
  }
  if (!(row.top_p < 1.f)) return kept;
  const Mass target = needed_mass(row.top_p, mass);
  const unsigned* counts = a.scratch.bucket_counts + r * kSamplingBuckets;
  const Mass* masses = reinterpret_cast<const Mass*>(a.scratch.bucket_masses) + r * kSamplingBuckets;
  Crossing c = find_crossing<kPickThreads>(
      counts, masses, /*by_count=*/false, [&](const Amount&) { return target; }, s.crossing);
  if (row.top_k > 0 && cut.found && c.bucket > cut.bucket) c = cut;
  kept.last = find_by_rank(/*by_count=*/false, target, c).key;
  return kept;
}

/// The weight of each chunk's kept candidates, in s.masses.
__device__ void weigh_chunks(const DrawArgs& a, int r, const Scale& scale, const Kept& kept, PickScratch& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* logits = logits_of(a, r);
  for (int c = static_cast<int>(threadIdx.x) / 32; c < kGreedyChunks; c += kPickThreads / 32) {
    const Chunk chunk(c, a.vocab);
    Mass mass = 0;
#pragma unroll 4
    for (int i = chunk.first + lane; i < chunk.end; i += 32) {
      const Mass weight = sampling_weight(scale.distance(logits[i]));
      if (weight >= kept.least && rank_key(logits[i], i) <= kept.last) mass += weight;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) mass += __shfl_xor_sync(kAllLanes, mass, offset);
    if (lane == 0) s.masses[c] = mass;
  }
}

/// The first token, by id, at which the running sum of weights exceeds `uniform` times the total.
__device__ int pick_kept(const DrawArgs& a, int r, float uniform, Elements e, const Scale& scale,
                         const Kept& kept, bool few, bool filtered, PickScratch& s) {
  const auto target_of = [&](const Amount& total) { return Mass{share_of(uniform, total.mass)} + 1; };
  if (few) {
    Amount own, total;
    visit(e, scale, [&](float logit, int id, float distance) {
      const Mass weight = sampling_weight(distance);
      if (weight >= kept.least && rank_key(logit, id) <= kept.last) own.mass += weight;
    });
    sum_before<kPickThreads>(own, s.crossing.warp_sums, total);
    const Range all{0, ~Mass{0}, {}, static_cast<unsigned>(e.count)};
    return static_cast<int>(
        find<Order::id>(e, scale, kept, /*by_count=*/false, target_of(total), all, s).key);
  }
  __syncthreads();
  for (int b = static_cast<int>(threadIdx.x); b < kSamplingBuckets; b += kPickThreads) {
    s.masses[b] = b < kGreedyChunks ? a.scratch.chunk_masses[r * kGreedyChunks + b] : 0;
    s.counts[b] = 0;
  }
  __syncthreads();
  if (filtered) weigh_chunks(a, r, scale, kept, s);
  __syncthreads();
  const Crossing c =
      find_crossing<kPickThreads>(s.counts, s.masses, /*by_count=*/false, target_of, s.crossing);
  const Chunk chunk(c.bucket, a.vocab);
  e = {logits_of(a, r) + chunk.first, nullptr, chunk.first, chunk.end - chunk.first};
  const Range ids{static_cast<Mass>(chunk.first), static_cast<Mass>(chunk.end) - 1, c.before,
                  static_cast<unsigned>(e.count)};
  return static_cast<int>(
      find<Order::id>(e, scale, kept, /*by_count=*/false, target_of(c.total), ids, s).key);
}

__global__ void __launch_bounds__(kPickThreads) pick_kernel(DrawArgs a) {
  __shared__ PickScratch s;
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int r = static_cast<int>(blockIdx.x);
  const SampledRow row = row_of(a, r);
  const Candidate best = best_of_row<kPickThreads>(a, r, s.best);
  if (row.temperature == 0.f || !isfinite(best.value)) {
    if (threadIdx.x == 0) a.drawn[r] = token_of(best);
    return;
  }
  const Scale scale{best.value, row.temperature};
  Elements e{logits_of(a, r), nullptr, 0, a.vocab};
  Kept kept;
  bool few = false;
  if (filters(row)) {
    const Crossing cut = first_filter<kPickThreads>(a, r, row, s.crossing);
    const unsigned count = cut.before.count + cut.in.count;
    few = count <= kFewCandidates;
    if (few)
      e = {a.scratch.few_logits + r * kFewCandidates, a.scratch.few_ids + r * kFewCandidates, 0,
           static_cast<int>(count)};
    kept = apply_filters(a, r, row, e, scale, cut, few, s);
  }
  kept.least = least_weight(row.min_p);
  const int token = pick_kept(a, r, row.uniform, e, scale, kept, few, filters(row), s);
  if (threadIdx.x == 0) a.drawn[r] = token;
}

}  // namespace

void pick(Queue& queue, const DrawArgs& args, int rows) {
  launch(queue, pick_kernel, dim3(rows), kPickThreads, 0, args);
}

}  // namespace carat::cuda
