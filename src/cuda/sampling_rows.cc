#include "cuda/sampling_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <tuple>

#include "base/error.h"
#include "base/random.h"

namespace carat::cuda {

template <class Write>
std::pair<int32_t, int32_t> SamplingRows::append(Write write) {
  const std::size_t place = words_.size();
  write();
  return {static_cast<int32_t>(place), static_cast<int32_t>(words_.size() - place)};
}

void SamplingRows::append_suppressed(const RowSampling& how, SampledRow& row) {
  std::tie(row.suppressed, row.suppressed_count) = append([&] {
    std::ranges::copy_if(how.suppressed, std::back_inserter(words_), [&](int32_t id) { return inside(id); });
  });
}

/// The penalties of the reply need its tokens alone.
void SamplingRows::append_seen(const RowSampling& how, SampledRow& row) {
  const SamplingParams& params = *how.params;
  const bool all = params.repetition_penalty != 1.f;
  const bool reply = params.presence_penalty != 0.f || params.frequency_penalty != 0.f;
  if (!all && !reply) return;
  const auto prompt = static_cast<std::size_t>(how.prompt_tokens);
  distinct_.clear();
  for (std::size_t i = all ? 0 : prompt; i < how.history.size(); ++i) {
    const int32_t id = how.history[i];
    if (!inside(id)) continue;
    int32_t& times = times_in_reply_[static_cast<std::size_t>(id)];
    if (times == 0) {
      distinct_.push_back(id);
      times = 1;
    }
    if (i >= prompt) ++times;
  }
  const auto [place, words] = append([&] {
    for (const int32_t id : distinct_) {
      int32_t& times = times_in_reply_[static_cast<std::size_t>(id)];
      words_.push_back(id);
      words_.push_back(std::exchange(times, 0) - 1);
    }
  });
  row.seen = place;
  row.seen_count = words / 2;
}

void SamplingRows::append_biases(const RowSampling& how, SampledRow& row) {
  const std::vector<TokenBias>& biases = how.params->logit_bias;
  order_.clear();
  for (std::size_t i = 0; i < biases.size(); ++i)
    if (inside(biases[i].token)) order_.push_back({biases[i].token, i});
  std::ranges::sort(order_);
  const auto [place, words] = append([&] {
    for (const auto& [token, index] : order_) {
      words_.push_back(token);
      words_.push_back(std::bit_cast<int32_t>(biases[index].bias));
    }
  });
  row.biases = place;
  row.bias_count = words / 2;
}

std::span<const int32_t> SamplingRows::pack(std::span<const RowSampling> rows) {
  words_.assign(rows.size() * kRowWords, 0);
  SampledRow row{};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RowSampling& how = rows[r];
    const SamplingParams& params = *how.params;
    const auto last_suppressed = std::pair{row.suppressed, row.suppressed_count};
    row = {};
    row.temperature = params.temperature;
    row.top_p = params.top_p;
    row.min_p = params.min_p;
    row.top_k = params.top_k;
    row.uniform = random_uniform(params.seed, static_cast<uint64_t>(how.position));
    row.repetition_penalty = params.repetition_penalty;
    row.presence_penalty = params.presence_penalty;
    row.frequency_penalty = params.frequency_penalty;
    const bool as_before = r > 0 && how.suppressed.data() == rows[r - 1].suppressed.data() &&
                           how.suppressed.size() == rows[r - 1].suppressed.size();
    if (as_before)
      std::tie(row.suppressed, row.suppressed_count) = last_suppressed;
    else
      append_suppressed(how, row);
    append_seen(how, row);
    append_biases(how, row);
    row.allowed = -1;
    if (!how.allowed.empty()) {
      CHECK(how.allowed.size() * 32 >= static_cast<std::size_t>(vocab_));
      row.allowed = append([&] {
                      for (const uint32_t word : how.allowed) words_.push_back(static_cast<int32_t>(word));
                    }).first;
    }
    std::memcpy(words_.data() + r * kRowWords, &row, sizeof row);
  }
  return words_;
}

}  // namespace carat::cuda
