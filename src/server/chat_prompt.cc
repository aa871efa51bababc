#include "server/chat_prompt.h"

#include <algorithm>

#include "server/chat_grammar.h"
#include "server/chat_thinking.h"

namespace carat {
namespace {

/// The model is not told of tools that it must not call.
Conversation shown_conversation(const ChatRequest& request, const ServedModel& model) {
  Conversation conversation = request.conversation;
  if (request.tool_choice.kind == ToolChoice::Kind::none) conversation.tools = {};
  if (request.thinking && model.chat_template->can_think())
    conversation.variables.set("enable_thinking", jinja::Value::boolean(*request.thinking));
  return conversation;
}

}  // namespace

ChatPrompt make_chat_prompt(const ChatRequest& request, const ServedModel& model) {
  try {
    const MarkedText text = model.chat_template->render(shown_conversation(request, model));
    std::vector<int32_t> ids = model.chat_template->encode(text);
    if (ids.empty()) bad_request("messages", "messages: the prompt is empty");
    return {text.bytes(), std::move(ids)};
  } catch (const Error& error) {
    ApiError refused = to_api_error(error);
    if (refused.status == 400 && refused.param.empty()) refused.param = "messages";
    throw refused;
  }
}

ChatRun make_chat_run(const ChatRequest& request, const ServedModel& model) {
  ChatPrompt prompt = make_chat_prompt(request, model);
  ChatRun run;
  run.output = {
      .tool_calls = request.conversation.tools.truth() && request.tool_choice.kind != ToolChoice::Kind::none,
      .stop_strings = request.options.stop};
  run.request = to_request(request.options, std::move(prompt.ids), "messages", model);
  run.request.mask = make_reply_mask(request, run.request.prompt, model);
  if (run.request.mask) run.request.ignore_eos = false;  // behind its end the reply could not go on
  if (!run.request.ignore_eos)
    for (const int32_t id : turn_ends(*model.tokenizer)) run.request.stop_tokens.push_back(id);
  if (request.thinking_budget)
    run.request.mask = limit_thinking(*request.thinking_budget, *model.tokenizer, run.request.prompt,
                                      std::move(run.request.mask));
  return run;
}

}  // namespace carat
