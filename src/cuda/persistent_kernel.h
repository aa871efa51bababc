// The persistent kernel: a CTA on every multiprocessor goes through all phases of a step with a single row.
// Each format of weights has a source file that compiles it.
//
// One warp of a CTA loads: it copies the CTA's tape of weights into a ring in shared memory, as far ahead as
// the ring and a limit of bytes in flight allow, and never waits for activations. Eight warps compute: they
// wait until a phase's input is complete, compute the vector they need, and multiply whatever the ring has.
// Between phases the CTAs wait for each other through counters in global memory. Included by .cu files only.
#pragma once
#include "cuda/persistent_group_attention.h"
#include "cuda/persistent_tape.h"
#include "cuda/ptx.h"
#include "cuda/vector_phase.h"
#include "cuda/weight_values.h"

namespace carat::cuda {

/// The computing warps of a CTA. In int4 plans the head and the per-layer path have 8 bits.
template <WeightFormat kFormat, bool kTimed>
class Computation {
  using Sync = SyncVectorThreads;

 public:
  __device__ Computation(const PersistentArgs& a, unsigned char* ring, RingBarriers& barriers,
                         TokenPhase* phases, float4* scratch, Candidate* candidates)
      : a_(a),
        ring_(ring),
        barriers_(barriers),
        phases_(phases),
        scratch_(scratch),
        candidates_(candidates) {}

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
        const int thread = ptx::thread_index();
        if (thread < kPhaseWords) phase_words(i + 1)[thread] = next;
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

  /// The residual stream; vector, sums and rope lie behind it. Computed anew each time: addresses that stay
  /// the same in all phases would be spilled.
  __device__ float* floats() const {
    int at = a_.stages * a_.stage_bytes;
    asm volatile("" : "+r"(at));
    return reinterpret_cast<float*>(ring_ + at);
  }

  __device__ uint4 phase_word(int phase) const {
    return reinterpret_cast<const uint4*>(a_.phases + phase)[threadIdx.x];
  }
  __device__ uint4* phase_words(int phase) const { return reinterpret_cast<uint4*>(phases_ + phase % 2); }

  __device__ void note(int phase, int64_t PhaseCycles::* field) const {
    cuda::note<kTimed>(a_, phase, field);
  }

  /// This CTA has read what it needs of what others have written: its own words speak for themselves.
  __device__ void signal_read(int index) const {
    constexpr int kThread = 64;  // of a warp that has no words to write in most phases
    if (threadIdx.x == kThread) ptx::add_relaxed(counter_of(a_, index), 1);
  }

  /// x = embedding[token] * scale.
  __device__ void write_embedding() const {
    const Matrix& table = a_.embedding;
    const std::byte* row = row_of(table, __ldcg(a_.token));
    with_format(table.format, [&](auto eight) {
      for (int column = 8 * static_cast<int>(threadIdx.x); column < a_.d_model;
           column += 8 * kVectorThreads) {
        eight.load(row, column, table.cols);
        float v[8];
        to_floats(eight, v);
        auto* to = reinterpret_cast<float4*>(floats() + column);
        const float scale = a_.embed_scale;
        to[0] = make_float4(v[0] * scale, v[1] * scale, v[2] * scale, v[3] * scale);
        to[1] = make_float4(v[4] * scale, v[5] * scale, v[6] * scale, v[7] * scale);
      }
    });
  }

  __device__ ContextPart& part(int group) const {
    return reinterpret_cast<ContextPart*>(floats() + a_.parts_at)[group];
  }
  __device__ void write_parts() const {
    for (int group = 0; group < 2; ++group)
      if (a_.head_pairs[group] > 0) write_part(a_, group, position_, part(group));
  }

  /// Sines and cosines of the row's position, of both head sizes.
  __device__ void write_rope() const {
    float2* table = reinterpret_cast<float2*>(floats() + a_.rope_at);
    for (int group = 0; group < 2; ++group) {
      for (int j = threadIdx.x; j < a_.rotary_pairs[group]; j += kVectorThreads)
        sincosf(static_cast<float>(position_) * a_.frequencies[group][j], &table[j].x, &table[j].y);
      table += a_.rotary_pairs[group];
    }
  }

  template <int kFull, int kSliding, class KeepNext>
  __device__ void attend(const TokenPhase& p, int index, const KeepNext& keep_next) {
    const float2* rope = reinterpret_cast<const float2*>(floats() + a_.rope_at);
    float* scratch = floats() + a_.vector_at;
    const ContextPart& own = part(p.kv.group);
    if (p.kv.group == 0)
      attend_all<kFull, kTimed>(a_, p, index, own, rope, scratch, keep_next);
    else
      attend_part<kSliding, kTimed>(a_, p, index, own, rope + a_.rotary_pairs[0], scratch, keep_next);
    note(index, &PhaseCycles::done);
    signal_read(index);
  }

  template <int kVectors, class KeepNext>
  __device__ void multiply(const TokenPhase& p, int index, const KeepNext& keep_next) {
    const OutputRange range(p);
    const bool residual = p.input.source != VectorSource::plain;
    const Gains<kVectors> gains(p.input, residual ? a_.d_model : 0);
    const bool scaled = p.output.finish == VectorFinish::per_layer && threadIdx.x < range.count;
    const float factor = scaled ? __ldcg(p.output.factor.raw + range.first + threadIdx.x) : 0.f;
    const WarpShare share(p, range.count);
    wait_for(a_, p.wait_for, p.reads_marked, p.missing);
    note(index, &PhaseCycles::waited);

    const bool from_memory = !residual && !p.reads_marked;
    if (!from_memory) {
      float* vector = floats() + a_.vector_at;
      const auto prepare = [&](const auto& store) {
        if (residual)
          prepare_residual<kVectors>(p, index, gains, store);
        else
          take_marked(p, index, store);
      };
      if constexpr (kFormat == WeightFormat::bf16)
        prepare(StoreFloats{vector, p.cols / 4});
      else
        prepare(IntegerVector(kFormat == WeightFormat::int8 ? kFormat : p.format, vector, p.cols));
      keep_next();
      Sync()();
    }
    float* sums = floats() + a_.sums_at;
    if (kFormat == WeightFormat::int4 && p.format == WeightFormat::int8)
      multiply_vector<WeightFormat::int8>(p, index, share, from_memory, sums);
    else
      multiply_vector<kFormat>(p, index, share, from_memory, sums);
    if (from_memory) keep_next();
    Sync()();
    note(index, &PhaseCycles::done);
    if (kTimed && a_.cycles && blockIdx.x == 0 && threadIdx.x == 0) a_.cycles[index].starved = starved_;
    if (p.writes_tagged) {
      signal_read(index);
      write_words(p, index, range, factor, sums);
    } else {
      write_outputs(p, range, sums);
      if (threadIdx.x == 0) ptx::add_release(counter_of(a_, index), 1);
    }
  }

  /// A vector of marked words, to shared memory.
  template <class Store>
  __device__ void take_marked(const TokenPhase& p, int index, const Store& store) const {
    constexpr int kAtOnce = 4;
#pragma unroll 1
    for (int base = static_cast<int>(threadIdx.x) & ~31; base < p.cols / 4;
         base += kAtOnce * kVectorThreads) {
      const int first = base + static_cast<int>(threadIdx.x) % 32;
      int at[kAtOnce];
      float4 out[kAtOnce];
#pragma unroll
      for (int v = 0; v < kAtOnce; ++v)
        at[v] = first + v * kVectorThreads < p.cols / 4 ? first + v * kVectorThreads : -1;
      load_marked(reinterpret_cast<const MarkedFloat*>(p.input.in), at, bit_of(a_, p.input_mark), out);
      note(index, &PhaseCycles::loaded);
#pragma unroll
      for (int v = 0; v < kAtOnce; ++v) store(first + v * kVectorThreads, out[v]);
    }
  }

  /// All products of this warp. The vector lies in shared memory, or where the phase in front wrote it.
  template <WeightFormat kOf>
  __device__ void multiply_vector(const TokenPhase& p, int index, const WarpShare& share, bool from_memory,
                                  float* sums) {
    const int first_col = share.first_col, cols = share.cols;
    const float4* vectors = reinterpret_cast<const float4*>(floats() + a_.vector_at);
    LaneVector<kOf> x;
    if (from_memory)
      x.load(cols, [&](int i) { return load4(p.input.in + first_col, i); });
    else if constexpr (kOf == WeightFormat::bf16)
      x.load(cols, [&](int i) { return vectors[swizzled(first_col / 4 + i)]; });
    else
      x.load(IntegerVector(kOf, floats() + a_.vector_at, p.cols), first_col, cols);
    note(index, &PhaseCycles::ready);
    starved_ = 0;
    // Two tiles at a time where a tile has few rows: what each row costs by itself is mostly waiting.
    const bool one_tile = share.count <= share.tile_rows;
    if constexpr (kOf == WeightFormat::bf16) {
      if (cols == 1536)
        multiply_rows<kOf, 6, 2, 1>(share, x, sums);
      else if (cols == 1024)
        multiply_rows<kOf, 4, 2, 1>(share, x, sums);
      else if (cols == 768)
        multiply_rows<kOf, 3, 2, 1>(share, x, sums);
      else if (cols == 256)
        multiply_rows<kOf, 1, 2, 1>(share, x, sums);
      else
        multiply_rows<kOf, 0, 2, 1>(share, x, sums);
    } else {
      constexpr bool kFewRows = kOf == WeightFormat::int8;
      if (cols == 1536 && (!one_tile || share.count > 2 * share.groups))
        multiply_rows<kOf, 3, kFewRows ? 2 : 1, kFewRows ? 2 : 4>(share, x, sums);
      else if (cols == 1536)
        multiply_rows<kOf, 3, 1, 2>(share, x, sums);
      else if (cols == 1024)
        multiply_rows<kOf, 2, 1, 4>(share, x, sums);
      else
        multiply_rows<kOf, 0, 1, 2>(share, x, sums);
    }
  }

  template <int kVectors, class Store>
  __device__ void prepare_residual(const TokenPhase& p, int index, const Gains<kVectors>& gains,
                                   const Store& store) const {
    int at[kVectors];
    float4 branch[kVectors];
    const int thread = ptx::thread_index();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = v * kVectorThreads + thread;
      at[v] = p.input.branch && i < a_.d_model / 4 ? i : -1;
    }
    load_marked(reinterpret_cast<const MarkedFloat*>(p.input.branch), at, bit_of(a_, p.input_mark), branch);
    note(index, &PhaseCycles::loaded);
    prepare_vector<false>(p.input, a_.d_model, floats(), floats(), branch, gains, store, scratch_, Sync());
  }

  /// sums[slice][row of the CTA]. A warp takes several rows at a time, whose latencies overlap: kEach of each
  /// of kTiles tiles.
  template <WeightFormat kOf, int kUsed, int kTiles, int kEach>
  __device__ void multiply_rows(const WarpShare& share, const LaneVector<kOf>& x, float* sums) {
    constexpr int kRows = kTiles * kEach;
    const int groups = share.groups, lane = threadIdx.x % 32, shift = share.shift, outputs = share.count,
              tile_rows = share.tile_rows, row_bytes = share.row_bytes;
    float* mine = sums + share.slice * (outputs << shift);
#pragma unroll 1
    for (int half = 0; half <= shift; ++half) {
#pragma unroll 1
      for (int first = 0; first < outputs; first += kTiles * tile_rows) {
        const RingPlace place = place_;
        const bool second = kTiles == 2 && outputs - first > tile_rows;
        const unsigned char* tile = full_tile() + share.offset;
        const unsigned char* next = second ? full_tile() + share.offset : tile;
        const int count = min(tile_rows, outputs - first), rest = min(tile_rows, outputs - first - tile_rows);
#pragma unroll 1
        for (int row = share.group; row < count; row += kEach * groups) {
          // What isn't there is computed from what is.
          const unsigned char* rows[kRows];
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const int at = row + r % kEach * groups;
            if (r < kEach)
              rows[r] = tile + (at < count ? at : row) * row_bytes;
            else
              rows[r] = at < rest ? next + at * row_bytes : rows[0];
          }
          float products[kRows];
          x.template dot_rows<kUsed>(rows, share.cols, products);
          const int which = spread_sums<kRows, 32, 1>(products), at = row + which % kEach * groups;
          const bool in_next = which >= kEach;
          if (lane % (32 / kRows) == 0 && at < (in_next ? rest : count))
            mine[(first + at + (in_next ? tile_rows : 0) << shift) + half] = products[0];
        }
        __syncwarp();
        if (lane == 0) ptx::barrier_arrive(barriers_.empty + place.stage);
        if (second && lane == 0) {
          RingPlace other = place;
          other.advance(a_.stages);
          ptx::barrier_arrive(barriers_.empty + other.stage);
        }
      }
    }
  }

  /// The next tile, once it is there.
  __device__ const unsigned char* full_tile() {
    const int64_t start = kTimed && a_.cycles ? clock64() : 0;
    ptx::barrier_wait(barriers_.full + place_.stage, place_.parity);
    if (kTimed && a_.cycles) starved_ += clock64() - start;
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
    const std::byte* table = row_of(f.table, token < f.table.rows ? token : 0);
    for (int layer = blockIdx.x; layer < p.layers && threadIdx.x < 32; layer += gridDim.x) {
      PerLayerFactor of_layer = f;
      of_layer.raw += layer * width;
      float square_sum = 0.f;
      for (int i = lane; i < width; i += 32) {
        const float v = __ldcg(of_layer.raw + i) * f.project_scale;
        square_sum += v * v;
      }
      const float scale = rsqrtf(warp_sum(square_sum) / static_cast<float>(width) + a_.eps) * f.project_scale;
      with_format(f.table.format, [&](auto eight) {
        for (int i = 8 * lane; i < width; i += 8 * 32) {
          eight.load(table, layer * width + i, f.table.cols);
          float values[8];
          to_floats(eight, values);
#pragma unroll
          for (int j = 0; j < 8; ++j)
            p.output.out[layer * width + i + j] = per_layer_input(of_layer, values[j], scale, i + j);
        }
      });
    }
    Sync()();
    note(index, &PhaseCycles::done);
  }

  /// A row's sum of all slices, in order.
  static __device__ float sum_of_slices(const TokenPhase& p, const float* sums, int row, int rows) {
    const int slices = 1 << p.slices_shift;
    float v = 0.f;
#pragma unroll
    for (int s = 0; s < kVectorWarps; ++s) v += s < slices ? sums[s * rows + row] : 0.f;
    return v;
  }

  /// Outputs as words that say when they are there. What follows them needs no barrier.
  __device__ void write_words(const TokenPhase& p, int index, const OutputRange& range, float factor,
                              const float* sums) const {
#pragma unroll 1
    for (int i = threadIdx.x; i < range.count; i += kVectorThreads) {
      float v = sum_of_slices(p, sums, i, range.count);
      if (p.output.finish == VectorFinish::per_layer) v = gelu_tanh(v) * factor;
      if (p.writes_marked)
        ptx::store_relaxed(reinterpret_cast<MarkedFloat*>(p.output.out) + range.first + i,
                           marked(bit_of(a_, p.output_mark), v));
      else
        ptx::store_relaxed(reinterpret_cast<TaggedFloat*>(p.output.out) + range.first + i,
                           tagged(tag_of(a_, index), v));
    }
  }

  /// Outputs that are written when this returns.
  __device__ void write_outputs(const TokenPhase& p, const OutputRange& range, float* sums) const {
    const int rows = range.count << p.rows_shift;
    if (p.output.finish == VectorFinish::logits) {
      for (int i = threadIdx.x; i < rows && p.slices_shift > 0; i += kVectorThreads)
        sums[i] = sum_of_slices(p, sums, i, rows);
      Sync()();
      write_logits(a_.head, range.first, range.count, sums, candidates_, Sync());
    } else {
#pragma unroll 1
      for (int i = threadIdx.x; i < range.count; i += kVectorThreads) {
        const int row = i << p.rows_shift;
        const float v = sum_of_slices(p, sums, row, rows);
        p.output.out[range.first + i] =
            p.rows_shift ? gelu_tanh(v) * sum_of_slices(p, sums, row + 1, rows) : v;
      }
    }
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
  RingPlace place_;
  int position_ = 0;
  int64_t starved_ = 0;  // cycles that this warp has waited for weights in a phase
};

template <WeightFormat kFormat, int kVectors, int kFull, int kSliding, bool kTimed>
__global__ void __launch_bounds__(kVectorThreads + kLoadingThreads, 1)
    persistent_kernel(const __grid_constant__ PersistentArgs a) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ __align__(16) unsigned char phases[2 * sizeof(TokenPhase)];
  __shared__ RingBarriers barriers;
  __shared__ float4 scratch[kVectorWarps];
  __shared__ Candidate candidates[kVectorWarps];
  if (threadIdx.x == 0) {
    for (int s = 0; s < a.stages; ++s) {
      ptx::barrier_init(barriers.full + s, 1);
      ptx::barrier_init(barriers.empty + s, kVectorWarps);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= kVectorThreads) {
    if (threadIdx.x == kVectorThreads) load_tape(a, ring, barriers);
  } else {
    Computation<kFormat, kTimed>(a, ring, barriers, reinterpret_cast<TokenPhase*>(phases), scratch,
                                 candidates)
        .template run<kVectors, kFull, kSliding>();
  }
}

/// The kernel for a residual stream of this width and these head sizes of full and of sliding attention, or
/// null. Where steps are fast enough for timers to matter there is one without.
using PersistentKernel = void (*)(PersistentArgs);
template <WeightFormat kFormat>
PersistentKernel persistent_kernel_for(int width, int full, int sliding, bool timed) {
  constexpr int kFewVectors = 2, kManyVectors = kMostPersistentWidth / (4 * kVectorThreads);
  const bool few = width <= kFewVectors * 4 * kVectorThreads;
  if (full == 512 && sliding == 256 && few)
    return timed ? persistent_kernel<kFormat, kFewVectors, 512, 256, true>
                 : persistent_kernel<kFormat, kFewVectors, 512, 256, false>;
#ifndef ONLY_E2B
  if (full == 512 && sliding == 256) return persistent_kernel<kFormat, kManyVectors, 512, 256, true>;
  if (full == 128 && sliding == 64 && few) return persistent_kernel<kFormat, kFewVectors, 128, 64, true>;
  if (full == 32 && sliding == 16 && few) return persistent_kernel<kFormat, kFewVectors, 32, 16, true>;
#endif
  return nullptr;
}

extern template PersistentKernel persistent_kernel_for<WeightFormat::bf16>(int, int, int, bool);
extern template PersistentKernel persistent_kernel_for<WeightFormat::int8>(int, int, int, bool);
extern template PersistentKernel persistent_kernel_for<WeightFormat::int4>(int, int, int, bool);

}  // namespace carat::cuda
