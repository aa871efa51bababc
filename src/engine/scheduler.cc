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

bool decodes(const Sequence& s) { return s.leader == nullptr && s.pending() == 1; }

/// Counts the sequence in.
void add_to(PromptPacer::Load& load, const Sequence& s) {
  if (s.pending() == 1) {
    ++load.decoding;
  } else {
    load.context = std::max(load.context, s.cached);
  }
}

}  // namespace

Scheduler::Scheduler(KvPages& pages, const RunnerOptions& limits, const Options& options,
                     const ModelDrafter* drafter)
    : pages_(pages), limits_(limits), options_(options), drafter_(drafter), pacer_(options.slowdown) {}

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
  load_ = {};
  prompt_tokens_ = 0;
  for (const StepShare& share : shares) {
    add_to(load_, *share.sequence);
    if (share.sequence->pending() > 1) prompt_tokens_ += share.count;
  }
  return shares;
}

/// In order of rank: a large request that has to wait is not overtaken, so it can't starve.
void Scheduler::admit() {
  // Each running sequence must find room for its decode token in every step.
  const std::size_t most = std::min(limits_.max_sequences, limits_.max_step_tokens);
  while (!waiting_.empty() && running_.size() < most) {
    Sequence& first = *waiting_.front();
    find_beginning(first);
    if (!running_.empty() && !fits(first)) {
      pages_.release_all(first.pages);
      first.cached = 0;
      first.leader = nullptr;
      return;
    }
    if (first.queued_s < 0) first.queued_s = first.submission->elapsed_s();
    insert_by_rank(running_, take_out(waiting_, first));
  }
}

/// Whether the pages suffice for all that runs to read what it has to read, and this one too. Replies grow
/// beyond that: then the last in rank gives way.
bool Scheduler::fits(const Sequence& sequence) const {
  for (int g = 0; g < kKvGroups; ++g) {
    const auto missing = [&](const Sequence& s) {
      const int needed = pages_.reserved_pages(g, std::min(s.limit, static_cast<int>(s.tokens.size()) + 1));
      const int had = s.leader != nullptr ? s.awaited / limits_.page_tokens : pages_.held_pages(s.pages, g);
      return std::max(0, needed - had);
    };
    int wanted = missing(sequence) + pages_.step_pages(g);
    for (const auto& running : running_) wanted += missing(*running);
    if (wanted > pages_.free_pages(g)) return false;
  }
  return true;
}

/// What a sequence without pages begins with: known pages, or a leader who is about to have more of them.
void Scheduler::find_beginning(Sequence& sequence) {
  sequence.cached = pages_.reuse(sequence.pages, sequence.tokens, sequence.request().cache_salt);
  const bool follows = follow(sequence);
  if (follows) {
    pages_.release_all(sequence.pages);
    sequence.cached = 0;
  }
  if (starting(sequence) && sequence.usage.preemptions == 0) sequence.usage.cached_tokens = sequence.cached;
}

/// Lets the sequence wait for whoever is computing most of what it would have to. The leader is before it in
/// line and so gets at least the room that it would get itself: nobody waits longer than computing takes.
bool Scheduler::follow(Sequence& sequence) const {
  sequence.leader = nullptr;
  sequence.awaited = sequence.cached;
  for (const auto& other : running_) {
    if (other->leader != nullptr || other->rank >= sequence.rank) continue;
    const int shared = shared_by(*other, sequence);
    if (shared <= other->cached || shared <= sequence.awaited) continue;
    sequence.leader = other.get();
    sequence.awaited = shared;
  }
  return sequence.leader != nullptr;
}

/// Tokens whose pages the sequence can take over: of a sample of the same request the whole prompt, of a text
/// that begins alike whole pages.
int Scheduler::shared_by(const Sequence& leader, const Sequence& sequence) const {
  if (leader.submission == sequence.submission && starting(leader) && starting(sequence))
    return sequence.prompt_tokens;
  if (!pages_.keeps_prefixes() || leader.request().cache_salt != sequence.request().cache_salt) return 0;
  const auto parted = std::ranges::mismatch(leader.tokens, sequence.tokens).in2 - sequence.tokens.begin();
  const int alike = std::min(static_cast<int>(parted), static_cast<int>(sequence.tokens.size()) - 1);
  return alike / limits_.page_tokens * limits_.page_tokens;
}

/// The sequences that decode, with guesses of at most `spare` tokens in all.
std::vector<StepShare> Scheduler::guess(int spare) {
  std::vector<DraftWish> wishes;
  for (const auto& sequence : running_) {
    if (!decodes(*sequence)) continue;
    DraftWish& wish = wishes.emplace_back(DraftWish{sequence.get(), 0});
    const int left = sequence->limit - static_cast<int>(sequence->tokens.size()) - 1;
    const int most = std::min(spare, left);
    if ((!sequence->drafter && !drafter_) || most <= 0) continue;
    wish.most = std::min(sequence->draft_length.next(), most);
    if (sequence->drafter) wish.drafts = sequence->drafter->draft(sequence->tokens, wish.most);
    spare -= sequence->drafter ? static_cast<int>(wish.drafts.size()) : wish.most;
  }
  if (drafter_) drafter_->draft(wishes);
  std::vector<StepShare> shares;
  for (DraftWish& wish : wishes) {
    const auto ends = [&](int32_t token) { return wish.sequence->stream.ends(token); };
    const auto end = std::ranges::find_if(wish.drafts, ends);  // nothing follows it
    if (end != wish.drafts.end()) wish.drafts.erase(end + 1, wish.drafts.end());
    shares.push_back({wish.sequence, 1, std::move(wish.drafts)});
  }
  return shares;
}

/// Sequences that decode come first: a long prompt may slow them down, but never stops them.
void Scheduler::plan_decoding(std::vector<StepShare>& shares, std::vector<PageCopy>& copies) {
  const auto decoding =
      static_cast<int>(std::ranges::count_if(running_, [](const auto& s) { return decodes(*s); }));
  const bool prompts = std::ranges::any_of(running_, [](const auto& s) { return s->pending() > 1; });
  const int spare = (room_ - decoding) / (prompts ? 2 : 1);
  for (StepShare& share : guess(decoding > options_.draft_batch ? 0 : spare)) {
    Sequence& sequence = *share.sequence;
    if (!runs(sequence)) continue;
    if (!pages_.extend(sequence.pages, sequence.cached, share.tokens(), copies)) share.drafts.clear();
    if (!reserve(sequence, 1, shares, copies)) continue;
    room_ -= share.tokens();
    shares.push_back(std::move(share));
  }
}

bool Scheduler::runs(const Sequence& sequence) const {
  return std::ranges::any_of(running_, [&](const auto& s) { return s.get() == &sequence; });
}

/// The first prompt gets half of the room, the next half of what is left, and so on: a long one can't keep
/// the short ones behind it waiting. Then, in the same order, what nobody has claimed.
void Scheduler::plan_prompts(std::vector<StepShare>& shares, std::vector<PageCopy>& copies) {
  std::vector<StepShare> wanted;
  for (const auto& sequence : running_) {
    if (sequence->leader == nullptr && sequence->pending() > 1) wanted.push_back({sequence.get(), 0, {}});
  }
  PromptPacer::Load load;  // as it is about to be
  for (const StepShare& share : shares) add_to(load, *share.sequence);
  for (const StepShare& share : wanted) add_to(load, *share.sequence);
  int room = pacer_.prompt_tokens(load, room_);
  for (const bool halve : {true, false}) {
    for (StepShare& share : wanted) {
      const int offer = halve ? (room + 1) / 2 : room;
      const int more = std::min(offer, share.sequence->pending() - share.count);
      share.count += more;
      room -= more;
    }
  }
  for (StepShare& share : wanted) {
    if (!runs(*share.sequence) || share.count == 0 || !reserve(*share.sequence, share.count, shares, copies))
      continue;
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
  auto owned = take_out(running_, sequence);
  leave(sequence);
  ++sequence.usage.preemptions;
  ++preemptions_;
  insert_by_rank(waiting_, std::move(owned));
}

/// Takes the pages of a sequence that doesn't run any more.
void Scheduler::leave(Sequence& sequence) {
  pages_.release_all(sequence.pages);
  sequence.cached = 0;
  sequence.leader = nullptr;
  part_from(sequence);
}

/// Those who waited for this one look for another leader: mostly the first of themselves.
void Scheduler::part_from(const Sequence& leader) {
  for (const auto& sequence : running_) {
    if (sequence->leader == &leader) find_beginning(*sequence);
  }
}

/// What the sequence has waited for is there.
void Scheduler::join(const Sequence& leader, Sequence& sequence) {
  const bool sample = leader.submission == sequence.submission && sequence.awaited == sequence.prompt_tokens;
  if (!sample) return find_beginning(sequence);
  sequence.leader = nullptr;
  sequence.cached = sequence.usage.cached_tokens = sequence.prompt_tokens - 1;
  pages_.share(leader.pages, sequence.pages, sequence.cached);
}

void Scheduler::complete(Sequence& sequence) {
  const std::span<const int32_t> tokens = sequence.tokens;
  pages_.remember(sequence.pages, tokens.first(sequence.cached), sequence.request().cache_salt);
  for (const auto& other : running_) {
    if (other->leader == &sequence && sequence.cached >= other->awaited) join(sequence, *other);
  }
  pages_.release_behind_window(sequence.pages, sequence.cached);
  pages_.release_beyond(sequence.pages, sequence.cached);
}

void Scheduler::remove(Sequence& sequence) {
  auto owned = take_out(running_, sequence);
  if (!owned) owned = take_out(waiting_, sequence);
  leave(sequence);
}

}  // namespace carat
