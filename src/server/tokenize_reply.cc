#include "server/tokenize_reply.h"

#include <optional>

#include "server/api_json.h"
#include "server/chat_prompt.h"

namespace carat {
namespace {

ChatPrompt chat_prompt(const ApiFields& body, const ServedModel& model) {
  ChatRequest request;
  parse_conversation(body, request);
  if (body.boolean("add_special_tokens").value_or(false))
    body.reject("add_special_tokens", "is true, but the chat template writes them already");
  return make_chat_prompt(request, model);
}

void check_model(const ApiFields& body, const ServedModel& model) {
  model.require_name(body.text("model").value_or(""));
}

/// llama.cpp adds bos to `content` only when told so, vLLM to `prompt` unless told otherwise. A chat has its
/// template for that.
std::vector<int32_t> encode(const ApiFields& body, const ServedModel& model) {
  const bool of_content = body.boolean("add_special").value_or(false);
  const bool names_special = body.boolean("parse_special").value_or(true);
  const std::optional<std::string> content = body.text("content"), prompt = body.text("prompt");
  if (body.find("messages")) {
    if (content || prompt) body.reject(content ? "content" : "prompt", "and messages exclude each other");
    return chat_prompt(body, model).ids;
  }
  if (!content && !prompt) body.reject("prompt", "is missing (or content, or messages)");
  const bool of_prompt = body.boolean("add_special_tokens").value_or(true);
  const bool adds_bos = content ? of_content : of_prompt;
  std::vector<int32_t> ids;
  if (adds_bos && model.bos >= 0) ids.push_back(model.bos);
  model.tokenizer->encode(content ? *content : *prompt,
                          names_special ? SpecialTokens::recognise : SpecialTokens::as_text, ids);
  return ids;
}

void write_tokens(const std::vector<int32_t>& ids, bool with_pieces, const Tokenizer& tokenizer,
                  JsonText& json) {
  json.name("tokens").array([&] {
    for (const int32_t id : ids) {
      if (with_pieces)
        json.object([&] { json.field("id", id).field("piece", tokenizer.token_bytes(id)); });
      else
        json.integer(id);
    }
  });
}

}  // namespace

std::string tokenize_json(const ApiFields& body, const ServedModel& model) {
  check_model(body, model);
  const std::vector<int32_t> ids = encode(body, model);
  const bool with_pieces = body.boolean("with_pieces").value_or(false);
  const bool with_texts = body.boolean("return_token_strs").value_or(false);
  JsonText json;
  json.object([&] {
    write_tokens(ids, with_pieces, *model.tokenizer, json);
    json.field("count", ids.size()).field("max_model_len", model.engine->max_context());
    if (!with_texts) return;
    json.name("token_strs").array([&] {
      for (const int32_t id : ids) json.text(model.tokenizer->piece(id));
    });
  });
  return json.take();
}

std::string detokenize_json(const ApiFields& body, const ServedModel& model) {
  check_model(body, model);
  if (!body.list("tokens")) body.reject("tokens", "is missing");
  const std::vector<int32_t> ids = body.token_ids("tokens", model.vocab);
  const std::string text = model.tokenizer->decode(ids, body.boolean("skip_special_tokens").value_or(false));
  JsonText json;
  json.object([&] { json.field("content", text).field("prompt", text); });
  return json.take();
}

std::string apply_template_json(const ApiFields& body, const ServedModel& model) {
  check_model(body, model);
  const ChatPrompt prompt = chat_prompt(body, model);
  JsonText json;
  json.object([&] { json.field("prompt", prompt.text); });
  return json.take();
}

}  // namespace carat
