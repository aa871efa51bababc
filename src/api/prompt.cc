#include "api/prompt.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "io/json_object.h"
#include "text/unicode.h"

namespace carat {
namespace {

/// With a message that names the place, also for a link that leads nowhere.
void check_tokenizer_config(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::symlink_status(file, ignored).type() == std::filesystem::file_type::not_found) return;
  check_json(MappedFile(file, kMostConfigBytes).text(), file.string());
}

}  // namespace

std::shared_ptr<const ChatTemplate> load_chat_template(const LoadedModel& model,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       const WarningSink& warn) {
  check_tokenizer_config(model.directory / "tokenizer_config.json");
  // The models without per-layer embeddings expect an empty thought when they are not to think.
  const std::vector<int32_t> eos = engine_options(model).eos_tokens;
  const bool ends_turns = std::ranges::find(eos, tokenizer->find("<turn|>")) != eos.end();
  const ChatTemplateOptions options{bos_token(model), model.plan.ple_dim == 0, ends_turns};
  return ChatTemplate::load(model.directory, std::move(tokenizer), options, warn);
}

jinja::Value text_message(std::string_view role, std::string_view text) {
  jinja::Map message;
  message.set("role", jinja::Value::text(role, Origin::user));
  message.set("content", jinja::Value::text(replace_invalid_utf8(text), Origin::user));
  return jinja::Value::map(std::move(message));
}

std::vector<int32_t> encode_chat(const ChatTemplate& chat_template, Conversation conversation, bool think) {
  if (think && !chat_template.can_think())
    fail(ErrorKind::invalid_argument, "the chat template of this checkpoint has no thinking");
  conversation.variables.set("enable_thinking", jinja::Value::boolean(think));
  return chat_template.encode(chat_template.render(conversation));
}

std::vector<int32_t> encode_continuation(const Tokenizer& tokenizer, std::string_view text, int32_t bos) {
  std::vector<int32_t> ids{bos};
  tokenizer.encode(text, SpecialTokens::recognise, ids);
  if (ids.size() > 1 && ids[1] == bos) ids.erase(ids.begin());
  return ids;
}

}  // namespace carat
