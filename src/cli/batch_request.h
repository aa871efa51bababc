// The lines of `carat batch`: a line of the input -> a request to the server's API, its response -> a line of
// the output.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "carat/reply.h"
#include "server/http.h"

namespace carat {

struct BatchRequest {
  uint32_t line_hash = 0;          // see hash_of_line()
  std::string custom_id = "null";  // JSON, as the line has it
  std::string error;               // why the line is no request; empty when it is one
  /// A line of OpenAI's batch format; its reply gets the form of that one too.
  bool in_body = false;
  bool is_chat = false;
  std::string path, body;  // of the POST
};

/// What a line leaves open and the API has no default for, or another one.
struct BatchDefaults {
  int max_tokens = 512;
  std::optional<uint64_t> seed = {};
  bool think = false;
  bool chats = true;  // a text in "prompt" is a turn; else it is continued
};

/// Accepts {"prompt": ...} and {"messages": [...]} with the parameters of OpenAI's API, an "id" or
/// "custom_id", and OpenAI's batch lines, which have all that in "body". Values of the parameters are left to
/// the API to check. Never throws for what the line says.
BatchRequest parse_batch_request(std::string_view line, uint32_t line_hash, const BatchDefaults& defaults);

/// Tells a line from one that was there before; never 0.
uint32_t hash_of_line(std::string_view line);

/// A line of the output: "index" comes first, then "custom_id" and "line_hash". Ends with a newline.
struct BatchReply {
  std::string line;
  Usage usage;  // tokens alone
};
BatchReply make_batch_reply(uint64_t index, const BatchRequest& request, const HttpResponse& response);
/// For a request that isn't one.
std::string batch_error_line(uint64_t index, const BatchRequest& request);

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
