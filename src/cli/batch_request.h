// One line of `carat batch`'s input -> what to ask the model; the model's reply -> one line of its output.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "carat/engine.h"

namespace carat {

struct BatchRequest {
  uint32_t line_hash = 0;          // see hash_of_line()
  std::string custom_id = "null";  // JSON, as the line has it
  std::string error;               // why the line is no request; empty when it is one
  /// A line of OpenAI's batch format; its reply gets the form of that one too.
  bool in_body = false;

  enum class Kind {
    chat,         // `text` is the JSON of messages
    turn,         // `text` is the user's one turn
    continuation  // of `text`, or of `tokens` when there are any
  } kind = Kind::turn;
  std::string text;
  std::vector<int32_t> tokens;
  ReplyOptions options;
};

/// Accepts {"prompt": ...} and {"messages": [...]} with the parameters of OpenAI's API, an "id" or
/// "custom_id", and OpenAI's batch lines, which have all that in "body". `chats`: whether a text in "prompt"
/// is a turn; else it is continued. Never throws for what the line says.
BatchRequest parse_batch_request(std::string_view line, const ReplyOptions& defaults, bool chats);

/// Tells a line from one that was there before; never 0.
uint32_t hash_of_line(std::string_view line);

/// "index" comes first, then "custom_id" and "line_hash". Each ends with a newline.
std::string batch_reply_line(uint64_t index, const BatchRequest& request, const Completion& reply,
                             const std::string& model);
/// `code`: what kind of error, for programs.
std::string batch_error_line(uint64_t index, const BatchRequest& request, std::string_view code,
                             std::string_view message);

/// Every line of the output begins so.
inline constexpr const char* kReplyBegins = R"({"index":)";

/// What a line of the output is about.
struct BatchReplyId {
  uint64_t index;
  uint32_t line_hash;  // of the request
  bool failed;         // the line says why there is no reply
};
/// Throws Error{corrupt} for a line that isn't one of ours.
BatchReplyId parse_batch_reply(std::string_view line);

}  // namespace carat
