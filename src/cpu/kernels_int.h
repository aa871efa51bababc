// matmul for int8 and int4 weights with activations of 8-bit integers. Compiled once per ISA.
//
// Both sides are quantised in the same groups of columns, within which the sums are exact: |sum| <= 64 * 255
// * 127 fits in 32 bits. A group's sum times both scales is added up in float32, in the order of the groups.
#pragma once
#include "cpu/kernels_layout.h"
#include "cpu/kernels_tile.h"

namespace carat::CARAT_ISA {

/// int4 weights are packed as w + 8.
inline constexpr int kInt4Offset = 8;

/// 8 columns of 16 rows as a tile multiplies them: four columns in the bytes of each lane.
struct Octet {
  Ints first, second;
};

/// The shapes in which integer weights reach a tile. `half` says of which 16 rows of the panel. `ahead`: ask
/// for memory that will be read soon.
template <bool ahead>
struct Int8Groups {
  static constexpr int kGroup = kInt8Block;
  static constexpr int64_t kGroupBytes = kInt8GroupBytes;
  const std::byte* at;

  [[gnu::always_inline]] Octet octet(int64_t group, int index, int half) const {
    const std::byte* octet = at + group * kGroupBytes + 64 + 256 * index;
    if constexpr (ahead) {  // both halves are in the same four cache lines; each asks for two
      prefetch(octet + kPrefetchBytes + 128 * half);
      prefetch(octet + kPrefetchBytes + 128 * half + 64);
    }
    return {load_ints(octet + 64 * half), load_ints(octet + 128 + 64 * half)};
  }
  Floats scales(int64_t group, int half) const {
    return load_f16(reinterpret_cast<const uint16_t*>(at + group * kGroupBytes + 32 * half));
  }
};

struct Int4Groups {
  static constexpr int kGroup = kInt4Block;
  static constexpr int64_t kGroupBytes = kInt4GroupBytes;
  const std::byte* at;

  [[gnu::always_inline]] Octet octet(int64_t group, int index, int half) const {
    const std::byte* octet = at + group * kGroupBytes + 64 + 128 * index + 64 * half;
    prefetch(octet + kPrefetchBytes);
    const Ints nibbles = load_ints(octet);
    return {bit_and(nibbles, 0x0f0f0f0fu), bit_and(shift_right<4>(nibbles), 0x0f0f0f0fu)};
  }
  Floats scales(int64_t group, int half) const {
    prefetch(at + group * kGroupBytes + kPrefetchBytes);
    return load_f16(reinterpret_cast<const uint16_t*>(at + group * kGroupBytes + 32 * half));
  }
};

/// int4 weights unpacked once for many tokens: bytes [groups, 8, 32 rows, 4 columns].
struct UnpackedInt4 {
  static constexpr int kGroup = kInt4Block;
  static constexpr int64_t kUnpackedBytes = kPanelRows * kInt4Block;
  Int4Groups packed;
  const std::byte* bytes;

  [[gnu::always_inline]] Octet octet(int64_t group, int index, int half) const {
    const std::byte* octet = bytes + group * kUnpackedBytes + 256 * index + 64 * half;
    return {load_ints(octet), load_ints(octet + 128)};
  }
  Floats scales(int64_t group, int half) const { return packed.scales(group, half); }
};

inline void unpack(const Int4Groups& packed, int64_t groups, std::byte* bytes) {
  for (int64_t group = 0; group < groups; ++group) {
    for (int index = 0; index < kInt4Block / 8; ++index, bytes += 256) {
      for (int half = 0; half < 2; ++half) {
        const Octet octet = packed.octet(group, index, half);
        store_ints(bytes + 64 * half, octet.first);
        store_ints(bytes + 128 + 64 * half, octet.second);
      }
    }
  }
}

/// The right-hand side of a tile.
struct IntColumns {
  const int8_t* x;
  int64_t stride;
  const ActivationBlock* blocks;
  int64_t blocks_stride;

  IntColumns from_token(int token) const {
    return {x + token * stride, stride, blocks + token * blocks_stride, blocks_stride};
  }
  [[gnu::always_inline]] Ints quad(int token, int64_t col) const {
    int32_t four;
    __builtin_memcpy(&four, x + token * stride + col, sizeof four);
    return broadcast(four);
  }
};

/// dots[t][s] = the integer sums of one group.
template <int tokens, class Left>
[[gnu::always_inline]] inline void group_dots(const Left& left, int first_half, int64_t group,
                                              const IntColumns& right, Ints (&dots)[tokens][kTileVectors]) {
  CARAT_UNROLL
  for (int t = 0; t < tokens; ++t) {
    __builtin_prefetch(right.x + (tokens + t) * right.stride + group * Left::kGroup, 0, 3);
    const Ints start = broadcast(right.blocks[t * right.blocks_stride + group].start);
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) dots[t][s] = start;
  }
  for (int index = 0; index < Left::kGroup / 8; ++index) {
    const int64_t col = group * Left::kGroup + 8 * index;
    Octet octets[kTileVectors];
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) octets[s] = left.octet(group, index, first_half + s);
    CARAT_UNROLL
    for (int t = 0; t < tokens; ++t) {
      const Ints x = right.quad(t, col);
      CARAT_UNROLL
      for (int s = 0; s < kTileVectors; ++s) dots[t][s] = dot_quads(dots[t][s], octets[s].first, x);
    }
    CARAT_UNROLL
    for (int t = 0; t < tokens; ++t) {
      const Ints x = right.quad(t, col + 4);
      CARAT_UNROLL
      for (int s = 0; s < kTileVectors; ++s) dots[t][s] = dot_quads(dots[t][s], octets[s].second, x);
    }
  }
}

template <int tokens, class Left>
void int_tile(const Left& left, int first_half, int64_t groups, const IntColumns& right,
              const TileOutput& out) {
  Floats sums[tokens][kTileVectors];
  CARAT_UNROLL
  for (int t = 0; t < tokens; ++t) {
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) sums[t][s] = broadcast(0.f);
  }
  for (int64_t group = 0; group < groups; ++group) {
    Ints dots[tokens][kTileVectors];
    group_dots<tokens>(left, first_half, group, right, dots);
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) {
      const Floats scales = left.scales(group, first_half + s);
      CARAT_UNROLL
      for (int t = 0; t < tokens; ++t) {
        const Floats scale = mul(scales, broadcast(right.blocks[t * right.blocks_stride + group].scale));
        sums[t][s] = fma(to_floats(dots[t][s]), scale, sums[t][s]);
      }
    }
  }
  CARAT_UNROLL
  for (int t = 0; t < tokens; ++t) {
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) out.emit(t, s, sums[t][s]);
  }
}

template <class Left>
void int_tiles(const Left& left, int first_half, int64_t groups, const IntColumns& right, int tokens,
               const TileOutput& out) {
  cover_with_tiles<kIntTileTokens>(tokens, [&](int first, auto size) {
    int_tile<size()>(left, first_half, groups, right.from_token(first), out.from_token(first));
  });
}

template <class Left>
void int_panel(const Left& left, int64_t groups, const IntColumns& right, int tokens, const TileOutput& out) {
  int_tiles(left, 0, groups, right, tokens, out);
  if (kTileVectors == 1 && out.rows > 16) int_tiles(left, 1, groups, right, tokens, out.second_half());
}

/// The largest batch for which int4 weights are unpacked in registers, by each tile anew, and panels only
/// stream by; for larger ones they are unpacked once for all tiles.
inline constexpr int kDirectIntTokens = 2 * kTileTokens;

/// Columns of one panel that follow each other in memory, for few tokens: streamed.
inline void int_stream(WeightFormat format, const std::byte* at, int64_t groups, const IntColumns& right,
                       int tokens, const TileOutput& out) {
  if (format == WeightFormat::int8) return int_panel(Int8Groups<true>{at}, groups, right, tokens, out);
  int_panel(Int4Groups{at}, groups, right, tokens, out);
}

/// The same for many tokens, which read the columns again and again; `next` are the ones to come.
inline void int_reuse(WeightFormat format, const std::byte* at, const std::byte* next, int64_t groups,
                      const IntColumns& right, int tokens, const TileOutput& out) {
  const int64_t bytes = groups * (format == WeightFormat::int8 ? kInt8GroupBytes : kInt4GroupBytes);
  for (int64_t i = 0; i < bytes; i += 64) prefetch(next + i);
  if (format == WeightFormat::int8) return int_panel(Int8Groups<false>{at}, groups, right, tokens, out);
  alignas(64) std::byte unpacked[kPanelRows * kDepth];
  unpack({at}, groups, unpacked);
  int_panel(UnpackedInt4{{at}, unpacked}, groups, right, tokens, out);
}

/// Columns [k, k + depth) of panels [first, first + count) for all tokens.
inline void int_block(const MatmulWeights& w, int64_t first, int64_t count, int64_t k, int64_t depth,
                      const Activations& x, int tokens, float* y, int64_t y_stride) {
  const WeightFormat format = w.linear.format;
  const int64_t group_columns = format == WeightFormat::int8 ? kInt8Block : kInt4Block,
                group_bytes = format == WeightFormat::int8 ? kInt8GroupBytes : kInt4GroupBytes,
                panel_size = (w.linear.cols + group_columns - 1) / group_columns * group_bytes,
                groups = (depth + group_columns - 1) / group_columns, first_group = k / group_columns;
  const IntColumns right{x.quantized + k, x.quantized_stride, x.blocks + first_group, x.blocks_stride};
  for (int64_t panel = first; panel < first + count; ++panel) {
    const std::byte* at = w.linear.data + panel * panel_size + first_group * group_bytes;
    const TileOutput out = panel_output(w, panel, y, y_stride, k > 0);
    if (tokens <= kDirectIntTokens) {
      int_stream(format, at, groups, right, tokens, out);
    } else {
      int_reuse(format, at, at + (count > 1 ? panel_size : groups * group_bytes), groups, right, tokens, out);
    }
  }
}

/// One block of x: q [columns] and what belongs to it. Columns from `left` on become zero. The scale is NaN
/// when a value isn't finite.
template <int columns>
ActivationBlock quantize_block(const float* x, int64_t left, int32_t offset, int8_t* q) {
  constexpr int kVectors = columns / 16;
  Floats values[kVectors], largest = broadcast(0.f), zero_or_nan = broadcast(0.f);
  CARAT_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const int64_t count = left - 16 * i;
    values[i] = count > 0 ? load_first(x + 16 * i, static_cast<int>(min_of(count, 16))) : broadcast(0.f);
    largest = max(largest, as_floats(bit_and(as_ints(values[i]), 0x7fffffffu)));
    zero_or_nan = add(zero_or_nan, sub(values[i], values[i]));
  }
  const float peak = reduce_max(largest);
  // Below this the quotient overflows; such a block is zero for every practical purpose.
  const Floats inverse = broadcast(peak > 1e-30f ? 127.f / peak : 0.f);
  Ints sum = broadcast(int32_t{0});
  CARAT_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const Ints rounded = to_ints(mul(values[i], inverse));
    sum = add(sum, rounded);
    store_bytes(q + 16 * i, rounded);
  }
  const float total = reduce_add(add(to_floats(sum), zero_or_nan));
  if (!(total == total)) return {__builtin_nanf(""), 0};
  return {peak / 127.f, -offset * static_cast<int32_t>(total)};
}

inline void quantize(WeightFormat format, const float* x, int64_t n, int8_t* q, ActivationBlock* blocks) {
  const int columns = format == WeightFormat::int8 ? kInt8Block : kInt4Block;
  for (int64_t i = 0; i < n; i += columns) {
    *blocks++ = format == WeightFormat::int8 ? quantize_block<kInt8Block>(x + i, n - i, kInt8Offset, q + i)
                                             : quantize_block<kInt4Block>(x + i, n - i, kInt4Offset, q + i);
  }
  const int64_t written = (n + columns - 1) / columns * columns;
  if (written < quantized_cols(n)) {
    __builtin_memset(q + written, 0, static_cast<size_t>(quantized_cols(n) - written));
  }
}

}  // namespace carat::CARAT_ISA
