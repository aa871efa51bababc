#include "grammar/compiled_grammar.h"

#include <algorithm>
#include <utility>

namespace carat {
namespace {

constexpr uint32_t kWideTokens = 1000;
constexpr std::size_t kTextMasks = 2560, kOwnMasks = 256, kPreparedMasks = 64;

uint32_t tokens_behind(const grammar::TokenTrie& trie, const grammar::ByteDfas& dfas,
                       grammar::DfaState state) {
  uint32_t count = 0;
  for (const auto& edge : dfas.edges(state))
    count += trie.tokens_up_to(edge.last) -
             (edge.first == 0 ? 0 : trie.tokens_up_to(static_cast<uint8_t>(edge.first - 1)));
  return count;
}

}  // namespace

namespace grammar {

Vocabulary::Vocabulary(std::shared_ptr<const Tokenizer> its_tokenizer)
    : tokenizer(std::move(its_tokenizer)), trie(*tokenizer), text_masks(kTextMasks) {
  for (DfaState state = 0; state < texts.size(); ++state)
    if (tokens_behind(trie, texts, state) >= kWideTokens) text_masks.get(trie, texts, {.state = state});
}

}  // namespace grammar

using grammar::kUnlimited;

Grammar::Grammar(std::shared_ptr<const grammar::Vocabulary> vocabulary, grammar::Program program,
                 grammar::Node entry, std::vector<int32_t> end_tokens)
    : vocabulary_(std::move(vocabulary)),
      program_(std::move(program)),
      entry_(entry),
      end_tokens_(std::move(end_tokens)),
      masks_(kOwnMasks) {
  if (!program_.finish(entry_))
    throw SchemaError(ErrorKind::invalid_argument, "", "#",
                      "nothing satisfies the schema, or only what is nested too deep");
  find_wide_states();
  compute_masks();
}

std::shared_ptr<const grammar::LeafMask> Grammar::leaf_mask(const grammar::Leaf& leaf) const {
  const bool shared = leaf.state < grammar::ByteDfas::shared_states();
  return (shared ? vocabulary_->text_masks : masks_)
      .get(vocabulary_->trie, program_.dfas(), leaf, vocabulary_->text_masks);
}

void Grammar::find_wide_states() {
  for (grammar::DfaState state = 0; state < program_.dfas().size(); ++state)
    wide_.push_back(tokens_behind(vocabulary_->trie, program_.dfas(), state) >= kWideTokens);
}

/// Those that are sure to be needed, so that the engine's thread doesn't have to.
void Grammar::compute_masks() const {
  std::size_t prepared = 0;
  for (auto state = static_cast<grammar::DfaState>(grammar::ByteDfas::shared_states());
       state < program_.dfas().size() && prepared < kPreparedMasks; ++state) {
    if (!is_wide(state)) continue;
    leaf_mask({.state = state});
    ++prepared;
  }
  for (grammar::Node node = 0; node < program_.size(); ++node)
    if (program_[node].kind == grammar::NodeKind::match) compute_counted_masks(program_[node]);
}

/// Those of a text's last characters, and of the last ones that it needs.
void Grammar::compute_counted_masks(const grammar::Program::Position& match) const {
  if (match.least == 0 && match.most == kUnlimited) return;
  const uint32_t reach = vocabulary_->trie.most_characters();
  const auto& texts = program_.dfas();
  const bool is_json = match.what != texts.gemma_text();
  const auto prepare_before = [&](uint32_t count) {
    for (uint32_t seen = count - std::min(count, reach + 1); seen <= count; ++seen) {
      const uint32_t left = match.most == kUnlimited ? kUnlimited : match.most - std::min(seen, match.most);
      leaf_mask({is_json ? texts.json_text() : texts.gemma_text(), match.least - std::min(seen, match.least),
                 left});
    }
  };
  prepare_before(match.least);
  if (match.most != kUnlimited) prepare_before(match.most);
}

}  // namespace carat
