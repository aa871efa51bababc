// The document at /openapi.json. It names every endpoint, the fields that are read and the statuses that
// come back, so that clients can be generated from it and the server tested against it.
#include <string_view>

#include "server/api_json.h"
#include "server/api_routes.h"

namespace carat {
namespace {

/// Schemas that several endpoints use, as members of an object. TokenId and ChoiceCount are the model's.
constexpr std::string_view kSchemas = R"json(
  "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
    "required": ["message", "type", "param", "code"],
    "properties": {"message": {"type": "string"}, "type": {"type": "string"},
                   "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}},
  "MessagesError": {"type": "object", "required": ["type", "error"], "properties": {
    "type": {"const": "error"}, "error": {"type": "object", "required": ["type", "message"],
      "properties": {"type": {"type": "string"}, "message": {"type": "string"}}}}},
  "Limit": {"type": ["integer", "null"], "minimum": 0, "maximum": 2147483647},
  "Text": {"type": ["string", "null"]},
  "Flag": {"type": ["boolean", "null"]},
  "Message": {"type": "object", "required": ["role"], "properties": {
    "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
    "content": {"type": ["string", "array", "null"],
      "items": {"type": "object", "required": ["text"],
                "properties": {"type": {"enum": ["text", null]}, "text": {"type": "string"}}}},
    "reasoning_content": {"$ref": "#/components/schemas/Text"},
    "tool_call_id": {"$ref": "#/components/schemas/Text"}, "name": {"$ref": "#/components/schemas/Text"},
    "tool_calls": {"type": ["array", "null"], "items": {"type": "object", "required": ["function"],
      "properties": {
        "id": {"$ref": "#/components/schemas/Text"}, "type": {"$ref": "#/components/schemas/Text"},
        "function": {"type": "object", "required": ["name"], "properties": {
          "name": {"type": "string"}, "arguments": {"type": ["string", "object", "null"]}}}}}}}},
  "Messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Message"}},
  "Tools": {"type": ["array", "null"], "items": {"type": "object", "required": ["function"],
    "properties": {"type": {"enum": ["function", null]}, "function": {"type": "object", "required": ["name"],
      "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 64},
                     "description": {"$ref": "#/components/schemas/Text"},
                     "parameters": {"type": ["object", "null"]}}}}}},
  "Format": {"anyOf": [{"type": "null"},
    {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object"]}}},
    {"type": "object", "required": ["type", "json_schema"], "properties": {"type": {"const": "json_schema"},
      "json_schema": {"type": "object", "required": ["schema"],
                      "properties": {"schema": {"type": "object"}}}}}]},
  "Effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max", null]},
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
    "seed": {"type": ["integer", "null"], "minimum": -9223372036854775808, "maximum": 9223372036854775807},
    "logit_bias": {"type": ["object", "null"], "propertyNames": {"pattern": "^[0-9]+$"},
                   "additionalProperties": {"type": ["number", "null"], "minimum": -100, "maximum": 100}},
    "stop_token_ids": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/TokenId"}},
    "min_tokens": {"$ref": "#/components/schemas/Limit"},
    "ignore_eos": {"$ref": "#/components/schemas/Flag"},
    "priority": {"type": ["integer", "null"], "minimum": -1000, "maximum": 1000},
    "cache_salt": {"$ref": "#/components/schemas/Text"},
    "stream": {"$ref": "#/components/schemas/Flag"}}},
  "Stop": {"type": ["string", "array", "null"], "minLength": 1, "maxItems": 16,
           "items": {"type": "string", "minLength": 1}},
  "Choices": {"type": "object", "properties": {
    "n": {"$ref": "#/components/schemas/ChoiceCount"},
    "stop": {"$ref": "#/components/schemas/Stop"},
    "stream_options": {"type": ["object", "null"],
                       "properties": {"include_usage": {"$ref": "#/components/schemas/Flag"}}},
    "return_token_ids": {"$ref": "#/components/schemas/Flag"},
    "timings": {"$ref": "#/components/schemas/Flag"}}},
  "Block": {"type": "object", "required": ["type"], "anyOf": [
    {"required": ["text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}},
    {"required": ["thinking"], "properties": {"type": {"const": "thinking"}, "thinking": {"type": "string"}}},
    {"required": ["id", "name", "input"], "properties": {"type": {"const": "tool_use"},
      "id": {"type": "string"}, "name": {"type": "string"}, "input": {"type": "object"}}},
    {"required": ["tool_use_id"], "properties": {"type": {"const": "tool_result"},
      "tool_use_id": {"type": "string"}, "content": {"$ref": "#/components/schemas/TextBlocks"}}}]},
  "TextBlocks": {"type": ["string", "array", "null"], "items": {"type": "object",
    "required": ["type", "text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}},
  "MessagesPrompt": {"type": "object", "required": ["messages"], "properties": {
    "model": {"$ref": "#/components/schemas/Text"},
    "messages": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["role", "content"],
      "properties": {"role": {"enum": ["user", "assistant", "system"]},
                     "content": {"type": ["string", "array"],
                                 "items": {"$ref": "#/components/schemas/Block"}}}}},
    "system": {"$ref": "#/components/schemas/TextBlocks"},
    "tools": {"type": ["array", "null"], "items": {"type": "object", "required": ["name", "input_schema"],
      "properties": {"name": {"type": "string"}, "description": {"$ref": "#/components/schemas/Text"},
                     "input_schema": {"type": "object"}}}},
    "thinking": {"$ref": "#/components/schemas/Thinking"}}},
  "Thinking": {"type": ["object", "null"], "required": ["type"], "properties": {
    "type": {"enum": ["enabled", "disabled", "adaptive"]},
    "budget_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": 1073741824}}},
  "Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
    "properties": {"prompt_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"},
      "total_tokens": {"type": "integer"},
      "prompt_tokens_details": {"type": "object", "properties": {"cached_tokens": {"type": "integer"}}},
      "completion_tokens_details": {"type": "object",
                                    "properties": {"reasoning_tokens": {"type": "integer"}}}}})json";

constexpr std::string_view kChatRequest = R"json({"allOf": [
  {"$ref": "#/components/schemas/Sampling"}, {"$ref": "#/components/schemas/Choices"},
  {"type": "object", "required": ["messages"], "properties": {
    "messages": {"$ref": "#/components/schemas/Messages"}, "tools": {"$ref": "#/components/schemas/Tools"},
    "tool_choice": {"anyOf": [{"enum": ["none", "auto", "required", null]},
      {"type": "object", "required": ["function"], "properties": {"type": {"enum": ["function", null]},
        "function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}]},
    "parallel_tool_calls": {"$ref": "#/components/schemas/Flag"},
    "max_completion_tokens": {"$ref": "#/components/schemas/Limit"},
    "max_tokens": {"$ref": "#/components/schemas/Limit"},
    "logprobs": {"$ref": "#/components/schemas/Flag"},
    "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
    "response_format": {"$ref": "#/components/schemas/Format"},
    "reasoning_effort": {"$ref": "#/components/schemas/Effort"},
    "thinking": {"$ref": "#/components/schemas/Thinking"},
    "thinking_budget": {"type": ["integer", "null"], "minimum": 0, "maximum": 1073741824},
    "chat_template_kwargs": {"type": ["object", "null"],
                             "properties": {"enable_thinking": {"$ref": "#/components/schemas/Flag"}}},
    "add_generation_prompt": {"$ref": "#/components/schemas/Flag"},
    "continue_final_message": {"$ref": "#/components/schemas/Flag"}}}]})json";

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
  {"type": "object", "required": ["prompt"],
   "not": {"required": ["echo", "logprobs"],
           "properties": {"echo": {"const": true}, "logprobs": {"type": "integer"}}},
   "properties": {
    "prompt": {"anyOf": [{"type": "string"},
      {"type": "array", "minItems": 1, "maxItems": 64, "items": {"type": "string"}},
      {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TokenId"}},
      {"type": "array", "minItems": 1, "maxItems": 64, "items": {"type": "array", "minItems": 1,
        "items": {"$ref": "#/components/schemas/TokenId"}}}]},
    "max_tokens": {"$ref": "#/components/schemas/Limit"},
    "echo": {"$ref": "#/components/schemas/Flag"},
    "add_special_tokens": {"$ref": "#/components/schemas/Flag"},
    "skip_special_tokens": {"$ref": "#/components/schemas/Flag"},
    "logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
    "best_of": {"enum": [1, null]}, "suffix": {"enum": ["", null]}}}]})json";

constexpr std::string_view kCompletionsReply = R"json({"type": "object",
  "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
    "object": {"const": "text_completion"}, "usage": {"$ref": "#/components/schemas/Usage"},
    "choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "text", "finish_reason"]}}}})json";

constexpr std::string_view kResponsesRequest = R"json({"allOf": [
  {"$ref": "#/components/schemas/Sampling"}, {"type": "object", "required": ["input"], "properties": {
    "input": {"type": ["string", "array"], "minItems": 1, "items": {"type": "object", "anyOf": [
      {"required": ["role", "content"], "properties": {"type": {"enum": ["message", null]},
        "role": {"enum": ["user", "assistant", "system", "developer"]},
        "content": {"type": ["string", "array"], "items": {"type": "object", "required": ["type", "text"],
          "properties": {"type": {"enum": ["input_text", "output_text", "text"]},
                         "text": {"type": "string"}}}}}},
      {"required": ["type", "call_id", "name", "arguments"], "properties": {
        "type": {"const": "function_call"}, "call_id": {"type": "string"}, "name": {"type": "string"},
        "arguments": {"type": ["string", "object"]}}},
      {"required": ["type", "call_id", "output"], "properties": {"type": {"const": "function_call_output"},
        "call_id": {"type": "string"}, "output": {"type": "string"}}},
      {"required": ["type"], "properties": {"type": {"const": "reasoning"},
        "summary": {"type": ["array", "null"], "items": {"type": "object", "required": ["type", "text"],
          "properties": {"type": {"const": "summary_text"}, "text": {"type": "string"}}}},
        "content": {"type": ["array", "null"], "items": {"type": "object", "required": ["type", "text"],
          "properties": {"type": {"const": "reasoning_text"}, "text": {"type": "string"}}}},
        "encrypted_content": {"$ref": "#/components/schemas/Text"}}}]}},
    "instructions": {"$ref": "#/components/schemas/Text"},
    "tools": {"type": ["array", "null"], "items": {"type": "object", "required": ["type"], "anyOf": [
      {"required": ["name"], "properties": {"type": {"const": "function"}, "name": {"type": "string"},
        "description": {"$ref": "#/components/schemas/Text"}, "parameters": {"type": ["object", "null"]}}},
      {"properties": {"type": {"type": "string", "not": {"const": "function"}}}}]}},
    "max_output_tokens": {"$ref": "#/components/schemas/Limit"},
    "stop": {"$ref": "#/components/schemas/Stop"},
    "include": {"type": ["array", "null"],
                "items": {"enum": ["message.output_text.logprobs", "reasoning.encrypted_content"]}},
    "truncation": {"enum": ["disabled", null]}, "max_tool_calls": {"type": "null"},
    "store": {"enum": [false, null]},
    "reasoning": {"type": ["object", "null"],
                  "properties": {"effort": {"$ref": "#/components/schemas/Effort"}}},
    "text": {"type": ["object", "null"], "properties": {"format": {"anyOf": [{"type": "null"},
      {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object"]}}},
      {"type": "object", "required": ["type", "schema"], "properties": {
        "type": {"const": "json_schema"}, "schema": {"type": "object"}}}]}}}}}]})json";

constexpr std::string_view kResponsesReply = R"json({"type": "object",
  "required": ["id", "object", "status", "output", "usage"], "properties": {
    "object": {"const": "response"}, "status": {"enum": ["completed", "incomplete"]},
    "output": {"type": "array"}}})json";

constexpr std::string_view kMessagesRequest = R"json({"allOf": [
  {"$ref": "#/components/schemas/Sampling"}, {"$ref": "#/components/schemas/MessagesPrompt"},
  {"type": "object", "required": ["max_tokens"], "properties": {
    "max_tokens": {"type": "integer", "minimum": 0, "maximum": 2147483647},
    "stop_sequences": {"type": ["array", "null"], "maxItems": 16,
                       "items": {"type": "string", "minLength": 1}}}}]})json";

constexpr std::string_view kCountRequest = R"json({"$ref": "#/components/schemas/MessagesPrompt"})json";

constexpr std::string_view kMessagesReply = R"json({"type": "object",
  "required": ["id", "type", "role", "content", "stop_reason", "usage"],
  "properties": {"type": {"const": "message"}, "role": {"const": "assistant"},
                 "content": {"type": "array"}}})json";

constexpr std::string_view kPromptRequest = R"json({"type": "object", "anyOf": [
  {"required": ["content"], "properties": {"content": {"type": "string"}}},
  {"required": ["prompt"], "properties": {"prompt": {"type": "string"}}},
  {"required": ["messages"], "properties": {"messages": {"$ref": "#/components/schemas/Messages"},
    "add_special_tokens": {"enum": [false, null]}}}], "properties": {
  "content": {"$ref": "#/components/schemas/Text"}, "prompt": {"$ref": "#/components/schemas/Text"},
  "messages": {"anyOf": [{"$ref": "#/components/schemas/Messages"}, {"type": "null"}]},
  "add_special": {"$ref": "#/components/schemas/Flag"},
  "add_special_tokens": {"$ref": "#/components/schemas/Flag"},
  "parse_special": {"$ref": "#/components/schemas/Flag"},
  "with_pieces": {"$ref": "#/components/schemas/Flag"},
  "return_token_strs": {"$ref": "#/components/schemas/Flag"}}})json";

constexpr std::string_view kTokensReply = R"json({"type": "object", "required": ["tokens", "count"],
  "properties": {"tokens": {"type": "array"}, "count": {"type": "integer"}}})json";

constexpr std::string_view kTokensRequest = R"json({"type": "object", "required": ["tokens"], "properties": {
  "tokens": {"type": "array", "items": {"$ref": "#/components/schemas/TokenId"}},
  "skip_special_tokens": {"$ref": "#/components/schemas/Flag"}}})json";

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
    json.name("200").object([&] {
      json.field("description", "Done").name("content").object([&] {
        if (std::string_view(endpoint.path) != "/generate") content("application/json", endpoint.reply);
        if (!endpoint.stream) return;
        const bool is_text = std::string_view(endpoint.stream) == "text/plain";
        content(endpoint.stream, is_text ? R"({"type":"string"})" : R"({"type":"object"})");
      });
    });
    for (const char* const status : {"400", "401", "403", "404", "413", "415", "500", "503"}) {
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
    parameter("max_tokens", "query", R"({"type":"integer","minimum":0,"maximum":2147483647})", false);
    parameter("temperature", "query", R"({"type":"number","minimum":0,"maximum":2})", false);
    parameter("seed", "query",
              R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})", false);
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

std::string openapi_json(const ServedModel& model) {
  JsonText json;
  json.object([&] {
    json.field("openapi", "3.1.0");
    json.name("info").object([&] { json.field("title", "Carat").field("version", "1"); });
    json.name("paths").object([&] {
      for (const Endpoint& endpoint : kEndpoints) write_endpoint(endpoint, json);
    });
    json.name("components").object([&] {
      json.name("schemas").object([&] {
        json.name("TokenId").object(
            [&] { json.field("type", "integer").field("minimum", 0).field("maximum", model.vocab - 1); });
        json.name("ChoiceCount").object([&] {
          json.name("type").raw(R"(["integer","null"])");
          json.field("minimum", 1).field("maximum", model.most_choices);
        });
        json.members(kSchemas);
      });
    });
  });
  return json.take();
}

}  // namespace carat
