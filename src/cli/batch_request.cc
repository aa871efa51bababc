#include "cli/batch_request.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "chat/json.h"
#include "server/reply_id.h"

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kChats = "/v1/chat/completions", *kCompletions = "/v1/completions";

template <class... Parts>
[[noreturn]] void reject(const Parts&... parts) {
  fail(ErrorKind::invalid_argument, parts...);
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// null counts as absent, as in the API.
bool has(const Json& object, const char* name) { return object.contains(name) && !object[name].is_null(); }

/// Our own lines get one reply in one line.
void require_one_reply(const Json& fields) {
  if (has(fields, "n") && fields["n"] != 1)
    reject("n is ", printable(dump(fields["n"]), 40), ": a request gets one reply; repeat the line");
  if (!has(fields, "prompt")) return;
  const Json& prompt = fields["prompt"];
  const bool is_ids = prompt.is_array() && std::ranges::all_of(prompt, &Json::is_number);
  if (!prompt.is_string() && !is_ids)
    reject("prompt is ", printable(dump(prompt), 40), ", must be a text or a list of token ids");
}

/// OpenAI's lines name it.
bool is_chat_line(const Json& line, const Json& fields) {
  if (!has(line, "url")) return has(fields, "messages");
  if (line["url"] != kChats && line["url"] != kCompletions)
    reject("url is ", printable(dump(line["url"]), 80), ", must be ", kChats, " or ", kCompletions);
  return line["url"] == kChats;
}

void add_defaults(const BatchDefaults& defaults, bool chat, Json& fields) {
  for (const char* name : {"stream", "stream_options"}) fields.erase(name);  // a line is written as a whole
  if (!has(fields, "max_tokens") && !(chat && has(fields, "max_completion_tokens")))
    fields["max_tokens"] = defaults.max_tokens;
  if (defaults.seed && !has(fields, "seed")) fields["seed"] = static_cast<int64_t>(*defaults.seed);
  // Whatever else a line says about thinking goes before this field.
  if (chat && defaults.think && !has(fields, "reasoning_effort")) fields["reasoning_effort"] = "medium";
}

void read_request(const Json& line, const BatchDefaults& defaults, BatchRequest& request) {
  Json fields = request.in_body ? line["body"] : line;
  if (!fields.is_object()) reject("body is not an object");
  if (has(fields, "prompt") == has(fields, "messages"))
    reject(has(fields, "prompt") ? "has both prompt and messages; give one"
                                 : "has neither prompt nor messages");
  if (request.in_body) {
    request.is_chat = is_chat_line(line, fields);
  } else {
    require_one_reply(fields);
    for (const char* name : {"id", "custom_id"}) fields.erase(name);
    if (defaults.chats && has(fields, "prompt") && fields["prompt"].is_string()) {
      fields["messages"] = {{{"role", "user"}, {"content", fields["prompt"]}}};
      fields.erase("prompt");
    }
    request.is_chat = has(fields, "messages");
  }
  add_defaults(defaults, request.is_chat, fields);
  request.path = request.is_chat ? kChats : kCompletions;
  request.body = dump(fields);
}

/// OpenAI's lines have an id of their own.
Json head(uint64_t index, const BatchRequest& request) {
  Json line{
      {"index", index}, {"custom_id", Json::parse(request.custom_id)}, {"line_hash", request.line_hash}};
  if (request.in_body) line["id"] = random_id("batch_req_");
  return line;
}

std::string error_line(uint64_t index, const BatchRequest& request, const Json& code, const Json& message) {
  Json line = head(index, request);
  if (request.in_body) line["response"] = nullptr;
  line["error"] = {{"code", code}, {"message", message}};
  return dump(line) + "\n";
}

/// The one choice of `body`, without what is there for the sake of the API's form.
void add_choice(const Json& body, Json& line) {
  const Json& choice = body["choices"][0];
  const bool chat = choice.contains("message");
  const Json& text = chat ? choice["message"]["content"] : choice["text"];
  line["text"] = text.is_null() ? Json("") : text;
  if (chat) {
    for (const char* name : {"reasoning_content", "tool_calls"})
      if (has(choice["message"], name)) line[name] = choice["message"][name];
  }
  for (const auto& [name, value] : choice.items())
    if (name != "index" && name != "message" && name != "text" && !value.is_null()) line[name] = value;
  for (const char* name : {"prompt_token_ids", "usage", "timings"})
    if (has(body, name)) line[name] = body[name];
}

Usage usage_of(const Json& body) {
  const Json& usage = body["usage"];
  return {.prompt_tokens = usage["prompt_tokens"],
          .cached_tokens = usage["prompt_tokens_details"]["cached_tokens"],
          .reply_tokens = usage["completion_tokens"]};
}

}  // namespace

BatchRequest parse_batch_request(std::string_view line, uint32_t line_hash, const BatchDefaults& defaults) {
  BatchRequest request;
  request.line_hash = line_hash;
  try {
    jinja::parse_json(line, Origin::user, "the line");  // says what is wrong, and bounds the depth
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) reject("the line is not an object");
    for (const char* name : {"id", "custom_id"})
      if (json.contains(name)) request.custom_id = dump(json[name]);
    request.in_body = json.contains("body");
    read_request(json, defaults, request);
  } catch (const Error& error) {
    request.error = error.what();
  }
  return request;
}

uint32_t hash_of_line(std::string_view line) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : line) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash == 0 ? 1 : hash;
}

BatchReply make_batch_reply(uint64_t index, const BatchRequest& request, const HttpResponse& response) {
  const Json body = Json::parse(response.body);
  if (response.status != 200)
    return {error_line(index, request, body["error"]["type"], body["error"]["message"]), {}};
  Json line = head(index, request);
  if (request.in_body) {
    line["response"] = {{"status_code", response.status}, {"request_id", random_id("req_")}, {"body", body}};
    line["error"] = nullptr;
  } else {
    add_choice(body, line);
  }
  return {dump(line) + "\n", usage_of(body)};
}

std::string batch_error_line(uint64_t index, const BatchRequest& request) {
  return error_line(index, request, "invalid_request_error", request.error);
}

BatchReplyId parse_batch_reply(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* name, uint64_t most) {
    if (!json.is_object() || !json.contains(name) || !json[name].is_number_unsigned() ||
        json[name].get<uint64_t>() > most)
      fail(ErrorKind::corrupt, "is not a reply of carat batch");
    return json[name].get<uint64_t>();
  };
  const uint64_t index = number("index", std::numeric_limits<uint64_t>::max());
  const auto hash = static_cast<uint32_t>(number("line_hash", std::numeric_limits<uint32_t>::max()));
  return {index, hash, has(json, "error")};
}

}  // namespace carat
