// The document at /openapi.json. It names every endpoint, the fields that are read and the statuses that
// come back, so that clients can be generated from it and the server tested against it.
#include <string_view>

#include "server/api_json.h"
#include "server/api_routes.h"

namespace carat {
namespace {

/// Schemas that several endpoints use.
constexpr std::string_view kSchemas = R"json({
  "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
    "required": ["message", "type", "param", "code"],
    "properties": {"message": {"type": "string"}, "type": {"type": "string"},
                   "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}},
  "MessagesError": {"type": "object", "required": ["type", "error"], "properties": {
    "type": {"const": "error"}, "error": {"type": "object", "required": ["type", "message"],
      "properties": {"type": {"type": "string"}, "message": {"type": "string"}}}}},
  "Message": {"type": "object", "required": ["role"], "properties": {
    "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
    "content": {"type": ["string", "array", "null"],
      "items": {"type": "object", "required": ["type", "text"],
                "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}},
    "reasoning_content": {"type": ["string", "null"]},
    "tool_call_id": {"type": ["string", "null"]}, "name": {"type": ["string", "null"]},
    "tool_calls": {"type": ["array", "null"], "items": {"type": "object", "required": ["function"],
      "properties": {"function": {"type": "object", "required": ["name"], "properties": {
          "name": {"type": "string"}, "arguments": {"type": ["string", "object", "null"]}}}}}}}},
  "Messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Message"}},
  "Tools": {"type": ["array", "null"], "items": {"type": "object", "required": ["type", "function"],
    "properties": {"type": {"const": "function"}, "function": {"type": "object", "required": ["name"],
      "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 64},
                     "description": {"type": ["string", "null"]},
                     "parameters": {"type": ["object", "null"]}}}}}},
  "Sampling": {"type": "object", "properties": {
    "model": {"type": ["string", "null"]},
    "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
    "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "top_k": {"type": ["integer", "null"], "minimum": -1, "maximum": 2147483647},
    "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
    "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
    "repetition_penalty": {"type": ["number", "null"], "minimum": 0.001, "maximum": 100},
    "repeat_penalty": {"type": ["number", "null"], "minimum": 0.001, "maximum": 100},
    "seed": {"type": ["integer", "null"]},
    "logit_bias": {"type": ["object", "null"], "propertyNames": {"pattern": "^[0-9]+$"},
                   "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}},
    "stop_token_ids": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}},
    "min_tokens": {"type": ["integer", "null"], "minimum": 0},
    "ignore_eos": {"type": ["boolean", "null"]},
    "priority": {"type": ["integer", "null"], "minimum": -1000, "maximum": 1000},
    "cache_salt": {"type": ["string", "null"]},
    "stream": {"type": ["boolean", "null"]}}},
  "Stop": {"type": ["string", "array", "null"], "maxItems": 16, "items": {"type": "string", "minLength": 1}},
  "Choices": {"type": "object", "properties": {
    "n": {"type": ["integer", "null"], "minimum": 1},
    "stop": {"$ref": "#/components/schemas/Stop"},
    "stream_options": {"type": ["object", "null"],
                       "properties": {"include_usage": {"type": ["boolean", "null"]}}},
    "return_token_ids": {"type": ["boolean", "null"]},
    "timings": {"type": ["boolean", "null"]}}},
  "MessagesPrompt": {"type": "object", "required": ["messages"], "properties": {
    "model": {"type": ["string", "null"]},
    "messages": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role", "content"],
      "properties": {"role": {"enum": ["user", "assistant", "system"]},
                     "content": {"type": ["string", "array"]}}}},
    "system": {"type": ["string", "array", "null"]}, "tools": {"type": ["array", "null"]},
    "thinking": {"type": ["object", "null"], "required": ["type"], "properties": {
      "type": {"enum": ["enabled", "disabled", "adaptive"]},
      "budget_tokens": {"type": ["integer", "null"], "minimum": 1}}}}},
  "Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
    "properties": {"prompt_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"},
      "total_tokens": {"type": "integer"},
      "prompt_tokens_details": {"type": "object", "properties": {"cached_tokens": {"type": "integer"}}},
      "completion_tokens_details": {"type": "object",
                                    "properties": {"reasoning_tokens": {"type": "integer"}}}}}
})json";

constexpr std::string_view kChatRequest = R"json({"allOf": [
  {"$ref": "#/components/schemas/Sampling"}, {"$ref": "#/components/schemas/Choices"},
  {"type": "object", "required": ["messages"], "properties": {
    "messages": {"$ref": "#/components/schemas/Messages"}, "tools": {"$ref": "#/components/schemas/Tools"},
    "tool_choice": {"anyOf": [{"enum": ["none", "auto", "required", null]}, {"type": "object"}]},
    "parallel_tool_calls": {"type": ["boolean", "null"]},
    "max_completion_tokens": {"type": ["integer", "null"], "minimum": 0},
    "max_tokens": {"type": ["integer", "null"], "minimum": 0},
    "logprobs": {"type": ["boolean", "null"]},
    "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
    "response_format": {"type": ["object", "null"], "required": ["type"],
      "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}}},
    "reasoning_effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max", null]},
    "thinking_budget": {"type": ["integer", "null"], "minimum": 0},
    "chat_template_kwargs": {"type": ["object", "null"],
                             "properties": {"enable_thinking": {"type": ["boolean", "null"]}}},
    "add_generation_prompt": {"type": ["boolean", "null"]},
    "continue_final_message": {"type": ["boolean", "null"]}}}]})json";

constexpr std::string_view kChatReply = R"json({"type": "object",
  "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
    "id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": {"type": "integer"},
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"},
    "usage": {"$ref": "#/components/schemas/Usage"},
    "choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "message", "finish_reason"], "properties": {
        "index": {"type": "integer"}, "message": {"type": "object", "required": ["role", "content"]},
        "finish_reason": {"enum": ["stop", "length", "tool_calls"]}}}}}})json";

constexpr std::string_view kCompletionsRequest = R"json({"allOf": [
  {"$ref": "#/components/schemas/Sampling"}, {"$ref": "#/components/schemas/Choices"},
  {"type": "object", "required": ["prompt"], "properties": {
    "prompt": {"type": ["string", "array"], "minItems": 1},
    "max_tokens": {"type": ["integer", "null"], "minimum": 0},
    "echo": {"type": ["boolean", "null"]}, "skip_special_tokens": {"type": ["boolean", "null"]},
    "logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
    "best_of": {"enum": [1, null]}, "suffix": {"type": "null"}}}]})json";

constexpr std::string_view kCompletionsReply = R"json({"type": "object",
  "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
    "object": {"const": "text_completion"}, "usage": {"$ref": "#/components/schemas/Usage"},
    "choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "text", "finish_reason"]}}}})json";

constexpr std::string_view kResponsesRequest = R"json({"allOf": [
  {"$ref": "#/components/schemas/Sampling"}, {"type": "object", "required": ["input"], "properties": {
    "input": {"type": ["string", "array"], "minItems": 1, "items": {"type": "object"}},
    "instructions": {"type": ["string", "null"]}, "tools": {"type": ["array", "null"]},
    "max_output_tokens": {"type": ["integer", "null"], "minimum": 0},
    "stop": {"$ref": "#/components/schemas/Stop"},
    "include": {"type": ["array", "null"],
                "items": {"enum": ["message.output_text.logprobs", "reasoning.encrypted_content"]}},
    "truncation": {"enum": ["disabled", null]}, "max_tool_calls": {"type": "null"},
    "store": {"enum": [false, null]}, "reasoning": {"type": ["object", "null"]},
    "text": {"type": ["object", "null"]}}}]})json";

constexpr std::string_view kResponsesReply = R"json({"type": "object",
  "required": ["id", "object", "status", "output", "usage"], "properties": {
    "object": {"const": "response"}, "status": {"enum": ["completed", "incomplete"]},
    "output": {"type": "array"}}})json";

constexpr std::string_view kMessagesRequest = R"json({"allOf": [
  {"$ref": "#/components/schemas/Sampling"}, {"$ref": "#/components/schemas/MessagesPrompt"},
  {"type": "object", "required": ["max_tokens"], "properties": {
    "max_tokens": {"type": "integer", "minimum": 0},
    "stop_sequences": {"type": ["array", "null"], "maxItems": 16,
                       "items": {"type": "string", "minLength": 1}}}}]})json";

constexpr std::string_view kCountRequest = R"json({"$ref": "#/components/schemas/MessagesPrompt"})json";

constexpr std::string_view kMessagesReply = R"json({"type": "object",
  "required": ["id", "type", "role", "content", "stop_reason", "usage"],
  "properties": {"type": {"const": "message"}, "role": {"const": "assistant"},
                 "content": {"type": "array"}}})json";

constexpr std::string_view kPromptRequest = R"json({"type": "object", "properties": {
  "content": {"type": ["string", "null"]}, "prompt": {"type": ["string", "null"]},
  "messages": {"anyOf": [{"$ref": "#/components/schemas/Messages"}, {"type": "null"}]},
  "add_special": {"type": ["boolean", "null"]}, "add_special_tokens": {"type": ["boolean", "null"]},
  "parse_special": {"type": ["boolean", "null"]}, "with_pieces": {"type": ["boolean", "null"]},
  "return_token_strs": {"type": ["boolean", "null"]}}})json";

constexpr std::string_view kTokensReply = R"json({"type": "object", "required": ["tokens", "count"],
  "properties": {"tokens": {"type": "array"}, "count": {"type": "integer"}}})json";

constexpr std::string_view kTokensRequest = R"json({"type": "object", "required": ["tokens"], "properties": {
  "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}}}})json";

constexpr std::string_view kTemplateRequest = R"json({"type": "object", "required": ["messages"],
  "properties": {"messages": {"$ref": "#/components/schemas/Messages"},
                 "tools": {"$ref": "#/components/schemas/Tools"}}})json";

constexpr std::string_view kObject = R"json({"type": "object"})json";

struct Endpoint {
  const char* path;
  const char* method;
  const char* summary;
  std::string_view request, reply;  // schemas; an empty request: no body
  const char* stream = nullptr;     // the type of a streamed reply
  bool always_refused = false;
};

constexpr Endpoint kEndpoints[] = {
    {"/v1/chat/completions", "post", "Answer a chat", kChatRequest, kChatReply, "text/event-stream"},
    {"/v1/completions", "post", "Continue texts", kCompletionsRequest, kCompletionsReply,
     "text/event-stream"},
    {"/v1/responses", "post", "Answer a chat, OpenAI's Responses API", kResponsesRequest, kResponsesReply,
     "text/event-stream"},
    {"/v1/messages", "post", "Answer a chat, Anthropic's Messages API", kMessagesRequest, kMessagesReply,
     "text/event-stream"},
    {"/v1/messages/count_tokens", "post", "Count the tokens of a chat", kCountRequest, kObject},
    {"/v1/embeddings", "post", "Always refused: the model gives no embeddings", kObject, kObject, nullptr,
     /*always_refused=*/true},
    {"/v1/models", "get", "The model's names", "", kObject},
    {"/v1/models/{id}", "get", "One name", "", kObject},
    {"/tokenize", "post", "Text or messages to token ids", kPromptRequest, kTokensReply},
    {"/detokenize", "post", "Token ids to text", kTokensRequest, kObject},
    {"/apply-template", "post", "Messages to the prompt's text", kTemplateRequest, kObject},
    {"/generate", "get", "Continue a text, as plain text", "", kObject, "text/plain"},
};

void write_responses(const Endpoint& endpoint, JsonText& json) {
  const auto content = [&](const char* type, std::string_view schema) {
    json.name(type).object([&] { json.name("schema").raw(schema); });
  };
  json.name("responses").object([&] {
    if (!endpoint.always_refused) {
      json.name("200").object([&] {
        json.field("description", "Done").name("content").object([&] {
          if (std::string_view(endpoint.path) != "/generate") content("application/json", endpoint.reply);
          if (!endpoint.stream) return;
          const bool is_text = std::string_view(endpoint.stream) == "text/plain";
          content(endpoint.stream, is_text ? R"({"type":"string"})" : R"({"type":"object"})");
        });
      });
    }
    for (const char* const status : {"400", "401", "404", "413", "415", "429", "500", "503"}) {
      json.name(status).object([&] {
        json.field("description", "An error");
        json.name("content").object([&] {
          json.name("application/json").object([&] {
            json.name("schema").object([&] {
              json.name("anyOf").array([&] {
                json.object([&] { json.field("$ref", "#/components/schemas/Error"); });
                json.object([&] { json.field("$ref", "#/components/schemas/MessagesError"); });
              });
            });
          });
        });
      });
    }
  });
}

void write_parameters(const Endpoint& endpoint, JsonText& json) {
  const std::string_view path = endpoint.path;
  const auto parameter = [&](const char* name, const char* place, std::string_view schema, bool required) {
    json.object([&] {
      json.field("name", name).field("in", place).field("required", required).name("schema").raw(schema);
    });
  };
  json.name("parameters").array([&] {
    if (path == "/v1/models/{id}") parameter("id", "path", R"({"type":"string"})", true);
    if (path != "/generate") return;
    parameter("prompt", "query", R"({"type":"string"})", true);
    parameter("max_tokens", "query", R"({"type":"integer","minimum":0})", false);
    parameter("temperature", "query", R"({"type":"number","minimum":0,"maximum":2})", false);
    parameter("seed", "query", R"({"type":"integer"})", false);
  });
}

void write_endpoint(const Endpoint& endpoint, JsonText& json) {
  json.name(endpoint.path).object([&] {
    json.name(endpoint.method).object([&] {
      json.field("summary", endpoint.summary);
      write_parameters(endpoint, json);
      if (!endpoint.request.empty()) {
        json.name("requestBody").object([&] {
          json.field("required", true).name("content").object([&] {
            json.name("application/json").object([&] { json.name("schema").raw(endpoint.request); });
          });
        });
      }
      write_responses(endpoint, json);
    });
  });
}

}  // namespace

std::string openapi_json() {
  JsonText json;
  json.object([&] {
    json.field("openapi", "3.1.0");
    json.name("info").object([&] { json.field("title", "Carat").field("version", "1"); });
    json.name("paths").object([&] {
      for (const Endpoint& endpoint : kEndpoints) write_endpoint(endpoint, json);
    });
    json.name("components").object([&] { json.name("schemas").raw(kSchemas); });
  });
  return json.take();
}

}  // namespace carat
