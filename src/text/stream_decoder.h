// A stream of token ids -> pieces of text that are valid UTF-8 and never contain a stop string.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/byte_run.h"
#include "text/tokenizer.h"

namespace carat {

/// One per generated sequence. Joined pieces equal Tokenizer::decode() of all ids, cut at the stop string.
class StreamDecoder {
 public:
  /// Throws Error{invalid_argument} for a stop string that is empty or not valid UTF-8.
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop_strings,
                bool skip_special);

  /// Text that has become certain with this token: whole UTF-8 characters, nothing that may still become part
  /// of a stop string. Byte pieces wait for the end of their run, because decode() replaces a run with one
  /// bad byte as a whole; from the first bad byte on, each of the run becomes U+FFFD at once.
  std::string push(int32_t token);
  /// What is held back, at the end of the stream.
  std::string finish();
  /// A stop string was found; all text before it has been returned and nothing more will be.
  bool stopped() const { return stopped_; }
  /// The one that was found; empty before.
  const std::string& stop_string() const { return stop_string_; }

 private:
  std::string release(bool at_end);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> stop_strings_;
  bool skip_special_;
  bool stopped_ = false;
  std::string stop_string_;
  ByteRun run_;          // byte pieces whose text is not certain yet
  std::string pending_;  // valid text that may begin a stop string
};

}  // namespace carat
