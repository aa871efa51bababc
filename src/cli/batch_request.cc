#include "cli/batch_request.h"

#include <array>
#include <charconv>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "server/reply_id.h"

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

template <class... Parts>
[[noreturn]] void reject(const Parts&... parts) {
  fail(ErrorKind::invalid_argument, parts...);
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A value as the line has it, for an error message.
std::string shown(const Json& value) { return printable(dump(value), 40); }

/// A JSON number or boolean as a T, with a message that names the field.
template <class T>
T number(const std::string& name, const Json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) reject(name, " is ", shown(value), ", must be true or false");
  } else if constexpr (std::is_integral_v<T>) {
    if (!value.is_number_integer()) reject(name, " is ", shown(value), ", must be a whole number");
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max())
                          : value.get<int64_t>() >= static_cast<int64_t>(std::numeric_limits<T>::min());
    if (!fits) reject(name, " is ", shown(value), ", which is out of range");
  } else if (!value.is_number()) {
    reject(name, " is ", shown(value), ", must be a number");
  }
  return value.get<T>();
}

std::string text(const std::string& name, const Json& value) {
  if (!value.is_string()) reject(name, " is ", shown(value), ", must be a string");
  return value.get<std::string>();
}

void read_prompt(const Json& value, BatchRequest& request) {
  if (!value.is_array()) {
    request.text = text("prompt", value);
    return;
  }
  request.kind = BatchRequest::Kind::continuation;
  for (const Json& token : value) request.tokens.push_back(number<int32_t>("prompt", token));
  if (request.tokens.empty()) reject("prompt is an empty list; it needs at least one token");
}

void read_stop(const Json& value, ReplyOptions& options) {
  options.stop.clear();
  if (value.is_string()) return options.stop.push_back(value.get<std::string>());
  if (!value.is_array()) reject("stop is ", shown(value), ", must be a string or a list of them");
  for (const Json& stop : value) options.stop.push_back(text("stop", stop));
}

void read_bias(const Json& value, ReplyOptions& options) {
  if (!value.is_object()) reject("logit_bias must be an object, token id to bias");
  for (const auto& [key, bias] : value.items()) {
    int32_t token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc{} || end != key.data() + key.size())
      reject("logit_bias: ", in_quotes(key, 40), " is not a token id");
    options.logit_bias.emplace_back(token, number<float>("logit_bias", bias));
  }
}

void read_tools(const Json& value, ReplyOptions& options) {
  if (!value.is_array()) reject("tools is ", shown(value), ", must be a list");
  if (!value.empty()) options.tools = dump(value);
}

void read_template_arguments(const Json& value, ReplyOptions& options) {
  if (!value.is_object()) reject("chat_template_kwargs must be an object");
  for (const auto& [key, argument] : value.items()) {
    if (key != "enable_thinking")
      reject("chat_template_kwargs: only enable_thinking is known, not ", in_quotes(key, 40));
    options.think = number<bool>("enable_thinking", argument);
  }
}

/// Means nothing here: the model is the one that runs, replies aren't streamed, nobody is billed.
bool is_without_effect(const std::string& name) {
  constexpr std::array kNames{"model",        "stream", "stream_options", "user",   "store", "metadata",
                              "service_tier", "id",     "custom_id",      "method", "url"};
  for (const char* known : kNames)
    if (name == known) return true;
  return false;
}

/// False when the field has another name.
bool read_sampling(const std::string& name, const Json& value, ReplyOptions& o) {
  if (name == "max_tokens" || name == "max_completion_tokens")
    o.max_tokens = number<int>(name, value);
  else if (name == "temperature")
    o.temperature = number<float>(name, value);
  else if (name == "top_p")
    o.top_p = number<float>(name, value);
  else if (name == "top_k")
    o.top_k = number<int>(name, value);
  else if (name == "min_p")
    o.min_p = number<float>(name, value);
  else if (name == "seed")
    o.seed = number<uint64_t>(name, value);
  else if (name == "presence_penalty")
    o.presence_penalty = number<float>(name, value);
  else if (name == "frequency_penalty")
    o.frequency_penalty = number<float>(name, value);
  else if (name == "repetition_penalty")
    o.repetition_penalty = number<float>(name, value);
  else if (name == "ignore_eos")
    o.ignore_eos = number<bool>(name, value);
  else if (name == "priority")
    o.priority = number<int>(name, value);
  else if (name == "stop")
    read_stop(value, o);
  else if (name == "logit_bias")
    read_bias(value, o);
  else
    return false;
  return true;
}

void read_field(const std::string& name, const Json& value, BatchRequest& request) {
  if (value.is_null() || is_without_effect(name) || read_sampling(name, value, request.options)) return;
  if (name == "prompt") {
    read_prompt(value, request);
  } else if (name == "messages") {
    request.kind = BatchRequest::Kind::chat;
    request.text = dump(value);
  } else if (name == "tools") {
    read_tools(value, request.options);
  } else if (name == "chat_template_kwargs") {
    read_template_arguments(value, request.options);
  } else if (name == "n") {
    if (number<int>(name, value) != 1)
      reject("n is ", shown(value), ": a request gets one reply; repeat the line");
  } else {
    reject("unknown parameter ", in_quotes(name, 40));
  }
}

/// A continued text has no turns, so what belongs to them would be ignored.
void refuse_chat_fields(const Json& fields) {
  for (const char* name : {"tools", "chat_template_kwargs"}) {
    if (fields.contains(name) && !fields[name].empty())
      reject(name, " has no effect on a prompt that is continued; drop it, or give messages");
  }
}

void read_request(const Json& fields, bool chats, BatchRequest& request) {
  if (!fields.is_object()) reject(request.in_body ? "body" : "the line", " is not an object");
  if (fields.contains("prompt") == fields.contains("messages"))
    reject(fields.contains("prompt") ? "has both prompt and messages; give one"
                                     : "has neither prompt nor messages");
  if (request.in_body || !chats) request.kind = BatchRequest::Kind::continuation;
  for (const auto& [name, value] : fields.items()) read_field(name, value, request);
  if (request.kind != BatchRequest::Kind::continuation) return;
  refuse_chat_fields(fields);
  request.options.think = false;  // the default of those that chat
}

const char* finish_name(const Completion& reply) {
  if (!reply.tool_calls.empty() && reply.finish == FinishReason::stop) return "tool_calls";
  return reply.finish == FinishReason::stop ? "stop" : "length";
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.reply_tokens},
          {"total_tokens", usage.prompt_tokens + usage.reply_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json tool_calls_json(uint64_t index, const Completion& reply) {
  Json calls = Json::array();
  for (const ToolCall& call : reply.tool_calls) {
    calls.push_back({{"id", "call_" + std::to_string(index) + "_" + std::to_string(calls.size())},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return calls;
}

/// OpenAI's lines have an id of their own.
Json head(uint64_t index, const BatchRequest& request) {
  Json line{
      {"index", index}, {"custom_id", Json::parse(request.custom_id)}, {"line_hash", request.line_hash}};
  if (request.in_body) line["id"] = random_id("batch_req_");
  return line;
}

Json message_json(uint64_t index, const Completion& reply) {
  Json message{{"role", "assistant"}, {"content", reply.text}, {"refusal", nullptr}};
  if (!reply.thought.empty()) message["reasoning_content"] = reply.thought;
  if (reply.tool_calls.empty()) return message;
  if (reply.text.empty()) message["content"] = nullptr;
  message["tool_calls"] = tool_calls_json(index, reply);
  return message;
}

/// The body of OpenAI's reply.
Json body_json(uint64_t index, const BatchRequest& request, const Completion& reply,
               const std::string& model) {
  const bool chat = request.kind == BatchRequest::Kind::chat;
  Json choice{{"index", 0}};
  if (chat)
    choice["message"] = message_json(index, reply);
  else
    choice["text"] = reply.text;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_name(reply);
  return {{"id", random_id(chat ? "chatcmpl-" : "cmpl-")},
          {"object", chat ? "chat.completion" : "text_completion"},
          {"created", std::time(nullptr)},
          {"model", model},
          {"choices", Json::array({choice})},
          {"usage", usage_json(reply.usage)}};
}

}  // namespace

BatchRequest parse_batch_request(std::string_view line, const ReplyOptions& defaults, bool chats) {
  BatchRequest request;
  request.options = defaults;
  request.line_hash = hash_of_line(line);
  try {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) reject("the line is not JSON");
    if (!json.is_object()) reject("the line is not an object");
    for (const char* name : {"id", "custom_id"})
      if (json.contains(name)) request.custom_id = dump(json[name]);
    request.in_body = json.contains("body");
    read_request(request.in_body ? json["body"] : json, chats, request);
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

std::string batch_reply_line(uint64_t index, const BatchRequest& request, const Completion& reply,
                             const std::string& model) {
  Json line = head(index, request);
  if (request.in_body) {
    line["response"] = {{"status_code", 200},
                        {"request_id", random_id("req_")},
                        {"body", body_json(index, request, reply, model)}};
    line["error"] = nullptr;
  } else {
    line["text"] = reply.text;
    if (!reply.thought.empty()) line["reasoning"] = reply.thought;
    if (!reply.tool_calls.empty()) line["tool_calls"] = tool_calls_json(index, reply);
    line["finish_reason"] = finish_name(reply);
    line["usage"] = usage_json(reply.usage);
  }
  return dump(line) + "\n";
}

std::string batch_error_line(uint64_t index, const BatchRequest& request, std::string_view code,
                             std::string_view message) {
  Json line = head(index, request);
  if (request.in_body) line["response"] = nullptr;
  line["error"] = {{"code", code}, {"message", message}};
  return dump(line) + "\n";
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
  return {index, hash, json.contains("error") && !json["error"].is_null()};
}

}  // namespace carat
