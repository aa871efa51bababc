#include "chat/chat_template.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "chat/gemma4_template.h"
#include "chat/python_text.h"

namespace carat {
namespace {

using jinja::Map;
using jinja::Value;
using nlohmann::json;

/// Null when there is no such file.
json read_json_object(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return nullptr;
  const MappedFile mapped(file);
  json document = json::parse(mapped.text(), nullptr, false);
  if (!document.is_object()) fail(ErrorKind::corrupt, file.string(), ": not a JSON object");
  return document;
}

struct NamedTemplate {
  std::string name, source, place;
};

/// The field chat_template: one template, or those of a list that we use. Empty without it.
std::vector<NamedTemplate> templates_of(const json& document, const std::filesystem::path& file) {
  const json field = document.is_object() ? document.value("chat_template", json()) : json();
  if (field.is_null()) return {};
  if (field.is_string()) return {{"default", field.get<std::string>(), file.string() + ": chat_template"}};
  if (!field.is_array())
    fail(ErrorKind::corrupt, file.string(), ": chat_template is neither a string nor a list of templates");
  std::vector<NamedTemplate> templates;
  for (const json& named : field) {
    const bool valid = named.is_object() && named.value("name", json()).is_string() &&
                       named.value("template", json()).is_string();
    if (!valid)
      fail(ErrorKind::corrupt, file.string(), ": an entry of chat_template is not {\"name\", \"template\"}");
    const std::string name = named["name"].get<std::string>();
    if (name == "default" || name == "tool_use")
      templates.push_back({name, named["template"].get<std::string>(), file.string() + ": template " + name});
  }
  if (!field.empty() && std::ranges::find(templates, "default", &NamedTemplate::name) == templates.end())
    fail(ErrorKind::unsupported, file.string(), ": none of the chat templates is named default");
  return templates;
}

/// Those that the checkpoint brings, a default one among them. Empty without any.
std::vector<NamedTemplate> checkpoint_templates(const std::filesystem::path& directory) {
  if (const auto file = directory / "chat_template.jinja"; std::filesystem::exists(file))
    return {{"default", std::string(MappedFile(file).text()), file.string()}};
  for (const char* const name : {"tokenizer_config.json", "chat_template.json"}) {
    const auto file = directory / name;
    std::vector<NamedTemplate> templates = templates_of(read_json_object(file), file);
    if (!templates.empty()) return templates;
  }
  return {};
}

/// The turn token of Gemma 4 that a template writes though it would be encoded as text: a model with this
/// vocabulary has never seen such a turn. Empty: none.
std::string_view missing_turn_token(const Tokenizer& tokenizer, std::string_view source) {
  for (const std::string_view token : {"<|turn>", "<turn|>"})
    if (source.find(token) != source.npos && !tokenizer.is_special(tokenizer.find(token))) return token;
  return {};
}

/// Text that no template trims or changes, put where the prompt is to end.
constexpr std::string_view kPromptEnd = "[CARAT: THE PROMPT ENDS HERE]";

/// The conversation with kPromptEnd behind the text of its last message.
Value mark_end(const Value& messages) {
  std::vector<Value> list = messages.as_list()->items;
  Map last = *list.back().as_map();
  const Value* content = last.find("content");
  if (last.find("role")->as_text()->bytes() != "assistant" || !content)
    fail(ErrorKind::invalid_argument, "messages[", list.size() - 1,
         "] can't be continued: it is not a text of the assistant");
  const auto marked = [](const Value& text) {
    MarkedText longer = *text.as_text();
    longer.append(kPromptEnd, Origin::user);
    return Value::text(std::move(longer));
  };
  if (content->as_text()) {
    last.set("content", marked(*content));
  } else {
    std::vector<Value> parts = content->as_list()->items;
    if (parts.empty())
      fail(ErrorKind::invalid_argument, "messages[", list.size() - 1, "] can't be continued: it has no text");
    Map part = *parts.back().as_map();
    part.set("text", marked(*part.find("text")));
    parts.back() = Value::map(std::move(part));
    last.set("content", Value::list(std::move(parts)));
  }
  list.back() = Value::map(std::move(last));
  return Value::list(std::move(list));
}

MarkedText cut_at_end_mark(const MarkedText& prompt) {
  const std::size_t end = prompt.bytes().rfind(kPromptEnd);
  if (end == std::string::npos)
    fail(ErrorKind::invalid_argument, "the chat template does not keep the message that is to be continued");
  return prompt.part(0, end);
}

}  // namespace

ChatTemplate::ChatTemplate(std::shared_ptr<const Tokenizer> tokenizer, const std::filesystem::path& directory,
                           const ChatTemplateOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id)
    if (tokenizer_->is_special(id) && !tokenizer_->piece(id).empty())
      special_tokens_.push_back({std::string(tokenizer_->piece(id)), id});
  std::ranges::stable_sort(special_tokens_, std::ranges::greater{},
                           [](const SpecialToken& token) { return token.text.size(); });
  read_special_tokens(directory);
}

/// bos_token, eos_token, ... of tokenizer_config.json: a text, or an object with the text as its content.
void ChatTemplate::read_special_tokens(const std::filesystem::path& directory) {
  if (options_.bos >= 0)
    variables_.set("bos_token", Value::text(tokenizer_->piece(options_.bos), Origin::chat_template));
  const json config = read_json_object(directory / "tokenizer_config.json");
  for (const auto& [name, token] : config.items()) {
    const json content = token.is_object() ? token.value("content", json()) : token;
    if (name.ends_with("_token") && content.is_string())
      variables_.set(name, Value::text(content.get<std::string>(), Origin::chat_template));
  }
}

void ChatTemplate::add_template(std::string_view source, const std::string& name, bool for_tools) {
  (for_tools ? tool_template_ : template_) = jinja::Template::parse(source, name);
  can_think_ |= source.find("enable_thinking") != source.npos;
  knows_tools_ |= for_tools || source.find("tools") != source.npos;
}

std::shared_ptr<const ChatTemplate> ChatTemplate::load(const std::filesystem::path& directory,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       const ChatTemplateOptions& options,
                                                       const std::function<void(const std::string&)>& warn) {
  const std::shared_ptr<ChatTemplate> result(new ChatTemplate(tokenizer, directory, options));
  const std::vector<NamedTemplate> templates = checkpoint_templates(directory);
  std::string_view missing;
  for (const NamedTemplate& each : templates)
    if (missing.empty()) missing = missing_turn_token(*tokenizer, each.source);
  if (!templates.empty() && missing.empty()) {
    for (const NamedTemplate& each : templates)
      result->add_template(each.source, each.place, each.name == "tool_use");
    return result;
  }
  if (!missing.empty() && warn)
    warn(templates.front().place + " writes " + std::string(missing) +
         ", which is not a special token of tokenizer.json: it is not used, messages are continued as text");
  const bool has_turns =
      missing.empty() && options.ends_turns && missing_turn_token(*tokenizer, gemma4_template()).empty();
  result->continues_text_ = !has_turns;
  result->add_template(has_turns ? gemma4_template() : plain_template(), "the built-in chat template", false);
  return result;
}

MarkedText ChatTemplate::render(const Conversation& conversation) const {
  Map variables = variables_;
  variables.set("expects_empty_thought", Value::boolean(options_.expects_empty_thought));
  for (const Map::Entry& entry : conversation.variables.entries())
    variables.set(*entry.key.as_text(), entry.value);
  const Value messages = normalized_messages(conversation.messages);
  const bool continues = conversation.continue_final_message;
  variables.set("messages", continues ? mark_end(messages) : messages);
  const bool has_tools = conversation.tools.truth();
  if (has_tools && !knows_tools_)
    fail(ErrorKind::unsupported, "tools: ",
         continues_text() ? "this model only continues text"
                          : "the chat template of this checkpoint has none");
  variables.set("tools", has_tools ? conversation.tools : Value::none());
  if (!variables.find("documents")) variables.set("documents", Value::none());
  variables.set("add_generation_prompt", Value::boolean(conversation.add_generation_prompt && !continues));
  const jinja::Template& used = has_tools && tool_template_ ? *tool_template_ : *template_;
  const MarkedText prompt = used.render(variables, std::time(nullptr));
  return continues ? cut_at_end_mark(prompt) : prompt;
}

const ChatTemplate::SpecialToken* ChatTemplate::special_token_at(std::string_view text,
                                                                 std::size_t at) const {
  for (const SpecialToken& token : special_tokens_)
    if (text.substr(at).starts_with(token.text)) return &token;
  return nullptr;
}

/// Text between special tokens is encoded in one piece, whoever wrote its parts, so that the ids are those
/// that Hugging Face tokenizers give for the whole prompt.
std::vector<int32_t> ChatTemplate::encode(const MarkedText& prompt) const {
  std::vector<int32_t> ids;
  const std::string_view bytes = prompt.bytes();
  std::size_t text_begin = 0, run_begin = 0;
  const auto encode_text = [&](std::size_t end) {
    if (end > text_begin)
      tokenizer_->encode(bytes.substr(text_begin, end - text_begin), SpecialTokens::as_text, ids);
  };
  for (const MarkedText::Run& run : prompt.runs()) {
    const std::string_view written = bytes.substr(run_begin, run.end - run_begin);
    for (std::size_t at = 0; run.origin == Origin::chat_template && at < written.size();) {
      const SpecialToken* token = special_token_at(written, at);
      if (token) {
        encode_text(run_begin + at);
        ids.push_back(token->id);
        text_begin = run_begin + at + token->text.size();
      }
      at += token ? token->text.size() : 1;
    }
    run_begin = run.end;
  }
  encode_text(bytes.size());

  if (options_.bos < 0) return ids;
  const auto first_other = std::ranges::find_if(ids, [&](int32_t id) { return id != options_.bos; });
  ids.erase(ids.begin(), first_other);
  ids.insert(ids.begin(), options_.bos);
  return ids;
}

}  // namespace carat
