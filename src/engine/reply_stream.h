// Drawn tokens -> what the caller sees of them, and when they end the reply. One per sequence.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/stream_decoder.h"

namespace carat {

class ReplyStream {
 public:
  /// `tokenizer` may be null: no text then. `max_tokens`: how many tokens end it at the latest.
  ReplyStream(const Request& request, std::shared_ptr<const Tokenizer> tokenizer,
              std::span<const int32_t> eos, int max_tokens);

  /// Takes the next token: the text that has become certain, and why the reply ends with it, if it does.
  struct Piece {
    std::string text;
    std::optional<FinishReason> end;
  };
  Piece push(int32_t token);
  /// The text held back, for a reply that ends otherwise.
  std::string rest();

  /// Eos and stop tokens.
  const std::vector<int32_t>& ending_tokens() const { return ending_; }
  bool ends(int32_t token) const;

 private:
  std::vector<int32_t> ending_;
  std::optional<StreamDecoder> decoder_;
  int left_;
};

}  // namespace carat
