// Turns runs of byte pieces into text as Hugging Face tokenizers do. Used by Tokenizer::decode and
// StreamDecoder.
#pragma once
#include <string>

#include "text/unicode.h"

namespace carat {

/// A run of consecutive byte pieces. The rule is that of the ByteFallback decoder: a run that is valid UTF-8
/// as a whole becomes that text, in any other run every byte becomes one U+FFFD. So a valid run is only
/// certain when it ends, while a run is known to be invalid at its first bad byte.
class ByteRun {
 public:
  /// Adds the run's next byte; appends to `text` what has become certain.
  void push(char byte, std::string& text) {
    if (invalid_) {
      text += kReplacementCharacter;
      return;
    }
    bytes_ += byte;
    const Utf8Scan scan = scan_utf8(bytes_, last_character_);
    if (scan.state == Utf8Scan::State::whole) last_character_ = bytes_.size();
    if (scan.state == Utf8Scan::State::invalid) {
      replace_all(text);
      invalid_ = true;
    }
  }

  /// The run is over; appends what was held back.
  void end(std::string& text) {
    if (last_character_ == bytes_.size()) {
      text += bytes_;
    } else {
      replace_all(text);
    }
    bytes_.clear();
    last_character_ = 0;
    invalid_ = false;
  }

 private:
  void replace_all(std::string& text) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) text += kReplacementCharacter;
    bytes_.clear();
    last_character_ = 0;
  }

  std::string bytes_;               // valid so far, perhaps but for a cut character at the end
  std::size_t last_character_ = 0;  // where that cut character begins
  bool invalid_ = false;
};

}  // namespace carat
