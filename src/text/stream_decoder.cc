#include "text/stream_decoder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace carat {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                             std::vector<std::string> stop_strings, bool skip_special)
    : tokenizer_(std::move(tokenizer)), stop_strings_(std::move(stop_strings)), skip_special_(skip_special) {
  for (const std::string& stop : stop_strings_)
    if (stop.empty() || !is_valid_utf8(stop))
      fail(ErrorKind::invalid_argument, "stop string ", in_quotes(stop), " is ",
           stop.empty() ? "empty" : "not valid UTF-8");
}

std::string StreamDecoder::push(int32_t token) {
  const std::string_view bytes = tokenizer_->token_bytes(token);
  if (stopped_ || bytes.empty() || (skip_special_ && tokenizer_->is_special(token))) return {};
  if (tokenizer_->is_byte(token)) {
    run_.push(bytes[0], pending_);
  } else {
    run_.end(pending_);
    pending_ += bytes;
  }
  return release(false);
}

std::string StreamDecoder::finish() {
  if (stopped_) return {};
  run_.end(pending_);
  return release(true);
}

/// Takes from pending_ what is certain. Of several stop strings the one that ends first counts, of those the
/// longest: then the result does not depend on how the text is cut into tokens.
std::string StreamDecoder::release(bool at_end) {
  std::size_t stop_begin = std::string::npos, stop_end = std::string::npos;
  std::size_t keep = 0;  // bytes at the end of pending_ that may begin a stop string
  for (const std::string& stop : stop_strings_) {
    if (const std::size_t begin = pending_.find(stop); begin != std::string::npos) {
      const std::size_t end = begin + stop.size();
      if (end < stop_end || (end == stop_end && begin < stop_begin)) {
        stop_begin = begin, stop_end = end;
        stop_string_ = stop;
      }
    }
    std::size_t prefix = std::min(stop.size() - 1, pending_.size());
    while (prefix > keep && !pending_.ends_with(std::string_view(stop).substr(0, prefix))) --prefix;
    keep = std::max(keep, prefix);
  }
  stopped_ = stop_end != std::string::npos;
  if (stopped_) return std::exchange(pending_, {}).substr(0, stop_begin);
  if (at_end) keep = 0;
  std::string certain = pending_.substr(0, pending_.size() - keep);
  pending_.erase(0, certain.size());
  return certain;
}

}  // namespace carat
