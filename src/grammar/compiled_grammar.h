// What a compiled grammar consists of. Used by grammar/ only.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/leaf_masks.h"
#include "grammar/program.h"
#include "grammar/token_trie.h"

namespace carat {

namespace grammar {

/// What all grammars of a tokenizer share.
struct Vocabulary {
  explicit Vocabulary(std::shared_ptr<const Tokenizer> its_tokenizer);

  std::shared_ptr<const Tokenizer> tokenizer;
  TokenTrie trie;
  ByteDfas texts;
  mutable LeafMasks text_masks;
};

}  // namespace grammar

class Grammar {
 public:
  /// Throws SchemaError when there is no way from `entry` to the end.
  Grammar(std::shared_ptr<const grammar::Vocabulary> vocabulary, grammar::Program program,
          grammar::Node entry, std::vector<int32_t> end_tokens);

  const grammar::Vocabulary& vocabulary() const { return *vocabulary_; }
  const grammar::Program& program() const { return program_; }
  grammar::Node entry() const { return entry_; }
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }
  /// Whether so many tokens begin with what may follow that their mask is worth keeping.
  bool is_wide(grammar::DfaState state) const { return wide_[state]; }
  std::shared_ptr<const grammar::LeafMask> leaf_mask(const grammar::Leaf& leaf) const;

 private:
  void find_wide_states();
  void compute_masks() const;
  void compute_counted_masks(const grammar::Program::Position& match) const;

  std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  grammar::Program program_;
  grammar::Node entry_;
  std::vector<int32_t> end_tokens_;
  std::vector<bool> wide_;
  mutable grammar::LeafMasks masks_;
};

}  // namespace carat
