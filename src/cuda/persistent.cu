// One launch per token: a CTA on every multiprocessor goes through all phases of a step with a single row.
//
// One warp of a CTA loads: it copies the CTA's tape of weights into a ring in shared memory, as far ahead as
// the ring and a limit of bytes in flight allow, and never waits for activations. Eight warps compute: they
// wait until a phase's input is complete, compute the vector they need, and multiply whatever the ring has.
// Between phases the CTAs wait for each other through counters in global memory.
#include "cuda/launch.h"
#include "cuda/persistent.h"
#include "cuda/persistent_group_attention.h"
#include "cuda/ptx.h"
#include "cuda/vector_phase.h"

namespace carat::cuda {
namespace {

constexpr int kWarps = kVectorWarps, kThreads = kVectorThreads;
/// One warp more loads; its three neighbours end at once (with 32 threads more instead of 128 nothing was
/// gained).
constexpr int kLoadingThreads = 128;
using Sync = SyncVectorThreads;

/// Stage s is full when its copy has arrived, and empty when all computing warps have read it.
struct RingBarriers {
  uint64_t full[kMostRingStages], empty[kMostRingStages];
};

struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  RingPlace() = default;
  __device__ RingPlace(uint32_t tile, int stages)
      : stage(static_cast<int>(tile % stages)), parity(tile / stages & 1) {}

  __device__ void advance(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

/// The loading thread. It keeps no books: two conditions a tile are all that it has time for.
__device__ void load_tape(const PersistentArgs& a, unsigned char* ring, RingBarriers& barriers) {
  const TapeRange range = a.ranges[blockIdx.x];
  const uint64_t policy = ptx::policy_evict_first();
#pragma unroll 1
  for (uint32_t i = 0; i < range.count; ++i) {
    const TapeEntry entry = a.tape[range.first + i];
    const RingPlace place(i, a.stages);
    if (i >= entry.tiles_in_flight) {
      const RingPlace oldest(i - entry.tiles_in_flight, a.stages);
      ptx::barrier_wait(barriers.full + oldest.stage, oldest.parity);
    }
    ptx::barrier_wait(barriers.empty + place.stage, place.parity ^ 1);
    uint64_t* full = barriers.full + place.stage;
    ptx::barrier_expect(full, entry.bytes);
    ptx::bulk_copy(ring + place.stage * a.stage_bytes, entry.from, entry.bytes, full, policy);
  }
}

/// A CTA's outputs of a product.
struct OutputRange {
  int first, count;

  __device__ OutputRange(const TokenPhase& p) {
    const int ctas = gridDim.x, after = static_cast<int>(blockIdx.x) - p.rest_first,
              place = after < 0 ? after + ctas : after;
    first = place * p.outputs_each + min(place, p.outputs_rest);
    count = p.outputs_each + (place < p.outputs_rest ? 1 : 0);
  }
};

/// The computing warps of a CTA.
class Computation {
 public:
  __device__ Computation(const PersistentArgs& a, unsigned char* ring, RingBarriers& barriers,
                         TokenPhase* phases, float4* scratch, Candidate* candidates)
      : a_(a),
        ring_(ring),
        barriers_(barriers),
        phases_(phases),
        scratch_(scratch),
        candidates_(candidates),
        x_(reinterpret_cast<float*>(ring + a.stages * a.stage_bytes)) {}

  /// kFull and kSliding are the head sizes of the two KV groups.
  template <int kVectors, int kFull, int kSliding>
  __device__ void run() {
    position_ = __ldcg(a_.position);
    write_embedding();
    if (threadIdx.x < kPhaseWords) phase_words(0)[threadIdx.x] = phase_word(0);
    write_rope();
    write_parts();
    Sync()();
#pragma unroll 1
    for (int i = 0; i < a_.phase_count; ++i) {
      const TokenPhase& p = phases_[i % 2];
      const uint4 next = threadIdx.x < kPhaseWords ? phase_word(min(i + 1, a_.phase_count - 1)) : uint4{};
      const auto keep_next = [&] {
        if (threadIdx.x < kPhaseWords) phase_words(i + 1)[threadIdx.x] = next;
      };
      note(i, &PhaseCycles::start);
      if (p.kind == PhaseKind::attention)
        attend<kFull, kSliding>(p, i, keep_next);
      else if (p.kind == PhaseKind::per_layer_inputs)
        compute_per_layer_inputs(p, i, keep_next);
      else
        multiply<kVectors>(p, i, keep_next);
    }
    if (blockIdx.x == 0) pick();
  }

 private:
  static constexpr int kPhaseWords = sizeof(TokenPhase) / sizeof(uint4);
  static_assert(kPhaseWords <= 32);

  __device__ uint4 phase_word(int phase) const {
    return reinterpret_cast<const uint4*>(a_.phases + phase)[threadIdx.x];
  }
  __device__ uint4* phase_words(int phase) const { return reinterpret_cast<uint4*>(phases_ + phase % 2); }

  __device__ void note(int phase, int64_t PhaseCycles::* field) const { cuda::note(a_, phase, field); }

  /// This CTA has ended the phase, or, where words have tags, has read what it needs.
  __device__ void signal(const TokenPhase& p, int index) const {
    if (threadIdx.x != 0) return;
    if (p.writes_tagged)
      ptx::add_relaxed(counter_of(a_, index), 1);
    else
      ptx::add_release(counter_of(a_, index), 1);
  }

  /// x = embedding[token] * scale, each thread what it will need of x in all phases.
  __device__ void write_embedding() const {
    const auto* row = reinterpret_cast<const uint2*>(row_of(a_.embedding, __ldcg(a_.token)));
    for (int i = threadIdx.x; i < a_.d_model / 4; i += kThreads) {
      const uint2 v = row[i];
      reinterpret_cast<float4*>(x_)[i] =
          make_float4(low_bf16(v.x) * a_.embed_scale, high_bf16(v.x) * a_.embed_scale,
                      low_bf16(v.y) * a_.embed_scale, high_bf16(v.y) * a_.embed_scale);
    }
  }

  __device__ ContextPart& part(int group) const {
    return reinterpret_cast<ContextPart*>(x_ + a_.parts_at)[group];
  }
  __device__ void write_parts() const {
    for (int group = 0; group < 2; ++group)
      if (a_.head_pairs[group] > 0) write_part(a_, group, position_, part(group));
  }

  /// Sines and cosines of the row's position, of both head sizes.
  __device__ void write_rope() const {
    float2* table = reinterpret_cast<float2*>(x_ + a_.rope_at);
    for (int group = 0; group < 2; ++group) {
      for (int j = threadIdx.x; j < a_.rotary_pairs[group]; j += kThreads)
        sincosf(static_cast<float>(position_) * a_.frequencies[group][j], &table[j].x, &table[j].y);
      table += a_.rotary_pairs[group];
    }
  }

  template <int kFull, int kSliding, class KeepNext>
  __device__ void attend(const TokenPhase& p, int index, const KeepNext& keep_next) {
    const float2* rope = reinterpret_cast<const float2*>(x_ + a_.rope_at);
    float* scratch = x_ + a_.vector_at;
    const ContextPart& own = part(p.kv.group);
    if (p.kv.group == 0)
      attend_all<kFull>(a_, p, index, own, rope, scratch, keep_next);
    else
      attend_part<kSliding>(a_, p, index, own, rope + a_.rotary_pairs[0], scratch, keep_next);
    note(index, &PhaseCycles::done);
    signal(p, index);
  }

  template <int kVectors, class KeepNext>
  __device__ void multiply(const TokenPhase& p, int index, const KeepNext& keep_next) {
    const OutputRange range(p);
    const bool residual = p.input.source != VectorSource::plain;
    const Gains<kVectors> gains(p.input, residual ? a_.d_model : 0);
    const bool scaled = p.output.finish == VectorFinish::per_layer && threadIdx.x < range.count;
    const float factor = scaled ? __ldcg(p.output.factor.raw + range.first + threadIdx.x) : 0.f;
    wait_for(a_, p.wait_for, p.reads_tagged, p.missing);
    note(index, &PhaseCycles::waited);

    LaneVector<WeightFormat::bf16> x;
    const int slice = static_cast<int>(threadIdx.x) / 32 & ((1 << p.slices_shift) - 1);
    const int first_col = slice * p.slice_cols;
    const bool from_memory = !residual && !p.reads_tagged;
    if (from_memory) {
      x.load(p.slice_cols, [&](int i) { return load4(p.input.in + first_col, i); });
    } else {
      float* vector = x_ + a_.vector_at;
      float4* vectors = reinterpret_cast<float4*>(vector);
      if (residual) {
        prepare_residual<kVectors>(p, gains, vector);
      } else {
        constexpr int kAtOnce = 4;
#pragma unroll 1
        for (int first = threadIdx.x; first < p.cols / 4; first += kAtOnce * kThreads) {
          int at[kAtOnce];
          float4 out[kAtOnce];
#pragma unroll
          for (int v = 0; v < kAtOnce; ++v)
            at[v] = first + v * kThreads < p.cols / 4 ? first + v * kThreads : -1;
          load_tagged(reinterpret_cast<const TaggedFloat*>(p.input.in), at, tag_of(a_, p.wait_for), out);
#pragma unroll
          for (int v = 0; v < kAtOnce; ++v)
            if (at[v] >= 0) vectors[swizzled(at[v])] = out[v];
        }
      }
      keep_next();
      Sync()();
      x.load(p.slice_cols, [&](int i) { return vectors[swizzled(first_col / 4 + i)]; });
    }
    note(index, &PhaseCycles::ready);
    starved_ = 0;
    float* sums = x_ + a_.sums_at;
    const int cols = p.slice_cols;
    if (cols == 1536)
      multiply_rows<6>(p, range, slice, x, sums);
    else if (cols == 1024)
      multiply_rows<4>(p, range, slice, x, sums);
    else if (cols == 768)
      multiply_rows<3>(p, range, slice, x, sums);
    else if (cols == 256)
      multiply_rows<1>(p, range, slice, x, sums);
    else
      multiply_rows<0>(p, range, slice, x, sums);
    if (from_memory) keep_next();
    Sync()();
    note(index, &PhaseCycles::done);
    if (a_.cycles && blockIdx.x == 0 && threadIdx.x == 0) a_.cycles[index].starved = starved_;
    // Tags speak for themselves: whoever reads the outputs may already come.
    if (p.writes_tagged) signal(p, index);
    write_outputs(p, index, range, factor, sums);
    if (!p.writes_tagged) signal(p, index);
  }

  template <int kVectors>
  __device__ void prepare_residual(const TokenPhase& p, const Gains<kVectors>& gains, float* vector) const {
    int at[kVectors];
    float4 branch[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = v * kThreads + static_cast<int>(threadIdx.x);
      at[v] = p.input.branch && i < a_.d_model / 4 ? i : -1;
    }
    load_tagged(reinterpret_cast<const TaggedFloat*>(p.input.branch), at, tag_of(a_, p.wait_for), branch);
    prepare_vector<false>(p.input, a_.d_model, x_, x_, branch, gains, vector, scratch_, Sync());
  }

  /// All products of this warp with its slice of the rows; sums[slice][row of the CTA]. Two tiles at a time:
  /// the latencies of two rows overlap.
  template <int kUsed>
  __device__ void multiply_rows(const TokenPhase& p, const OutputRange& range, int slice,
                                const LaneVector<WeightFormat::bf16>& x, float* sums) {
    const int group = static_cast<int>(threadIdx.x) / 32 >> p.slices_shift, groups = kWarps >> p.slices_shift,
              lane = threadIdx.x % 32, shift = p.rows_shift, tile_rows = p.tile_rows, row_bytes = p.row_bytes,
              cols = p.slice_cols, offset = slice * p.slice_bytes;
    float* mine = sums + slice * (range.count << shift);
#pragma unroll 1
    for (int half = 0; half <= shift; ++half) {
#pragma unroll 1
      for (int first = 0; first < range.count; first += 2 * tile_rows) {
        const int count = min(tile_rows, range.count - first), second = range.count - first - tile_rows;
        const RingPlace place = place_;
        const unsigned char* tile = full_tile() + offset;
        const unsigned char* next = second > 0 ? full_tile() + offset : tile;
#pragma unroll 1
        for (int row = group; row < count; row += groups) {
          const bool two = row < second;
          float2 sum =
              x.template dot_pair<kUsed>(tile + row * row_bytes, (two ? next : tile) + row * row_bytes, cols);
#pragma unroll
          for (int o = 16; o > 0; o /= 2) {
            sum.x += __shfl_xor_sync(kAllLanes, sum.x, o);
            sum.y += __shfl_xor_sync(kAllLanes, sum.y, o);
          }
          float* to = mine + (first + row << shift) + half;
          if (lane == 0) to[0] = sum.x;
          if (lane == 0 && two) to[tile_rows << shift] = sum.y;
        }
        __syncwarp();
        if (lane == 0) ptx::barrier_arrive(barriers_.empty + place.stage);
        if (lane == 0 && second > 0) {
          RingPlace other = place;
          other.advance(a_.stages);
          ptx::barrier_arrive(barriers_.empty + other.stage);
        }
      }
    }
  }

  /// The next tile, once it is there.
  __device__ const unsigned char* full_tile() {
    const int64_t start = a_.cycles ? clock64() : 0;
    ptx::barrier_wait(barriers_.full + place_.stage, place_.parity);
    if (a_.cycles) starved_ += clock64() - start;
    const unsigned char* tile = ring_ + place_.stage * a_.stage_bytes;
    place_.advance(a_.stages);
    return tile;
  }

  /// What per-layer gates are multiplied with: once for all layers, since a gate that had to norm it first
  /// would be late. A warp has all of a layer's, so that the norm is a warp's.
  template <class KeepNext>
  __device__ void compute_per_layer_inputs(const TokenPhase& p, int index, const KeepNext& keep_next) const {
    wait_for(a_, p.wait_for, false);
    note(index, &PhaseCycles::waited);
    note(index, &PhaseCycles::ready);
    keep_next();
    const PerLayerFactor& f = p.output.factor;
    const int width = a_.ple_dim, lane = threadIdx.x % 32, token = __ldcg(a_.token);
    const auto* table = reinterpret_cast<const bfloat16*>(row_of(f.table, token < f.table.rows ? token : 0));
    for (int layer = blockIdx.x; layer < p.layers && threadIdx.x < 32; layer += gridDim.x) {
      PerLayerFactor of_layer = f;
      of_layer.raw += layer * width;
      float square_sum = 0.f;
      for (int i = lane; i < width; i += 32) {
        const float v = __ldcg(of_layer.raw + i) * f.project_scale;
        square_sum += v * v;
      }
      const float scale = rsqrtf(warp_sum(square_sum) / static_cast<float>(width) + a_.eps) * f.project_scale;
      for (int i = lane; i < width; i += 32)
        p.output.out[layer * width + i] =
            per_layer_input(of_layer, __bfloat162float(table[layer * width + i]), scale, i);
    }
    Sync()();
    note(index, &PhaseCycles::done);
  }

  /// Adds the slices in order and turns sums into outputs. Whatever is written is written when thread 0
  /// returns.
  __device__ void write_outputs(const TokenPhase& p, int index, const OutputRange& range, float factor,
                                float* sums) const {
    const int rows = range.count << p.rows_shift, slices = 1 << p.slices_shift;
    const auto sum = [&](int row) {
      float v = sums[row];
      for (int s = 1; s < slices; ++s) v += sums[s * rows + row];
      return v;
    };
    if (p.output.finish == VectorFinish::logits) {
      for (int i = threadIdx.x; i < rows && slices > 1; i += kThreads) sums[i] = sum(i);
      Sync()();
      write_logits(a_.head, range.first, range.count, sums, candidates_, Sync());
      Sync()();
      return;
    }
    // One warp needs no barrier behind it.
    const bool one_warp = p.outputs_each < 32;
    if (one_warp && threadIdx.x >= 32) return;
#pragma unroll 1
    for (int i = threadIdx.x; i < range.count; i += kThreads) {
      float v = sum(i << p.rows_shift);
      if (p.output.finish != VectorFinish::store) v = gelu_tanh(v) * (p.rows_shift ? sum(2 * i + 1) : factor);
      if (p.writes_tagged)
        ptx::store_relaxed(reinterpret_cast<TaggedFloat*>(p.output.out) + range.first + i,
                           tagged(tag_of(a_, index), v));
      else
        p.output.out[range.first + i] = v;
    }
    if (one_warp)
      __syncwarp();
    else
      Sync()();
  }

  /// The drawn token, once all CTAs have named their candidates.
  __device__ void pick() const {
    wait_for(a_, a_.phase_count - 1, false);
    if (threadIdx.x >= 32) return;
    Candidate best = no_candidate();
    for (unsigned i = threadIdx.x; i < gridDim.x; i += 32)
      best = better(best, {__ldcg(a_.head.candidate_values + i), __ldcg(a_.head.candidate_ids + i)});
    best = warp_best(best);
    if (threadIdx.x == 0) *a_.drawn = *a_.host_token = token_of(best);
  }

  const PersistentArgs& a_;
  unsigned char* ring_;
  RingBarriers& barriers_;
  TokenPhase* phases_;  // this one and the next
  float4* scratch_;
  Candidate* candidates_;
  float* x_;  // the residual stream; vector, sums and rope lie behind it
  RingPlace place_;
  int position_ = 0;
  int64_t starved_ = 0;  // cycles that this warp has waited for weights in a phase
};

template <int kVectors, int kFull, int kSliding>
__global__ void __launch_bounds__(kThreads + kLoadingThreads, 1)
    persistent_kernel(const __grid_constant__ PersistentArgs a) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ __align__(16) unsigned char phases[2 * sizeof(TokenPhase)];
  __shared__ RingBarriers barriers;
  __shared__ float4 scratch[kWarps];
  __shared__ Candidate candidates[kWarps];
  if (threadIdx.x == 0) {
    for (int s = 0; s < a.stages; ++s) {
      ptx::barrier_init(barriers.full + s, 1);
      ptx::barrier_init(barriers.empty + s, kWarps);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= kThreads) {
    if (threadIdx.x == kThreads) load_tape(a, ring, barriers);
  } else {
    Computation(a, ring, barriers, reinterpret_cast<TokenPhase*>(phases), scratch, candidates)
        .template run<kVectors, kFull, kSliding>();
  }
}

using Kernel = void (*)(PersistentArgs);

/// Head sizes of full and of sliding attention that there are kernels for.
Kernel kernel_for(int width, int full, int sliding) {
  constexpr int kFewVectors = 2, kManyVectors = kMostPersistentWidth / (4 * kThreads);
  const bool few = width <= kFewVectors * 4 * kThreads;
  if (full == 512 && sliding == 256)
    return few ? persistent_kernel<kFewVectors, 512, 256> : persistent_kernel<kManyVectors, 512, 256>;
  if (full == 128 && sliding == 64 && few) return persistent_kernel<kFewVectors, 128, 64>;
  if (full == 32 && sliding == 16 && few) return persistent_kernel<kFewVectors, 32, 16>;
  return nullptr;
}

}  // namespace

bool has_persistent_kernel(int width, int full_head_dim, int sliding_head_dim) {
  return kernel_for(width, full_head_dim, sliding_head_dim) != nullptr;
}

void persistent_step(Queue& queue, const PersistentArgs& args, std::size_t shared_bytes) {
  LaunchShape shape{dim3(static_cast<unsigned>(queue.sm_count)), kThreads + kLoadingThreads, shared_bytes};
  shape.cooperative = true;
  launch(queue, shape, kernel_for(args.d_model, 2 * args.head_pairs[0], 2 * args.head_pairs[1]), args);
}

}  // namespace carat::cuda
