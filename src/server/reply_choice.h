// The events of one sampled reply -> what an API shows of it: text, reasoning, tool calls, tokens, and how it
// ended. Knows nothing of JSON, so that streamed and whole replies come from one place.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chat/output_parser.h"
#include "engine/request.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace carat {

struct ReplyToken {
  int32_t id;
  std::optional<TokenLogprobs> logprobs;
};

struct ReplyCall {
  std::string id;  // "call_..."
  std::string name, arguments;
};

enum class ReplyEndReason { stop, length, tool_calls };

struct ReplyEnd {
  ReplyEndReason reason = ReplyEndReason::stop;
  std::string stop_string;  // the one that was found, if any
  int prompt_tokens = 0, cached_tokens = 0;
  int reply_tokens = 0;  // up to the end that the client sees
  int reasoning_tokens = 0;
  double queued_s = 0, first_token_s = 0, total_s = 0;
};

/// What has become certain of a reply.
struct ReplyDelta {
  std::size_t choice = 0;
  std::string reasoning, content;  // in this order
  std::vector<ReplyCall> calls;    // behind both
  std::vector<ReplyToken> tokens;  // drawn since the last delta, without the one that ended the reply
  std::optional<ReplyEnd> end;
  bool has_text() const { return !reasoning.empty() || !content.empty() || !calls.empty(); }
};

/// How the tokens of a reply are read.
struct ReplyReading {
  std::shared_ptr<const Tokenizer> tokenizer;
  OutputOptions output;  // its stop strings count for plain text as well
  bool is_chat = true;   // else nothing is parsed: all is content
  bool parallel_calls = true;
  bool skip_special = true;  // of plain text
};

/// Reads one reply. Text that is held back waits for later tokens, so deltas may come without text; those
/// without anything are left to the next one.
class ReplyChoice {
 public:
  ReplyChoice(std::size_t index, const ReplyReading& reading, std::span<const int32_t> prompt);

  /// What `event`, the next of the reply, makes certain; nullopt for nothing.
  std::optional<ReplyDelta> read(Event event);
  /// The rest of the reply isn't wanted: a stop string, or a second call where one was asked for.
  bool wants_no_more() const { return cut_.has_value(); }

 private:
  void add_token(Event& event);
  void add(OutputDelta text);
  void end(const Finish& finish);

  ReplyReading reading_;
  std::optional<OutputParser> parser_;
  std::optional<StreamDecoder> decoder_;
  ReplyDelta delta_;
  std::optional<ReplyEndReason> cut_;
  int reply_tokens_ = 0, reasoning_tokens_ = 0;
  bool has_calls_ = false;
};

}  // namespace carat
