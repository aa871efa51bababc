// y[t] = W x[t] for up to 16 tokens and int8 or int4 weights on Hopper.
//
// Weights are the 16-row operand of the tensor cores as they are, tokens the 8-column one: x becomes integers
// of 16 bits, two planes of bytes, with a scale per token and block of weights, so that sums of a block are
// exact. One warp of a CTA copies whole rows, 16 at a time, values and scales, into a ring that is full
// before the kernel waits for its predecessor. Eight warps share the columns of a tile; their sums meet in
// shared memory, in a fixed order.
#include <algorithm>

#include "cuda/lane_vector.h"
#include "cuda/launch.h"
#include "cuda/matmul.h"
#include "cuda/packed_rows.h"
#include "cuda/ptx.h"
#include "cuda/weight_values.h"

namespace carat::cuda {
namespace {

constexpr int kWarps = 8, kConsumers = 32 * kWarps, kThreads = kConsumers + 32;
constexpr int kTileRows = 16, kHalfRows = 8, kTokens = 8;  // tokens: eight or more times as many
constexpr int kSumStride = 20;                             // of a token's 16 sums, against bank conflicts
constexpr int kWarpSums = kTokens * kSumStride;
/// Sums of `tiles` times eight tokens: [2][warps][tokens, rows].
constexpr int sums_bytes(int tiles) { return 2 * kWarps * tiles * kWarpSums * 4; }
constexpr int kMostStages = 6, kRingBytes = 76 * 1024;
constexpr int kStepCols = 64, kMostTokens = 2 * kTokens;
/// Groups of columns of a CTA where the columns may be split.
constexpr int kSplitGroups = 3;

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp() { return static_cast<int>(threadIdx.x) / 32; }
__device__ inline int group() { return lane() / 4; }  // a row of weights and, of x, a token
__device__ inline int quad() { return lane() % 4; }   // columns and, of sums, two tokens

/// kCount neighbouring columns of this lane's token, 4 or 8, as float32's two halves.
template <int kCount>
struct Columns {
  uint32_t hi[kCount / 2], lo[kCount / 2];

  __device__ void load(const MatmulArgs& a, int first_token, int column) {
    const int token = first_token + group();
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) hi[i] = lo[i] = 0;
    if (token >= a.tokens || column >= a.w.cols) return;
    const std::size_t at = static_cast<std::size_t>(token) * a.w.cols + column;
    read(a.x.hi + at, hi);
    read(a.x.lo + at, lo);
  }
  __device__ void sum(float* out) const {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      out[2 * i] = low_bf16(hi[i]) + low_bf16(lo[i]);
      out[2 * i + 1] = high_bf16(hi[i]) + high_bf16(lo[i]);
    }
  }

 private:
  static __device__ void read(const bfloat16* from, uint32_t (&to)[kCount / 2]) {
    if constexpr (kCount == 4) {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      to[0] = v.x, to[1] = v.y;
    } else {
      const uint4 v = *reinterpret_cast<const uint4*>(from);
      to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
  }
};

/// How columns of four lanes become integers.
template <int kCount>
__device__ IntegerScale scale_for(const float (&x)[kCount]) {
  float largest = 0.f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) largest = ptx::max_or_nan(largest, fabsf(x[i]));
#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2)
    largest = ptx::max_or_nan(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  return IntegerScale(largest);
}

/// Sums of rows group() and group() + 8, tokens 2 quad() and 2 quad() + 1.
struct Sums {
  float of[4] = {};

  /// `x`: scales of this lane's tokens.
  __device__ void add(const int (&high)[4], const int (&low)[4], const float2& x, float scale, float scale8) {
#pragma unroll
    for (int c = 0; c < 4; ++c)
      of[c] +=
          static_cast<float>(high[c] * 256 + low[c]) * (c % 2 == 0 ? x.x : x.y) * (c < 2 ? scale : scale8);
  }
  __device__ void put(float* to) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) to[(quad() * 2 + c % 2) * kSumStride + group() + c / 2 * kHalfRows] = of[c];
  }
};

__device__ inline float2 token_scales(const unsigned char* at) {
  return reinterpret_cast<const float2*>(at)[quad()];
}

/// A lane's x of 64 columns: as it is loaded, as it lies in shared memory, and its products with a tile.
template <WeightFormat kFormat>
class Step;

template <>
class Step<WeightFormat::int8> {
 public:
  static constexpr int kBytes = 2 * 32 * 16 + kTokens * 4;  // high bytes, low bytes, scales

  __device__ void load(const MatmulArgs& a, int first_token, int column) {
#pragma unroll
    for (int c = 0; c < 4; ++c) raw_[c].load(a, first_token, column + c * 16 + quad() * 4);
  }
  __device__ void put(unsigned char* to) const {
    float x[16];
#pragma unroll
    for (int c = 0; c < 4; ++c) raw_[c].sum(x + 4 * c);
    const IntegerScale scale = scale_for(x);
    uint32_t high[4], low[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const uint32_t four[4] = {scale.bits(x[4 * c]), scale.bits(x[4 * c + 1]), scale.bits(x[4 * c + 2]),
                                scale.bits(x[4 * c + 3])};
      split_bytes(four, high[c], low[c]);
    }
    reinterpret_cast<uint4*>(to)[lane()] = make_uint4(high[0], high[1], high[2], high[3]);
    reinterpret_cast<uint4*>(to)[32 + lane()] = make_uint4(low[0], low[1], low[2], low[3]);
    if (quad() == 0) reinterpret_cast<float*>(to + 2 * 32 * 16)[group()] = scale.step;
  }
  /// `values`: the lane's row for load_matrices(); `scales`: of row group(), the next 8 rows further down.
  template <int kTiles>
  static __device__ void multiply(const unsigned char* x, const unsigned char* values,
                                  const unsigned char* scales, int half_bytes, Sums (&sums)[kTiles]) {
    uint32_t first[4], second[4];
    ptx::load_matrices(first, values);
    ptx::load_matrices(second, values + 32);
    const float scale = scale_of(*reinterpret_cast<const uint16_t*>(scales));
    const float scale8 = scale_of(*reinterpret_cast<const uint16_t*>(scales + half_bytes));
#pragma unroll
    for (int t = 0; t < kTiles; ++t, x += kBytes) {
      const uint4 h = reinterpret_cast<const uint4*>(x)[lane()];
      const uint4 l = reinterpret_cast<const uint4*>(x)[32 + lane()];
      int high[4] = {}, low[4] = {};
      ptx::mma_signed(high, first, h.x, h.y);
      ptx::mma_unsigned(low, first, l.x, l.y);
      ptx::mma_signed(high, second, h.z, h.w);
      ptx::mma_unsigned(low, second, l.z, l.w);
      sums[t].add(high, low, token_scales(x + 2 * 32 * 16), scale, scale8);
    }
  }

 private:
  Columns<4> raw_[4];
};

/// Two blocks of 32 columns.
template <>
class Step<WeightFormat::int4> {
 public:
  static constexpr int kBlockBytes = 32 * 16 + kTokens * 4;  // two words of high and two of low bytes
  static constexpr int kBytes = 2 * kBlockBytes;

  __device__ void load(const MatmulArgs& a, int first_token, int column) {
#pragma unroll
    for (int j = 0; j < 2; ++j) raw_[j].load(a, first_token, column + j * 32 + quad() * 8);
  }
  __device__ void put(unsigned char* to) const {
#pragma unroll
    for (int j = 0; j < 2; ++j, to += kBlockBytes) {
      float x[8];
      raw_[j].sum(x);
      const IntegerScale scale = scale_for(x);
      uint32_t high[2], low[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // the order of signed_bytes()
        const uint32_t four[4] = {scale.bits(x[2 * i]), scale.bits(x[2 * i + 4]), scale.bits(x[2 * i + 1]),
                                  scale.bits(x[2 * i + 5])};
        split_bytes(four, high[i], low[i]);
      }
      reinterpret_cast<uint4*>(to)[lane()] = make_uint4(high[0], high[1], low[0], low[1]);
      // Weights have 16 times their value.
      if (quad() == 0) reinterpret_cast<float*>(to + 32 * 16)[group()] = scale.step * (1.f / 16.f);
    }
  }
  template <int kTiles>
  static __device__ void multiply(const unsigned char* x, const unsigned char* values,
                                  const unsigned char* scales, int half_bytes, Sums (&sums)[kTiles]) {
    uint32_t words[4];  // of rows group() and group() + 8, block by block
    ptx::load_matrices(words, values);
    const uint32_t pair = *reinterpret_cast<const uint32_t*>(scales);
    const uint32_t pair8 = *reinterpret_cast<const uint32_t*>(scales + half_bytes);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t w = words[2 * j], w8 = words[2 * j + 1];
      const uint32_t rows[4] = {signed_bytes(w << 4), signed_bytes(w8 << 4), signed_bytes(w),
                                signed_bytes(w8)};
      const float scale = half_of(pair, j), scale8 = half_of(pair8, j);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const unsigned char* block = x + t * kBytes + j * kBlockBytes;
        const uint4 planes = reinterpret_cast<const uint4*>(block)[lane()];
        int high[4] = {}, low[4] = {};
        ptx::mma_signed(high, rows, planes.x, planes.y);
        ptx::mma_unsigned(low, rows, planes.z, planes.w);
        sums[t].add(high, low, token_scales(block + 32 * 16), scale, scale8);
      }
    }
  }

 private:
  /// The upper nibbles n as bytes 16 (n - 8): of a word columns 2, 6, 3, 7; of the word shifted by a nibble
  /// columns 0, 4, 1, 5.
  static __device__ uint32_t signed_bytes(uint32_t word) { return (word ^ 0x88888888u) & 0xf0f0f0f0u; }
  static __device__ float half_of(uint32_t pair, int j) {
    return scale_of(static_cast<uint16_t>(j == 0 ? pair : pair >> 16));
  }

  Columns<8> raw_[2];
};

/// How a CTA's part of a row lies in memory and in shared memory.
struct Layout {
  int tiles, groups;  // of columns, of each split
  int row_bytes;      // in memory, the whole row
  int part_bytes, stride;
  int stages, x_bytes;
};

struct Ring {
  unsigned char* memory;
  uint64_t *full, *empty;
  int stages, stage = 0;
  uint32_t parity = 0;

  __device__ void advance() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// The warp that copies: a row to each of its first 16 lanes.
template <WeightFormat kFormat, bool kGated>
__device__ void copy_rows(const MatmulArgs& a, const Layout& layout, Ring ring) {
  const int row = lane(), offset = static_cast<int>(blockIdx.y) * layout.part_bytes;
  const int bytes = min(layout.part_bytes, layout.row_bytes - offset);
  const uint64_t policy = ptx::policy_evict_first();
  int filled = 0;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < layout.tiles; tile += gridDim.x, ++filled, ring.advance()) {
    if (filled >= ring.stages) ptx::barrier_wait(ring.empty + ring.stage, ring.parity ^ 1);
    if (row == 0) ptx::barrier_expect(ring.full + ring.stage, kTileRows * bytes);
    __syncwarp();
    if (row >= kTileRows) continue;
    // Rows outside the matrix are read from inside: their sums are not wanted.
    int from = min(tile * kTileRows + row, a.w.rows - 1);
    if (kGated) {  // 8 rows of the gate, then the 8 rows of the up matrix that belong to them
      const int width = a.w.rows / 2;
      from = min(tile * kHalfRows + row % kHalfRows, width - 1) + row / kHalfRows * width;
    }
    ptx::bulk_copy(ring.memory + (ring.stage * kTileRows + row) * layout.stride,
                   a.w.data + static_cast<std::size_t>(from) * layout.row_bytes + offset, bytes,
                   ring.full + ring.stage, policy);
  }
}

/// Where in a part the values and scales of a step are.
template <WeightFormat kFormat>
__device__ int2 places(int step, int cols) {
  const int column = step * kStepCols, first = column & -kGroupCols, inside = column & (kGroupCols - 1);
  const int base = (column >> kGroupShift) * group_bytes(kFormat, kGroupCols);
  const int rest = cols - first;
  const int values = rest >= kGroupCols ? value_bytes(kFormat, kGroupCols)
                                        : value_bytes(kFormat, round_up(rest, block_cols(kFormat)));
  return make_int2(base + value_bytes(kFormat, inside), base + values + inside / block_cols(kFormat) * 2);
}

/// A thread's sum of every other tile.
struct Place {
  int turn, token, row;

  __device__ Place()
      : turn(static_cast<int>(threadIdx.x) / (kTokens * kTileRows)),
        token(static_cast<int>(threadIdx.x) / kTileRows % kTokens),
        row(static_cast<int>(threadIdx.x) % kTileRows) {}
};

/// Adds the warps' sums of a tile in order and finishes them. `factor` is what Finish::gelu_times multiplies
/// with.
template <bool kGated, int kTiles>
__device__ void finish_tile(const MatmulArgs& a, const float* sums, const Place& place, int tile,
                            const float (&factor)[kTiles]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const float* from = sums + t * kWarpSums + place.token * kSumStride + place.row;
    const int token = t * kTokens + place.token;
    float total = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += from[w * kTiles * kWarpSums];
    if constexpr (kGated) {
      const float up = __shfl_xor_sync(kAllLanes, total, kHalfRows);
      if (place.row < kHalfRows) finish_gated(a, token, tile * kHalfRows + place.row, total, up);
    } else {
      finish(a, blockIdx.y, token, tile * kTileRows + place.row, total, factor[t]);
    }
  }
}

/// The warps that multiply: warp w has steps w, w + 8 and so on of each tile.
template <WeightFormat kFormat, bool kGated, int kTiles>
__device__ void multiply_tiles(const MatmulArgs& a, const Layout& layout, Ring ring, float* sums,
                               unsigned char* columns) {
  const int first_col = static_cast<int>(blockIdx.y) * layout.groups * kGroupCols;
  const int cols = min(layout.groups * kGroupCols, a.w.cols - first_col);
  const int steps = (cols + kStepCols - 1) / kStepCols;
  constexpr int kTogether = 3, kStepBytes = kTiles * Step<kFormat>::kBytes;
#pragma unroll 1
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll 1
    for (int base = warp(); base < steps; base += kTogether * kWarps) {
      Step<kFormat> x[kTogether];
#pragma unroll
      for (int u = 0; u < kTogether; ++u)
        x[u].load(a, t * kTokens, first_col + (base + u * kWarps) * kStepCols);
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        const int step = base + u * kWarps;
        if (step < steps) x[u].put(columns + step * kStepBytes + t * Step<kFormat>::kBytes);
      }
    }
  }
  __syncwarp();  // a warp reads what it has written
  const int value_row = (lane() % 16) * layout.stride + lane() / 16 * 16;
  const int scale_row = group() * layout.stride, half_bytes = kHalfRows * layout.stride;
  const Place place;
  int turn = 0;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < layout.tiles; tile += gridDim.x, turn ^= 1, ring.advance()) {
    const bool mine = place.turn == turn;
    float factor[kTiles];
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
      factor[t] = mine ? factor_of(a, t * kTokens + place.token, tile * kTileRows + place.row) : 0.f;
    const unsigned char* rows = ring.memory + ring.stage * kTileRows * layout.stride;
    Sums acc[kTiles];
    ptx::barrier_wait(ring.full + ring.stage, ring.parity);
#pragma unroll 1
    for (int step = warp(); step < steps; step += kWarps) {
      const int2 at = places<kFormat>(step, cols);
      Step<kFormat>::multiply(columns + step * kStepBytes, rows + value_row + at.x, rows + scale_row + at.y,
                              half_bytes, acc);
    }
    __syncwarp();
    if (lane() == 0) ptx::barrier_arrive(ring.empty + ring.stage);
    float* const tile_sums = sums + turn * kWarps * kTiles * kWarpSums;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) acc[t].put(tile_sums + (warp() * kTiles + t) * kWarpSums);
    ptx::sync_first_threads<kConsumers>();  // the other half of the sums is free again, too
    if (mine) finish_tile<kGated>(a, tile_sums, place, tile, factor);
  }
}

template <WeightFormat kFormat, bool kGated, int kTiles>
__global__ void __launch_bounds__(kThreads, 2)
    few_kernel(const __grid_constant__ MatmulArgs a, const __grid_constant__ Layout layout) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint64_t full[kMostStages], empty[kMostStages];
  ptx::launch_dependents();
  if (threadIdx.x == 0) {
    for (int s = 0; s < layout.stages; ++s) {
      ptx::barrier_init(full + s, 1);
      ptx::barrier_init(empty + s, kWarps);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  unsigned char* const columns = shared + sums_bytes(kTiles);
  const Ring ring{columns + layout.x_bytes, full, empty, layout.stages};
  if (warp() == kWarps) {
    copy_rows<kFormat, kGated>(a, layout, ring);
  } else {
    ptx::wait_for_dependencies();
    multiply_tiles<kFormat, kGated, kTiles>(a, layout, ring, reinterpret_cast<float*>(shared), columns);
  }
}

constexpr int kSharedBytes = 224 * 1024;

int token_tiles(int tokens) { return tokens <= kTokens ? 1 : 2; }

template <WeightFormat kFormat>
Layout layout_of(const Matrix& w, int splits, int tokens) {
  Layout layout{};
  layout.groups = divide_up(divide_up(w.cols, kGroupCols), splits);
  layout.row_bytes = packed_row_bytes(kFormat, w.cols);
  layout.part_bytes = layout.groups * group_bytes(kFormat, kGroupCols);
  // Eight rows that begin 16 bytes apart, modulo 128, meet no bank twice.
  const int chunks = std::min(layout.part_bytes, layout.row_bytes) / 16;
  layout.stride = (chunks | 1) * 16;
  const int steps = divide_up(std::min(layout.groups * kGroupCols, w.cols), kStepCols);
  layout.x_bytes = steps * token_tiles(tokens) * Step<kFormat>::kBytes;
  layout.stages = 2;
  return layout;
}

int shared_bytes(const Layout& layout, int tokens) {
  return sums_bytes(token_tiles(tokens)) + layout.x_bytes + layout.stages * kTileRows * layout.stride;
}

template <WeightFormat kFormat, int kTiles>
void launch_few(Queue& queue, const MatmulArgs& a) {
  const bool gated = a.output.finish == Finish::gated_gelu;
  Layout layout = layout_of<kFormat>(a.w, a.splits, a.tokens);
  layout.tiles = gated ? divide_up(a.w.rows / 2, kHalfRows) : divide_up(a.w.rows, kTileRows);
  // Two CTAs on a multiprocessor hide each other's latencies; of 16 tokens there is work for one.
  const int room_for = 2 * queue.sm_count / kTiles;
  const int ctas = layout.tiles * a.splits <= 2 * queue.sm_count
                       ? layout.tiles
                       : std::clamp(room_for / a.splits, 1, layout.tiles);
  const int stage_bytes = kTileRows * layout.stride;
  const int room = std::min(kRingBytes / stage_bytes,
                            layout.stages + (kSharedBytes - shared_bytes(layout, a.tokens)) / stage_bytes);
  layout.stages = std::min(std::clamp(room, 2, kMostStages), divide_up(layout.tiles, ctas));
  launch(queue, gated ? few_kernel<kFormat, true, kTiles> : few_kernel<kFormat, false, kTiles>,
         dim3(ctas, a.splits), kThreads, shared_bytes(layout, a.tokens), a, layout);
}

template <WeightFormat kFormat>
void launch_few(Queue& queue, const MatmulArgs& a) {
  if (token_tiles(a.tokens) == 1) {
    launch_few<kFormat, 1>(queue, a);
  } else {
    launch_few<kFormat, 2>(queue, a);
  }
}

}  // namespace

bool few_supports(const Queue& queue, const Matrix& w, int tokens, int most_splits) {
  if (!queue.warpgroups || tokens > kMostTokens || w.format == WeightFormat::bf16) return false;
  const int splits = few_splits(w, most_splits);
  const Layout layout = w.format == WeightFormat::int8 ? layout_of<WeightFormat::int8>(w, splits, tokens)
                                                       : layout_of<WeightFormat::int4>(w, splits, tokens);
  return shared_bytes(layout, tokens) <= kSharedBytes;
}

int few_splits(const Matrix& w, int most_splits) {
  return std::min(divide_up(divide_up(w.cols, kGroupCols), kSplitGroups), most_splits);
}

void few_matmul(Queue& queue, const MatmulArgs& args) {
  if (args.w.format == WeightFormat::int8) {
    launch_few<WeightFormat::int8>(queue, args);
  } else {
    launch_few<WeightFormat::int4>(queue, args);
  }
}

}  // namespace carat::cuda
