#include "engine/engine_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace carat {
namespace {

std::vector<std::unique_ptr<Engine>> one(std::unique_ptr<Engine> engine) {
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(std::move(engine));
  return engines;
}

/// Of the prompt's beginnings, the shortest first. Requests of another salt share nothing with it.
std::vector<uint64_t> beginnings(const Request& request) {
  constexpr std::size_t kTokens = 64;
  std::vector<uint64_t> hashes;
  uint64_t hash = 0;
  for (const char c : request.cache_salt) hash = random_bits(hash, static_cast<unsigned char>(c));
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    hash = random_bits(hash, static_cast<uint32_t>(request.prompt[i]));
    if (i % kTokens == kTokens - 1) hashes.push_back(hash);
  }
  return hashes;
}

void add(EngineStats& sum, const EngineStats& more) {
  sum.running += more.running;
  sum.waiting += more.waiting;
  for (std::size_t g = 0; g < sum.total_pages.size(); ++g) {
    sum.free_pages[g] += more.free_pages[g];
    sum.total_pages[g] += more.total_pages[g];
  }
  sum.steps += more.steps;
  sum.prompt_tokens += more.prompt_tokens;
  sum.cached_tokens += more.cached_tokens;
  sum.reply_tokens += more.reply_tokens;
  sum.drafted_tokens += more.drafted_tokens;
  sum.accepted_tokens += more.accepted_tokens;
  sum.preemptions += more.preemptions;
}

}  // namespace

EnginePool::EnginePool(std::unique_ptr<Engine> engine) : EnginePool(one(std::move(engine))) {}

EnginePool::EnginePool(std::vector<std::unique_ptr<Engine>> engines) {
  CHECK(!engines.empty());
  for (std::unique_ptr<Engine>& engine : engines) members_.push_back({std::move(engine), {}});
}

void EnginePool::Member::look(int more) {
  load = 0;
  std::erase_if(submissions, [&](const std::weak_ptr<const Submission>& weak) {
    const auto submission = weak.lock();
    if (submission) load += submission->request.samples;
    return submission == nullptr;
  });
  failed = !engine->failure().empty();
  full = load + more > engine->runner().info().limits.max_sequences;
}

std::size_t EnginePool::choose(const std::vector<Request>& requests) {
  constexpr int kLittleMore = 4;
  constexpr std::size_t kMostBeginnings = 1 << 18;
  int more = 0;
  for (const Request& request : requests) more += request.samples;
  for (Member& member : members_) member.look(more);
  const auto rank = [](const Member& member) { return std::tuple(member.failed, member.full, member.load); };
  auto best = static_cast<std::size_t>(std::ranges::min_element(members_, {}, rank) - members_.begin());
  auto acceptable = rank(members_[best]);
  if (!members_[best].full) std::get<int>(acceptable) += kLittleMore;  // else all have a queue
  const std::vector<uint64_t> hashes = beginnings(requests.front());
  for (auto hash = hashes.rbegin(); hash != hashes.rend(); ++hash) {
    const auto known = known_beginnings_.find(*hash);
    if (known == known_beginnings_.end()) continue;
    if (rank(members_[known->second]) <= acceptable) best = known->second;
    break;
  }
  if (known_beginnings_.size() > kMostBeginnings) known_beginnings_.clear();
  for (const uint64_t hash : hashes) known_beginnings_[hash] = best;
  return best;
}

RequestHandle EnginePool::submit(std::vector<Request> requests, std::function<void()> notify) {
  if (members_.size() == 1 || requests.empty())
    return members_.front().engine->submit(std::move(requests), std::move(notify));
  const std::lock_guard lock(mutex_);
  Member& member = members_[choose(requests)];
  RequestHandle handle = member.engine->submit(std::move(requests), std::move(notify));
  handle.watch(member.submissions);
  return handle;
}

EngineStats EnginePool::stats() const {
  EngineStats sum;
  for (const Member& member : members_) add(sum, member.engine->stats());
  return sum;
}

std::string EnginePool::failure() const {
  for (const Member& member : members_)
    if (std::string failure = member.engine->failure(); !failure.empty()) return failure;
  return "";
}

int EnginePool::max_context() const {
  int context = members_.front().engine->max_context();
  for (const Member& member : members_) context = std::min(context, member.engine->max_context());
  return context;
}

int EnginePool::max_sequences() const {
  int sequences = 0;
  for (const Member& member : members_) sequences += member.engine->runner().info().limits.max_sequences;
  return sequences;
}

}  // namespace carat
