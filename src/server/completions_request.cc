#include "server/completions_request.h"

namespace carat {
namespace {

using jinja::Value;

constexpr std::size_t kMostPrompts = 64;
constexpr int kDefaultTokens = 16;  // OpenAI's

CompletionPrompt prompt_of_ids(const std::vector<Value>& list, const std::string& path,
                               const ServedModel& model) {
  std::vector<int32_t> ids = token_ids(list, path, model.vocab);
  if (ids.empty()) bad_request(path, path, " is empty");
  std::string text = model.tokenizer->decode(ids, /*skip_special=*/true);
  return {std::move(ids), std::move(text)};
}

CompletionPrompt prompt_of_text(const std::string& text, const ApiFields& body, const ServedModel& model) {
  return {encode_raw(text, body, model), text};
}

/// A text, token ids, or a list of either.
std::vector<CompletionPrompt> parse_prompts(const ApiFields& body, const ServedModel& model) {
  const Value* field = body.find("prompt");
  if (!field) body.reject("prompt", "is missing");
  if (field->as_text()) return {prompt_of_text(field->as_text()->bytes(), body, model)};
  const std::vector<Value>& list = *body.list("prompt");
  if (list.empty()) body.reject("prompt", "is empty");
  if (!list.front().as_text() && !list.front().as_list()) return {prompt_of_ids(list, "prompt", model)};
  if (list.size() > kMostPrompts)
    body.reject("prompt", "has ", list.size(), " prompts, the most are ", kMostPrompts);
  std::vector<CompletionPrompt> prompts;
  for (const Value& item : list) {
    const std::string path = element_path("prompt", prompts.size());
    if (item.as_text())
      prompts.push_back(prompt_of_text(item.as_text()->bytes(), body, model));
    else if (item.as_list())
      prompts.push_back(prompt_of_ids(item.as_list()->items, path, model));
    else
      bad_request(path, path, " is ", item.type_name(), ", expected a string or a list of token ids");
  }
  return prompts;
}

}  // namespace

std::vector<int32_t> encode_raw(std::string_view text, const ApiFields& body, const ServedModel& model) {
  const bool adds_bos = body.boolean("add_special_tokens").value_or(true) && model.bos >= 0;
  std::vector<int32_t> ids;
  if (adds_bos) ids.push_back(model.bos);
  model.tokenizer->encode(text, SpecialTokens::recognise, ids);
  if (adds_bos && ids.size() > 1 && ids[1] == model.bos) ids.erase(ids.begin());
  if (ids.empty()) body.reject("prompt", "is empty");
  return ids;
}

CompletionsRequest parse_completions_request(const ApiFields& body, const ServedModel& model) {
  CompletionsRequest request;
  request.model = body.text("model").value_or("");
  model.require_name(request.model);
  if (body.integer("best_of", 1, 1'000).value_or(1) > 1)
    body.reject("best_of", "is not supported; ask for n replies and choose by their logprobs");
  request.options = parse_reply_options(body, model);
  parse_stop(body, "stop", request.options);
  parse_choices(body, model, request.options);
  request.options.skip_special_tokens = body.boolean("skip_special_tokens").value_or(true);
  request.options.max_tokens = parse_max_tokens(body, {"max_tokens"}).value_or(kDefaultTokens);
  if (const auto logprobs = body.integer("logprobs", 0, kMostLogprobs))
    request.options.request.logprobs = static_cast<int>(*logprobs);
  request.echo = body.boolean("echo").value_or(false);
  if (request.echo && request.options.request.logprobs)
    body.reject("logprobs", "together with echo is not supported: there are none for the prompt's tokens");
  body.boolean("add_special_tokens");  // of texts; ids are taken as they are
  request.prompts = parse_prompts(body, model);
  body.refuse_rest(model.refuses_unknown_fields);
  return request;
}

}  // namespace carat
