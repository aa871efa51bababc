// What engine/sampler knows of each row of a step, as 32-bit words for the device: one SampledRow per row,
// then the lists they point into. Plain C++, used by device_sampler.cc; the kernels of draw.cu read it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/sampler.h"

namespace carat::cuda {

/// Places are offsets, in words, from the first row.
struct SampledRow {
  float temperature, top_p, min_p;
  int32_t top_k;
  float uniform;  // the random number of (seed, position)
  float repetition_penalty, presence_penalty, frequency_penalty;
  int32_t suppressed, suppressed_count;  // ids
  int32_t seen, seen_count;              // distinct tokens of the history: id, times in the reply
  int32_t biases, bias_count;            // id, bias as a float; equal ids are neighbours, in their order
  int32_t allowed;                       // bit mask of the vocabulary; -1: all are
  int32_t padding;                       // to 64 bytes
};
inline constexpr int kRowWords = sizeof(SampledRow) / sizeof(int32_t);
static_assert(kRowWords == 16);

class SamplingRows {
 public:
  explicit SamplingRows(int vocab) : vocab_(vocab), times_in_reply_(static_cast<std::size_t>(vocab)) {}

  /// Ids outside the vocabulary are left out. Valid until the next call.
  std::span<const int32_t> pack(std::span<const RowSampling> rows);

 private:
  /// Appends a list with what `write` pushes onto words_; returns its place and its words.
  template <class Write>
  std::pair<int32_t, int32_t> append(Write write);
  void append_suppressed(const RowSampling& how, SampledRow& row);
  void append_seen(const RowSampling& how, SampledRow& row);
  void append_biases(const RowSampling& how, SampledRow& row);
  bool inside(int32_t id) const { return id >= 0 && id < vocab_; }

  const int vocab_;
  std::vector<int32_t> words_;
  std::vector<int32_t> times_in_reply_;  // by id, one more than that; all 0 between two rows
  std::vector<int32_t> distinct_;
  std::vector<std::pair<int32_t, std::size_t>> order_;  // of biases: token, index
};

}  // namespace carat::cuda
