#include "engine/reply_stream.h"

#include <algorithm>
#include <utility>

namespace carat {

ReplyStream::ReplyStream(const Request& request, std::shared_ptr<const Tokenizer> tokenizer,
                         std::span<const int32_t> eos, int max_tokens)
    : ending_(request.stop_tokens), left_(max_tokens) {
  if (!request.ignore_eos) ending_.insert(ending_.end(), eos.begin(), eos.end());
  if (tokenizer) decoder_.emplace(std::move(tokenizer), request.stop, /*skip_special=*/true);
}

bool ReplyStream::ends(int32_t token) const { return std::ranges::find(ending_, token) != ending_.end(); }

ReplyStream::Piece ReplyStream::push(int32_t token) {
  Piece piece;
  bool stop = ends(token);
  if (decoder_ && !stop) {
    piece.text = decoder_->push(token);
    stop = decoder_->stopped();
  }
  const bool last = stop || --left_ == 0;
  if (decoder_ && last) {
    piece.text += decoder_->finish();
    stop |= decoder_->stopped();  // bytes held back may turn out to complete a stop string
  }
  if (last) piece.end = stop ? FinishReason::stop : FinishReason::length;
  return piece;
}

std::string ReplyStream::rest() { return decoder_ ? decoder_->finish() : std::string(); }

}  // namespace carat
