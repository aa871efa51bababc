// A runner without a model, for tests of the engine: its "attention" hashes what it finds in the KV pages.
// Two layers of it, as in a real model: what a row reads is stored and read again by later rows. A page that
// is wrong, stale, shared or released too early, a wrong position and a token of another sequence all change
// the logits.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/host_runner.h"

namespace carat {

/// One token in one group's storage.
struct ScriptedCell {
  uint64_t token = ~uint64_t{0};  // layer 0: token and position
  uint64_t context = 0;           // layer 1: what the row saw of layer 0
};

/// Hash of all that position `position` sees in each group; read(group, position) gives a layer's value.
template <class Read>
uint64_t scripted_attention(const std::array<KvGroup, kKvGroups>& groups, int position, const Read& read) {
  uint64_t hash = 1;
  for (int g = 0; g < kKvGroups; ++g) {
    const int window = groups[g].window;
    for (int seen = window > 0 ? std::max(0, position - window + 1) : 0; seen <= position; ++seen) {
      hash = random_bits(hash, read(g, seen));
    }
  }
  return hash;
}

inline uint64_t scripted_token(int32_t token, int position) {
  return static_cast<uint64_t>(token) << 32 | static_cast<uint32_t>(position);
}

inline void scripted_logits(uint64_t hash, std::span<float> logits) {
  for (std::size_t id = 0; id < logits.size(); ++id) logits[id] = 6.f * random_uniform(hash, id);
}

inline std::vector<int32_t> random_tokens(uint64_t seed, int count, int vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(random_bits(seed, i) % static_cast<uint64_t>(vocab)));
  }
  return tokens;
}

/// The logits after a sequence, without any pages: what the runner must arrive at.
class ScriptedSequence {
 public:
  explicit ScriptedSequence(const std::array<KvGroup, kKvGroups>& groups) : groups_(groups) {}

  std::vector<float> push(int32_t token, int vocab) {
    const int position = static_cast<int>(cells_.size());
    cells_.push_back({scripted_token(token, position), 0});
    cells_.back().context =
        scripted_attention(groups_, position, [&](int, int seen) { return cells_[seen].token; });
    std::vector<float> logits(vocab);
    scripted_logits(
        scripted_attention(groups_, position, [&](int, int seen) { return cells_[seen].context; }), logits);
    return logits;
  }

 private:
  std::array<KvGroup, kKvGroups> groups_;
  std::vector<ScriptedCell> cells_;
};

class ScriptedRunner final : public HostRunner {
 public:
  ScriptedRunner(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits, int vocab)
      : HostRunner({"scripted", limits, 0, 0, vocab, groups, true}) {
    for (int g = 0; g < kKvGroups; ++g) cells_[g].resize(limits.pages[g] * limits.page_tokens);
  }

  void copy_pages(std::span<const PageCopy> copies) override {
    const int size = info().limits.page_tokens;
    for (const PageCopy& copy : copies) {
      std::copy_n(cells_[copy.group].begin() + copy.from * size, size,
                  cells_[copy.group].begin() + copy.to * size);
    }
  }

  /// What greedy drawing will give, but for one guess in four.
  std::vector<int32_t> draft(const DraftRows& rows, int count) override {
    std::vector<int32_t> guesses;
    for (int r = 0; r < rows.count(); ++r) {
      EXPECT_LT(rows.logit_rows[r], std::ssize(logits_) / info().vocab);
      std::vector<ScriptedCell> own;  // from position past[r] on
      int32_t token = rows.tokens[r];
      for (int i = 0; i < count; ++i) {
        const std::vector<float> logits = logits_behind(rows, r, own, token);
        token = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
        if (random_bits(static_cast<uint64_t>(token), static_cast<uint64_t>(rows.past[r] + i)) % 4 == 0)
          token = (token + 1) % info().vocab;
        guesses.push_back(token);
      }
    }
    return guesses;
  }

  /// From now on, the logits that follow this token are NaN.
  void poison(int32_t token) { poisoned_ = token; }
  int largest_step() const { return largest_step_; }
  /// Called at the beginning of each step; may wait, or throw as a device would.
  void before_each_step(std::function<void()> hook) { hook_ = std::move(hook); }

 protected:
  std::span<float> run(const StepRows& step) override {
    if (hook_) hook_();
    largest_step_ = std::max(largest_step_, step.all.count());
    for_each_row(step.all, [&](int row, int position, int sequence) {
      for (int g = 0; g < kKvGroups; ++g) {
        cell(step, g, sequence, position).token = scripted_token(step.all.tokens[row], position);
      }
    });
    for_each_row(step.all, [&](int, int position, int sequence) {
      const uint64_t context = scripted_attention(
          info().kv_groups, position, [&](int g, int seen) { return cell(step, g, sequence, seen).token; });
      for (int g = 0; g < kKvGroups; ++g) cell(step, g, sequence, position).context = context;
    });
    const std::size_t vocab = info().vocab;
    logits_.resize(step.tail.count() * vocab);
    for_each_row(step.tail, [&](int row, int position, int sequence) {
      const std::span<float> logits = std::span(logits_).subspan(row * vocab, vocab);
      scripted_logits(
          scripted_attention(info().kv_groups, position,
                             [&](int g, int seen) { return cell(step, g, sequence, seen).context; }),
          logits);
      if (step.tail.tokens[row] == poisoned_) logits[0] = std::numeric_limits<float>::quiet_NaN();
    });
    return logits_;
  }

 private:
  template <class Visit>
  static void for_each_row(const Rows& rows, const Visit& visit) {
    for (const Segment& segment : rows.segments) {
      for (int i = 0; i < segment.count; ++i) visit(segment.first + i, segment.past + i, segment.sequence);
    }
  }

  /// The logits when `token` follows the sequence of row r and the tokens of `own`, which gets it too.
  std::vector<float> logits_behind(const DraftRows& rows, int r, std::vector<ScriptedCell>& own,
                                   int32_t token) {
    const int past = rows.past[r], position = past + static_cast<int>(own.size());
    const auto at = [&](int g, int seen) -> ScriptedCell& {
      return seen < past ? cell(rows.page_tables[g], g, r, seen) : own[seen - past];
    };
    own.push_back({scripted_token(token, position), 0});
    own.back().context =
        scripted_attention(info().kv_groups, position, [&](int g, int seen) { return at(g, seen).token; });
    std::vector<float> logits(info().vocab);
    scripted_logits(
        scripted_attention(info().kv_groups, position, [&](int g, int seen) { return at(g, seen).context; }),
        logits);
    return logits;
  }

  ScriptedCell& cell(const StepRows& step, int group, int sequence, int position) {
    return cell(step.page_tables[group], group, sequence, position);
  }
  ScriptedCell& cell(const PageTable& table, int group, int sequence, int position) {
    const int size = info().limits.page_tokens, index = position / size;
    const int page = index < table.stride ? table.pages[sequence * table.stride + index] : -1;
    if (page < 0 || page >= info().limits.pages[group]) {
      ADD_FAILURE() << "group " << group << " has no page for position " << position;
      return lost_;
    }
    return cells_[group][page * size + position % size];
  }

  std::array<std::vector<ScriptedCell>, kKvGroups> cells_;
  ScriptedCell lost_;
  std::vector<float> logits_;
  int32_t poisoned_ = -1;
  int largest_step_ = 0;
  std::function<void()> hook_;
};

}  // namespace carat
