// Replies under a mask: whether it allows a given one, and random ones that it allows.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "grammar/grammar.h"
#include "text/tokenizer.h"

namespace carat {

inline std::shared_ptr<const Tokenizer> demo_tokenizer() {
  static const auto tokenizer =
      Tokenizer::load(std::string(CARAT_SOURCE_DIR) + "/models/demo/tokenizer.json");
  return tokenizer;
}

inline constexpr int32_t kEos = 1;

/// For the demo's vocabulary.
inline GrammarCompiler& demo_compiler() {
  static GrammarCompiler compiler(demo_tokenizer(), {kEos, demo_tokenizer()->find("<turn|>"),
                                                     demo_tokenizer()->find("<|tool_response>")});
  return compiler;
}

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  std::size_t below(std::size_t count) { return random_bits(seed_, ++drawn_) % count; }
  bool once_in(std::size_t count) { return below(count) == 0; }

 private:
  uint64_t seed_, drawn_ = 0;
};

class MaskedReply {
 public:
  MaskedReply(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const Grammar> grammar)
      : tokenizer_(std::move(tokenizer)),
        mask_(make_mask(std::move(grammar))),
        words_(static_cast<std::size_t>(tokenizer_->vocab_size()) / 32 + 1) {}

  bool allows(int32_t token) {
    refresh();
    return words_[static_cast<std::size_t>(token) / 32] >> token % 32 & 1;
  }
  std::vector<int32_t> allowed() {
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < tokenizer_->vocab_size(); ++token)
      if (allows(token)) tokens.push_back(token);
    return tokens;
  }
  void push(int32_t token) {
    reply_.push_back(token);
    is_fresh_ = false;
  }
  void clear() {
    reply_.clear();
    is_fresh_ = false;
  }
  const std::vector<int32_t>& tokens() const { return reply_; }
  std::string text() const { return tokenizer_->decode(reply_, true); }
  int32_t byte_token(char byte) const {
    static constexpr std::string_view kHex = "0123456789ABCDEF";
    const auto value = static_cast<unsigned char>(byte);
    return tokenizer_->find(std::string{'<', '0', 'x', kHex[value >> 4], kHex[value & 15], '>'});
  }

  /// The first bytes of `text`, in its own tokens or byte by byte, that the mask doesn't let pass; -1 when
  /// the whole of it passes and may end there, text.size() when it may not end.
  int first_refused(std::string_view text, bool bytes) {
    clear();
    std::vector<int32_t> ids;
    if (bytes)
      for (const char byte : text) ids.push_back(byte_token(byte));
    else
      ids = tokenizer_->encode(text, SpecialTokens::recognise);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!allows(ids[i])) return static_cast<int>(tokenizer_->decode(std::span(ids).first(i), false).size());
      push(ids[i]);
    }
    return allows(kEos) ? -1 : static_cast<int>(text.size());
  }

  /// Draws until the end or `most` tokens; behind half of them tokens that close something are preferred.
  bool draw(Random& random, std::size_t most) {
    clear();
    while (tokens().size() < most) {
      const std::vector<int32_t> choices = allowed();
      if (choices.empty()) {
        ADD_FAILURE() << "nothing is allowed after: " << tokenizer_->decode(reply_, false);
        return false;
      }
      if (allows(kEos) && random.once_in(2)) return true;
      push(choose(choices, random, tokens().size() > most / 2 || random.once_in(3)));
      if (tokens().back() == kEos || is_end(tokens().back())) return true;
    }
    return allows(kEos);
  }

 private:
  bool is_end(int32_t token) const {
    return token == tokenizer_->find("<turn|>") || token == tokenizer_->find("<|tool_response>");
  }
  int32_t choose(const std::vector<int32_t>& choices, Random& random, bool closing) const {
    if (closing) {
      std::vector<int32_t> closers;
      for (const int32_t token : choices) {
        const std::string_view bytes = tokenizer_->token_bytes(token);
        if (bytes.ends_with('"') || bytes.ends_with('}') || bytes.ends_with(']') ||
            tokenizer_->is_special(token))
          closers.push_back(token);
      }
      if (!closers.empty()) return closers[random.below(closers.size())];
    }
    return choices[random.below(choices.size())];
  }
  void refresh() {
    if (is_fresh_) return;
    std::ranges::fill(words_, 0);
    mask_->allow_after(reply_, words_);
    is_fresh_ = true;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<TokenMask> mask_;
  std::vector<int32_t> reply_;
  std::vector<uint32_t> words_;
  bool is_fresh_ = false;
};

}  // namespace carat
