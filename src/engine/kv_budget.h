// KV page counts from an amount of memory, for engines that keep as much as they may: many sequences at once
// and beginnings for later requests. size_kv() in kv_pages.h is the other way round.
#pragma once
#include <array>
#include <cstddef>

#include "engine/runner.h"
#include "model/gemma4.h"

namespace carat {

struct KvBudget {
  std::size_t bytes = 0;
  std::size_t value_bytes = 2;  // of one number of K or V on the device
  std::size_t scale_bytes = 0;  // beside K, and as much beside V, of a token and head
  int context = 0;              // tokens that a single sequence must be able to have
  int sequences = 16;           // at once, as far as memory goes
  int max_step_tokens = 512;
  int page_tokens = RunnerOptions{}.page_tokens;
};

/// Bytes of a page of one group.
std::size_t kv_page_bytes(const KvGroup& group, int page_tokens, std::size_t value_bytes,
                          std::size_t scale_bytes);
/// Bytes of all pages.
std::size_t kv_bytes(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits,
                     std::size_t value_bytes, std::size_t scale_bytes = 0);

/// The sliding group gets two windows per sequence: one for itself and one for beginnings that are kept. The
/// full group gets the rest, at most two contexts per sequence. Throws Error{invalid_argument} when one
/// sequence of the context doesn't fit, saying what would.
RunnerOptions size_kv_within(const std::array<KvGroup, kKvGroups>& groups, const KvBudget& budget);

/// The longest context, up to budget.context, that size_kv_within() accepts; at least a page.
int longest_context_within(const std::array<KvGroup, kKvGroups>& groups, const KvBudget& budget);

}  // namespace carat
