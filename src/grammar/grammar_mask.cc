// The masks of one request: finds the state after a reply and turns it into bits.
#include <algorithm>
#include <array>
#include <utility>

#include "grammar/compiled_grammar.h"
#include "grammar/reply_paths.h"
#include "grammar/state_sets.h"

namespace carat {
namespace {

using grammar::NodeKind;
using grammar::SetId;
using grammar::StateSets;

constexpr std::size_t kMostSets = 8192;  // about a kilobyte each
constexpr std::size_t kKeptMasks = 8;

class GrammarMask final : public TokenMask {
 public:
  explicit GrammarMask(std::shared_ptr<const Grammar> grammar)
      : grammar_(std::move(grammar)), sets_(grammar_->program(), grammar_->entry()) {}

  void allow_after(std::span<const int32_t> reply, std::span<uint32_t> allowed) override;

 private:
  struct KeptMask {
    SetId set = StateSets::kDead;
    std::vector<uint32_t> words;
  };

  SetId state_after(std::span<const int32_t> reply);
  SetId step(SetId set, int32_t token);
  void fill(SetId set, std::span<uint32_t> allowed);
  void fill_match(const grammar::Config& config, std::span<uint32_t> allowed);
  void fill_below(uint32_t node, SetId set, std::span<uint32_t> allowed);

  std::shared_ptr<const Grammar> grammar_;
  StateSets sets_;
  ReplyPaths<SetId> paths_{StateSets::kStart};
  std::array<KeptMask, kKeptMasks> kept_;
  std::size_t next_kept_ = 0;
};

void GrammarMask::allow_after(std::span<const int32_t> reply, std::span<uint32_t> allowed) {
  if (sets_.size() > kMostSets) {  // all of it is found again
    sets_ = StateSets(grammar_->program(), grammar_->entry());
    paths_.clear();
    kept_ = {};
  }
  const SetId set = state_after(reply);
  if (set == StateSets::kDead) return;
  const auto known = std::ranges::find(kept_, set, &KeptMask::set);
  if (known != kept_.end() && known->words.size() == allowed.size()) {
    std::ranges::copy(known->words, allowed.begin());
    return;
  }
  fill(set, allowed);
  kept_[next_kept_++ % kKeptMasks] = {set, {allowed.begin(), allowed.end()}};
}

SetId GrammarMask::state_after(std::span<const int32_t> reply) {
  return paths_.after(reply, [this](SetId set, int32_t token) { return step(set, token); });
}

SetId GrammarMask::step(SetId set, int32_t token) {
  const Tokenizer& tokenizer = *grammar_->vocabulary().tokenizer;
  if (std::ranges::find(grammar_->end_tokens(), token) != grammar_->end_tokens().end())
    return sets_.step_end(set);
  if (tokenizer.is_special(token)) return sets_.step_token(set, token);
  const std::string_view bytes = tokenizer.token_bytes(token);
  if (bytes.empty()) return StateSets::kDead;
  if (sets_.has(set, NodeKind::thought)) return set;
  for (const char byte : bytes) {
    if (set == StateSets::kDead) break;
    set = sets_.step(set, static_cast<uint8_t>(byte));
  }
  return set;
}

void GrammarMask::fill(SetId set, std::span<uint32_t> allowed) {
  const std::vector<grammar::Config> configs(sets_.configs(set).begin(), sets_.configs(set).end());
  bool has_narrow = false;
  for (const grammar::Config& config : configs) {
    const grammar::Program::Position& position = grammar_->program()[config.node];
    switch (position.kind) {
      case NodeKind::end:
        for (const int32_t token : grammar_->end_tokens()) grammar::set_bit(allowed, token);
        break;
      case NodeKind::token:
        grammar::set_bit(allowed, static_cast<int32_t>(position.what));
        break;
      case NodeKind::thought:
        for (const int32_t token : grammar_->vocabulary().trie.tokens()) grammar::set_bit(allowed, token);
        break;
      default:
        if (grammar_->is_wide(config.leaf.state))
          fill_match(config, allowed);
        else
          has_narrow = true;
    }
  }
  if (!has_narrow) return;
  const auto is_narrow = [&](const grammar::Config& config) { return !grammar_->is_wide(config.leaf.state); };
  fill_below(0, sets_.subset(set, is_narrow), allowed);
}

/// The tokens inside the match, and those that reach its end and go on behind it.
void GrammarMask::fill_match(const grammar::Config& config, std::span<uint32_t> allowed) {
  const auto mask = grammar_->leaf_mask(config.leaf);
  for (const int32_t token : mask->few) grammar::set_bit(allowed, token);
  const std::size_t words = std::min(mask->words.size(), allowed.size());
  for (std::size_t i = 0; i < words; ++i) allowed[i] |= mask->words[i];
  const SetId behind = sets_.behind(config);
  if (!sets_.has(behind, NodeKind::match)) return;
  for (const uint32_t exit : mask->exits) fill_below(exit, behind, allowed);
}

/// The tokens below a node of the trie, whose bytes lead on from `set`.
void GrammarMask::fill_below(uint32_t node, SetId set, std::span<uint32_t> allowed) {
  const grammar::TokenTrie& trie = grammar_->vocabulary().trie;
  trie.walk(
      node, set, [&](SetId& at, uint8_t byte) { return (at = sets_.step(at, byte)) != StateSets::kDead; },
      [&](uint32_t reached, SetId) {
        for (const int32_t token : trie.tokens(reached)) grammar::set_bit(allowed, token);
      });
}

}  // namespace

std::shared_ptr<TokenMask> make_mask(std::shared_ptr<const Grammar> grammar) {
  return std::make_shared<GrammarMask>(std::move(grammar));
}

}  // namespace carat
