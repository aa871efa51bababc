// How the CTAs of the persistent kernel wait for each other: counters of phases, and words that carry a tag.
// Included by .cu files only.
#pragma once
#include "cuda/persistent.h"
#include "cuda/ptx.h"
#include "cuda/vector_phase.h"

namespace carat::cuda {

/// The barrier of the threads that compute.
struct SyncVectorThreads {
  __device__ void operator()() const { ptx::sync_first_threads<kVectorThreads>(); }
};

/// In CTA 0, by its first thread. Kernels have an instance without timers: asking whether there are any cost
/// 0.04 ms a token.
template <bool kTimed>
__device__ inline void note(const PersistentArgs& a, int phase, int64_t PhaseCycles::* field) {
  if (kTimed && a.cycles && blockIdx.x == 0 && threadIdx.x == 0) a.cycles[phase].*field = clock64();
}

__device__ inline unsigned* counter_of(const PersistentArgs& a, int phase) {
  return a.counters + phase * kCounterWords;
}

/// Until all CTAs have ended the phase that `p` waits for. A counter that doesn't come ends the kernel with
/// an error. What the phase wrote is visible afterwards, unless it is tagged: tags speak for themselves.
inline constexpr int kMostPolls = 1 << 22;  // seconds
__device__ inline void wait_for(const PersistentArgs& a, int phase, bool tagged, unsigned missing = 0) {
  if (threadIdx.x == 0 && phase >= 0 && missing < gridDim.x) {
    const unsigned* counter = counter_of(a, phase);
    const unsigned target = a.launch * gridDim.x - missing;
    const auto late = [&](unsigned arrived) { return static_cast<int>(arrived - target) < 0; };
    int polls = 0;
    while (late(tagged ? ptx::load_relaxed(counter) : ptx::load_acquire(counter)))
      if (++polls == kMostPolls) __trap();
  }
  SyncVectorThreads()();
}

__device__ inline uint32_t tag_of(const PersistentArgs& a, int phase) {
  return a.launch * static_cast<unsigned>(a.phase_count) + static_cast<unsigned>(phase);
}

__device__ inline TaggedFloat tagged(uint32_t tag, float v) {
  return uint64_t{tag} << 32 | __float_as_uint(v);
}

/// Vectors [4 at[n], 4 at[n] + 4) of tagged words, or zeros where at[n] is negative, once all are there.
template <int kCount>
__device__ inline void load_tagged(const TaggedFloat* words, const int (&at)[kCount], uint32_t tag,
                                   float4 (&out)[kCount]) {
  bool complete = false;
  for (int polls = 0; !complete; ++polls) {
    if (polls == kMostPolls) __trap();
    ulonglong2 pairs[kCount][2];
#pragma unroll
    for (int n = 0; n < kCount; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        pairs[n][i] = at[n] >= 0 ? ptx::load_relaxed_pair(words + 4 * at[n] + 2 * i)
                                 : make_ulonglong2(uint64_t{tag} << 32, uint64_t{tag} << 32);
    uint32_t wrong = 0;
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        wrong |= (static_cast<uint32_t>(pairs[n][i].x >> 32) ^ tag) |
                 (static_cast<uint32_t>(pairs[n][i].y >> 32) ^ tag);
      const auto value = [](uint64_t word) { return __uint_as_float(static_cast<uint32_t>(word)); };
      out[n] =
          make_float4(value(pairs[n][0].x), value(pairs[n][0].y), value(pairs[n][1].x), value(pairs[n][1].y));
    }
    complete = wrong == 0;
  }
}

__device__ inline uint32_t bit_of(const PersistentArgs& a, const WordMark& mark) {
  return ((a.launch - 1) & mark.per_launch & 1) ^ (mark.index & 1);
}

__device__ inline MarkedFloat marked(uint32_t bit, float v) { return (__float_as_uint(v) & ~1u) | bit; }

/// As load_tagged(), of marked words.
template <int kCount>
__device__ inline void load_marked(const MarkedFloat* words, const int (&at)[kCount], uint32_t bit,
                                   float4 (&out)[kCount]) {
  bool complete = false;
  for (int polls = 0; !complete; ++polls) {
    if (polls == kMostPolls) __trap();
    uint4 four[kCount];
#pragma unroll
    for (int n = 0; n < kCount; ++n)
      four[n] = at[n] >= 0 ? ptx::load_relaxed_four(words + 4 * at[n]) : make_uint4(bit, bit, bit, bit);
    uint32_t wrong = 0;
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const uint4 w = four[n];
      wrong |= (w.x ^ bit) | (w.y ^ bit) | (w.z ^ bit) | (w.w ^ bit);
      const auto value = [](MarkedFloat word) { return __uint_as_float(word & ~1u); };
      out[n] = make_float4(value(w.x), value(w.y), value(w.z), value(w.w));
    }
    complete = (wrong & 1) == 0;
  }
}

/// The words that aren't null, once they have the tag.
template <int kCount>
__device__ inline void load_words(const TaggedFloat* const (&from)[kCount], uint32_t tag,
                                  float (&out)[kCount]) {
  bool complete = false;
  for (int polls = 0; !complete; ++polls) {
    if (polls == kMostPolls) __trap();
    uint64_t words[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i] = from[i] ? ptx::load_relaxed(from[i]) : tagged(tag, 0.f);
    complete = true;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      complete = complete && static_cast<uint32_t>(words[i] >> 32) == tag;
      out[i] = __uint_as_float(static_cast<uint32_t>(words[i]));
    }
  }
}

}  // namespace carat::cuda
