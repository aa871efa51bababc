// How weights lie in panels, and how rows as stored get there. Compiled once per ISA.
//
// A panel is 32 rows:
//   f32   blocks of kDepth columns, each [2, columns, 16 rows]
//   bf16  [columns, 16]: 32-bit lanes of row r (lower half) and row r + 16 (upper half)
//   int8  groups of 64 columns: f16 scales [32], then [16, 32 rows, 4 columns] bytes w + kInt8Offset
//   int4  groups of 32 columns: f16 scales [32], then [4, 32 rows, 4] bytes: of 8 columns, the low nibbles
//   are
//         w + 8 of the first four and the high ones of the last four
// Rows past the last one of the matrix repeat it; what they yield is never stored.
#pragma once
#include <cstddef>
#include <cstdint>

namespace carat::CARAT_ISA {

/// Columns whose products are summed before the sum is added to the output.
inline constexpr int kDepth = 512;

inline int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

/// How a matrix product of many tokens goes through memory, so that the activations it uses again and again
/// stay in half of a 2 MiB L2 cache. Whole rows of at least 256 tokens fit: that many tokens at a time, each
/// panel from its beginning to its end. Otherwise 512 tokens at a time, and all panels take their turn with
/// one block of columns.
struct Blocking {
  int tokens;
  bool whole_panels;
};

inline Blocking choose_blocking(int64_t activation_row_bytes, int tokens) {
  const int64_t fitting = (1 << 20) / activation_row_bytes;
  const bool whole_panels = fitting >= min_of(tokens, 256);
  const int64_t most = whole_panels ? fitting : 512, blocks = (tokens + most - 1) / most;
  return {static_cast<int>((tokens + blocks - 1) / blocks), whole_panels};
}

/// 16 rows of 32-bit units [unit, unit + 16) as stored, transposed: lane r of out[i] is unit `unit + i` of
/// row first_row + r. Units past `bytes` are zero.
inline void transpose_rows(const Linear& w, int64_t row_size, int64_t first_row, int64_t at_byte,
                           int64_t bytes, Ints (&out)[16]) {
  for (int r = 0; r < 16; ++r) {
    const std::byte* from = w.data + min_of(first_row + r, w.rows - 1) * row_size + at_byte;
    out[r] = bytes >= 64 ? load_ints(from) : load_first_bytes(from, static_cast<int>(bytes));
  }
  transpose(out);
}

/// The two 16-bit elements of each lane as float32.
inline void widen_pair(WeightFormat format, Ints pair, Floats& even, Floats& odd) {
  if (format == WeightFormat::bf16) {
    even = as_floats(shift_left<16>(pair));
    odd = as_floats(bit_and(pair, 0xffff0000u));
    return;
  }
  uint16_t halves[16];
  store_words(reinterpret_cast<int16_t*>(halves), pair);
  even = load_f16(halves);
  store_words(reinterpret_cast<int16_t*>(halves), shift_right<16>(pair));
  odd = load_f16(halves);
}

/// Columns [first_col, first_col + count) of 32 rows of row-major f32, f16 or bf16 weights as float32 [2,
/// count, 16].
inline void widen_rows(const Linear& w, int64_t first_row, int64_t first_col, int64_t count, float* out) {
  const int64_t element = w.format == WeightFormat::f32 ? 4 : 2, row_size = w.cols * element,
                step = 64 / element;
  for (int half = 0; half < 2; ++half) {
    for (int64_t k = 0; k < count; k += step) {
      Ints units[16];
      const int64_t left = min_of(count - k, step);
      transpose_rows(w, row_size, first_row + 16 * half, (first_col + k) * element, left * element, units);
      float* at = out + 16 * (half * count + k);
      if (w.format == WeightFormat::f32) {
        for (int i = 0; i < left; ++i) store(at + 16 * i, as_floats(units[i]));
        continue;
      }
      for (int i = 0; 2 * i < left; ++i) {
        Floats even, odd;
        widen_pair(w.format, units[i], even, odd);
        store(at + 32 * i, even);
        if (2 * i + 1 < left) store(at + 32 * i + 16, odd);
      }
    }
  }
}

inline void pack_bf16(const Linear& w, int64_t first_row, std::byte* out) {
  for (int64_t k = 0; k < w.cols; k += 32) {
    Ints lower[16], upper[16];
    const int64_t left = min_of(w.cols - k, 32);
    transpose_rows(w, w.cols * 2, first_row, 2 * k, 2 * left, lower);
    transpose_rows(w, w.cols * 2, first_row + 16, 2 * k, 2 * left, upper);
    std::byte* at = out + 64 * k;
    for (int i = 0; 2 * i < left; ++i) {
      store_ints(at + 128 * i, bit_or(bit_and(lower[i], 0xffffu), shift_left<16>(upper[i])));
      if (2 * i + 1 == left) break;
      store_ints(at + 128 * i + 64, bit_or(shift_right<16>(lower[i]), bit_and(upper[i], 0xffff0000u)));
    }
  }
}

inline void pack_f32(const Linear& w, int64_t first_row, std::byte* out) {
  for (int64_t k = 0; k < w.cols; k += kDepth) {
    widen_rows(w, first_row, k, min_of(w.cols - k, kDepth), reinterpret_cast<float*>(out) + kPanelRows * k);
  }
}

inline constexpr int64_t kInt8GroupBytes = 2 * kPanelRows + kPanelRows * kInt8Block;
inline constexpr int64_t kInt4GroupBytes = 2 * kPanelRows + kPanelRows * kInt4Block / 2;

inline void pack_int8(const Int8Block& block, int row, std::byte* group) {
  __builtin_memcpy(group + 2 * row, &block.scale, 2);
  for (int col = 0; col < kInt8Block; ++col) {
    group[2 * kPanelRows + (col / 4 * kPanelRows + row) * 4 + col % 4] =
        static_cast<std::byte>(block.q[col] + kInt8Offset);
  }
}

inline void pack_int4(const Int4Block& block, int row, std::byte* group) {
  __builtin_memcpy(group + 2 * row, &block.scale, 2);
  const auto weight = [&](int col) {
    return col < 16 ? block.nibbles[col] & 15 : block.nibbles[col - 16] >> 4;
  };
  for (int col = 0; col < kInt4Block; col += 8) {
    for (int i = 0; i < 4; ++i) {
      group[2 * kPanelRows + (col / 8 * kPanelRows + row) * 4 + i] =
          static_cast<std::byte>(weight(col + i) | weight(col + 4 + i) << 4);
    }
  }
}

template <class Block>
void pack_blocks(const Linear& w, int64_t first_row, int64_t group_bytes,
                 void (*pack)(const Block&, int, std::byte*), std::byte* out) {
  constexpr int64_t columns = sizeof(Block) == sizeof(Int8Block) ? kInt8Block : kInt4Block;
  const int64_t groups = (w.cols + columns - 1) / columns;
  for (int64_t g = 0; g < groups; ++g) {
    for (int row = 0; row < kPanelRows; ++row) {
      Block block;
      const int64_t index = min_of(first_row + row, w.rows - 1) * groups + g;
      __builtin_memcpy(&block, w.data + index * static_cast<int64_t>(sizeof block), sizeof block);
      pack(block, row, out + g * group_bytes);
    }
  }
}

inline void pack_panels(const Linear& w, int64_t first_panel, int64_t panel_count, std::byte* out) {
  const size_t size = panel_bytes(packed_format(w.format), w.cols);
  for (int64_t panel = first_panel; panel < first_panel + panel_count; ++panel, out += size) {
    const int64_t row = panel * kPanelRows;
    switch (w.format) {
      case WeightFormat::f32:
      case WeightFormat::f16:
        pack_f32(w, row, out);
        break;
      case WeightFormat::bf16:
        pack_bf16(w, row, out);
        break;
      case WeightFormat::int8:
        pack_blocks<Int8Block>(w, row, kInt8GroupBytes, pack_int8, out);
        break;
      case WeightFormat::int4:
        pack_blocks<Int4Block>(w, row, kInt4GroupBytes, pack_int4, out);
        break;
    }
  }
}

}  // namespace carat::CARAT_ISA
