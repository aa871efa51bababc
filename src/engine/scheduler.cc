#include "engine/scheduler.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"

namespace carat {
namespace {

void insert_by_rank(std::vector<std::unique_ptr<Sequence>>& queue, std::unique_ptr<Sequence> sequence) {
  const auto place =
      std::ranges::upper_bound(queue, sequence->rank, {}, [](const auto& s) { return s->rank; });
  queue.insert(place, std::move(sequence));
}

std::unique_ptr<Sequence> take_out(std::vector<std::unique_ptr<Sequence>>& queue, const Sequence& sequence) {
  const auto place = std::ranges::find(queue, &sequence, [](const auto& s) { return s.get(); });
  if (place == queue.end()) return nullptr;
  std::unique_ptr<Sequence> found = std::move(*place);
  queue.erase(place);
  return found;
}

/// Whether the prompt has not been computed for the first time yet.
bool starting(const Sequence& s) { return s.reply_tokens() == 0 && s.cached < s.prompt_tokens; }

}  // namespace

Scheduler::Scheduler(KvPages& pages, const RunnerOptions& limits, const Options& options)
    : pages_(pages), limits_(limits), options_(options), pacer_(options.slowdown) {}

void Scheduler::add(std::unique_ptr<Sequence> sequence) { insert_by_rank(waiting_, std::move(sequence)); }

std::vector<Sequence*> Scheduler::sequences() const {
  std::vector<Sequence*> all;
  for (const Queue* queue : {&running_, &waiting_}) {
    for (const auto& sequence : *queue) all.push_back(sequence.get());
  }
  return all;
}

std::vector<StepShare> Scheduler::plan(std::vector<PageCopy>& copies) {
  admit();
  std::vector<StepShare> shares;
  room_ = limits_.max_step_tokens;
  plan_decoding(shares, copies);
  plan_prompts(shares, copies);
  return shares;
}

/// In order of rank: a large request that has to wait is not overtaken, so it can't starve.
void Scheduler::admit() {
  // Each running sequence must find room for its decode token in every step.
  const std::size_t most = std::min(limits_.max_sequences, limits_.max_step_tokens);
  while (!waiting_.empty() && running_.size() < most) {
    Sequence& first = *waiting_.front();
    first.leader = leader_for(first);
    if (first.leader == nullptr) {
      first.cached = pages_.reuse(first.pages, first.tokens, first.request().cache_salt);
      if (!running_.empty() && !fits(first)) {
        pages_.release_all(first.pages);
        first.cached = 0;
        return;
      }
    }
    if (first.queued_s < 0) {
      first.queued_s = first.submission->elapsed_s();
      first.usage.cached_tokens = first.cached;
    }
    insert_by_rank(running_, take_out(waiting_, first));
  }
}

/// A running sample of the same request that is computing the prompt.
Sequence* Scheduler::leader_for(const Sequence& sequence) const {
  if (!starting(sequence)) return nullptr;
  const auto leader = std::ranges::find_if(running_, [&](const auto& other) {
    return other->submission == sequence.submission && other->leader == nullptr && starting(*other);
  });
  return leader == running_.end() ? nullptr : leader->get();
}

/// Whether the pages suffice for all that runs to read what it has to read, and this one too. Replies grow
/// beyond that: then the last in rank gives way.
bool Scheduler::fits(Sequence& sequence) const {
  for (int g = 0; g < kKvGroups; ++g) {
    const auto missing = [&](const Sequence& s) {
      if (s.leader != nullptr) return 0;
      const int needed = pages_.reserved_pages(g, std::min(s.limit, static_cast<int>(s.tokens.size()) + 1));
      return std::max(0, needed - pages_.held_pages(s.pages, g));
    };
    int wanted = missing(sequence) + pages_.step_pages(g);
    for (const auto& running : running_) wanted += missing(*running);
    if (wanted > pages_.free_pages(g)) return false;
  }
  return true;
}

/// Sequences that decode come first: a long prompt may slow them down, but never stops them.
void Scheduler::plan_decoding(std::vector<StepShare>& shares, std::vector<PageCopy>& copies) {
  const auto decodes = [](const Sequence& s) { return s.leader == nullptr && s.pending() == 1; };
  const auto decoding = std::ranges::count_if(running_, [&](const auto& s) { return decodes(*s); });
  decoding_ = static_cast<int>(decoding);
  const bool prompts = std::ranges::any_of(running_, [](const auto& s) { return s->pending() > 1; });
  int spare = (room_ - decoding_) / (prompts ? 2 : 1);  // for drafts
  if (decoding_ > options_.draft_batch) spare = 0;
  // Whoever is preempted is the last, so the ones before `i` stay where they are.
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (!decodes(sequence)) continue;
    StepShare share{&sequence, 1, {}};
    const int left = sequence.limit - static_cast<int>(sequence.tokens.size()) - 1;
    if (const int most = std::min(spare, left); sequence.drafter && most > 0) {
      const int wanted = std::min(sequence.draft_length.next(), most);
      share.drafts = sequence.drafter->draft(sequence.tokens, wanted);
      if (!pages_.extend(sequence.pages, sequence.cached, share.tokens(), copies)) share.drafts.clear();
    }
    if (!reserve(sequence, 1, shares, copies)) continue;
    spare -= static_cast<int>(share.drafts.size());
    room_ -= share.tokens();
    shares.push_back(std::move(share));
  }
}

/// The first prompt gets half of the room, the next half of what is left, and so on: a long one can't keep
/// the short ones behind it waiting. Then, in the same order, what nobody has claimed.
void Scheduler::plan_prompts(std::vector<StepShare>& shares, std::vector<PageCopy>& copies) {
  std::vector<StepShare> wanted;
  for (const auto& sequence : running_) {
    if (sequence->leader == nullptr && sequence->pending() > 1) wanted.push_back({sequence.get(), 0, {}});
  }
  int room = pacer_.prompt_tokens(decoding_, room_);
  for (const bool halve : {true, false}) {
    for (StepShare& share : wanted) {
      const int offer = halve ? (room + 1) / 2 : room;
      const int more = std::min(offer, share.sequence->pending() - share.count);
      share.count += more;
      room -= more;
    }
  }
  for (StepShare& share : wanted) {
    const bool runs = std::ranges::any_of(running_, [&](const auto& s) { return s.get() == share.sequence; });
    if (!runs || share.count == 0 || !reserve(*share.sequence, share.count, shares, copies)) continue;
    room_ -= share.count;
    shares.push_back(share);
  }
}

/// Makes room for `count` more tokens, at the cost of those last in rank. False when that is the sequence
/// itself. The first in rank always gets its pages: alone it fits, see Engine::max_context().
bool Scheduler::reserve(Sequence& sequence, int count, std::vector<StepShare>& shares,
                        std::vector<PageCopy>& copies) {
  while (!pages_.extend(sequence.pages, sequence.cached, count, copies)) {
    CHECK(running_.size() > 1);
    Sequence& last = *running_.back();
    preempt(last, shares);
    if (&last == &sequence) return false;
  }
  return true;
}

void Scheduler::preempt(Sequence& sequence, std::vector<StepShare>& shares) {
  std::erase_if(shares, [&](const StepShare& share) {
    if (share.sequence != &sequence) return false;
    room_ += share.tokens();
    return true;
  });
  leave(sequence);
  ++sequence.usage.preemptions;
  ++preemptions_;
  insert_by_rank(waiting_, take_out(running_, sequence));
}

/// Takes the pages of a running sequence.
void Scheduler::leave(Sequence& sequence) {
  pages_.release_all(sequence.pages);
  sequence.cached = 0;
  sequence.leader = nullptr;
  lead_on(sequence);
}

/// Samples that waited for this one's prompt wait for the first of themselves.
void Scheduler::lead_on(Sequence& leader) {
  Sequence* next = nullptr;
  for (const auto& sequence : running_) {
    if (sequence->leader != &leader) continue;
    sequence->leader = next;
    if (next != nullptr) continue;
    next = sequence.get();
    next->cached = pages_.reuse(next->pages, next->tokens, next->request().cache_salt);
  }
}

void Scheduler::complete(Sequence& sequence) {
  const std::span<const int32_t> tokens = sequence.tokens;
  pages_.remember(sequence.pages, tokens.first(sequence.cached), sequence.request().cache_salt);
  if (sequence.cached >= sequence.prompt_tokens) {
    for (const auto& sample : running_) {
      if (sample->leader != &sequence) continue;
      sample->leader = nullptr;
      sample->cached = sample->usage.cached_tokens = sample->prompt_tokens - 1;
      pages_.share(sequence.pages, sample->pages, sample->cached);
    }
  }
  pages_.release_behind_window(sequence.pages, sequence.cached);
  pages_.release_beyond(sequence.pages, sequence.cached);
}

void Scheduler::remove(Sequence& sequence) {
  leave(sequence);
  if (!take_out(running_, sequence)) take_out(waiting_, sequence);
}

}  // namespace carat
