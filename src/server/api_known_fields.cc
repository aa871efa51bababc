#include "server/api_known_fields.h"

#include <algorithm>
#include <limits>
#include <span>

namespace carat {
namespace {

/// Fields with the same `meaning` are names for one thing.
struct KnownField {
  std::string_view name;
  std::string_view meaning;
  double neutral;  // the value that asks for nothing: false and what is empty are 0, true is 1
  std::string_view standard = {};  // a word that says what holds anyway
  std::string_view off = {};       // a word that turns off what `meaning` stands for
};

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // every value asks for something

constexpr KnownField kPromptFields[] = {
    // what is to be answered or continued
    {"messages", "prompt", 0},
    {"prompt", "prompt", 0},
    {"input", "prompt", 0},
    {"content", "prompt", 0},
    {"tokens", "prompt", 0},
    {"system", "system", 0},
    {"instructions", "system", 0},
    {"chat_template", "", 0},
    {"chat_template_kwargs", "thinking", 0},
    {"documents", "", 0},
    {"add_generation_prompt", "", 1},
    {"continue_final_message", "", 0},
    {"suffix", "", 0},
    {"previous_response_id", "", 0},
    {"conversation", "", 0},
    {"truncate_prompt_tokens", "", kNone},
    {"truncation", "", 0, "disabled"},
    {"context_management", "", 0},
    // its tokens
    {"add_special_tokens", "special tokens", 0},
    {"add_special", "special tokens", 0},
    {"parse_special", "", 1},
    {"with_pieces", "", 0},
    {"return_token_strs", "", 0},
    // tools
    {"tools", "tools", 0},
    {"functions", "tools", 0},
    {"tool_choice", "tool choice", 0, "auto", "none"},
    {"function_call", "tool choice", 0, "auto", "none"},
    {"parallel_tool_calls", "", 1},
    {"mcp_servers", "", 0},
    {"web_search_options", "", 0},
    // thinking
    {"thinking", "thinking", 0, "", "disabled"},
    {"reasoning", "thinking", 0, "auto", "none"},
    {"reasoning_effort", "thinking", 0, "", "none"},
    {"thinking_budget", "thinking budget", kNone},
    {"thinking_token_budget", "thinking budget", kNone},
    {"thinking_budget_tokens", "thinking budget", kNone},
};

/// Without effect where no reply is made.
constexpr KnownField kReplyFields[] = {
    // how tokens are drawn
    {"temperature", "", kNone},
    {"top_p", "", kNone},
    {"top_k", "", kNone},
    {"min_p", "", kNone},
    {"typical_p", "", 1},
    {"top_n_sigma", "", -1},
    {"mirostat", "", 0},
    {"mirostat_mode", "", 0},
    {"dry_multiplier", "", 0},
    {"xtc_probability", "", 0},
    {"dynatemp_range", "", 0},
    {"seed", "", kNone},
    {"presence_penalty", "", 0},
    {"frequency_penalty", "", 0},
    {"repetition_penalty", "", 1},
    {"repeat_penalty", "", 1},
    {"logit_bias", "", 0},
    {"allowed_token_ids", "", 0},
    {"bad_words", "", 0},
    {"use_beam_search", "", 0},
    {"length_penalty", "", 1},
    {"n", "", 1},
    {"best_of", "", 1},
    // where the reply ends
    {"max_tokens", "limit", kNone},
    {"max_completion_tokens", "limit", kNone},
    {"max_output_tokens", "limit", kNone},
    {"n_predict", "limit", kNone},
    {"max_tool_calls", "", kNone},
    {"min_tokens", "", 0},
    {"stop", "stop", 0},
    {"stop_sequences", "stop", 0},
    {"stop_token_ids", "", 0},
    {"ignore_eos", "", 0},
    {"include_stop_str_in_output", "", 0},
    // its form
    {"response_format", "format", 0, "text"},
    {"text", "format", 0, "text"},
    {"output_config", "format", 0},
    {"output_format", "format", 0},
    {"json_schema", "format", 0},
    {"grammar", "format", 0},
    {"guided_json", "format", 0},
    {"guided_regex", "format", 0},
    {"guided_choice", "format", 0},
    {"guided_grammar", "format", 0},
    {"structured_outputs", "format", 0},
    // what comes back
    {"stream", "", 0},
    {"echo", "", 0},
    {"stream_options", "", 0},
    {"logprobs", "", 0},
    {"top_logprobs", "", 0},
    {"prompt_logprobs", "", kNone},
    {"skip_special_tokens", "", 1},
    {"return_token_ids", "", 0},
    {"timings", "", 0},
    {"include", "", 0},
    {"modalities", "", 0, "text"},
    {"audio", "", 0},
    // when it comes
    {"priority", "", 0},
    {"cache_salt", "", 0},
    {"background", "", 0},
};

const KnownField* find_field(std::string_view name) {
  using Fields = std::span<const KnownField>;
  for (const Fields fields : {Fields(kPromptFields), Fields(kReplyFields)}) {
    const auto field = std::ranges::find(fields, name, &KnownField::name);
    if (field != fields.end()) return &*field;
  }
  return nullptr;
}

/// As KnownField::neutral counts.
double as_number(const jinja::Value& value) {
  if (const bool* boolean = value.as_boolean()) return *boolean ? 1 : 0;
  if (const int64_t* integer = value.as_integer()) return static_cast<double>(*integer);
  if (const double* number = value.as_number()) return *number;
  return value.truth() ? kNone : 0;
}

/// A word of `field` that asks for nothing. `turns_off`: so does KnownField::off.
bool is_neutral_word(const KnownField& field, const jinja::Value& value, bool turns_off) {
  if (!value.as_text() || value.as_text()->empty()) return false;
  const std::string& word = value.as_text()->bytes();
  return word == field.standard || (turns_off && word == field.off);
}

/// An object of nulls and such words, such as {"type": "text"}, or a list of such words.
bool has_only_neutral_words(const KnownField& field, const jinja::Value& value, bool turns_off) {
  if (const jinja::List* list = value.as_list())
    return std::ranges::all_of(
        list->items, [&](const jinja::Value& item) { return is_neutral_word(field, item, turns_off); });
  return value.as_map() && std::ranges::all_of(value.as_map()->entries(), [&](const auto& entry) {
           return entry.value.is_none() || is_neutral_word(field, entry.value, turns_off) ||
                  (entry.value.as_map() && has_only_neutral_words(field, entry.value, turns_off));
         });
}

}  // namespace

bool is_known_field(std::string_view name) { return find_field(name) != nullptr; }

bool shapes_only_the_reply(std::string_view name) {
  return std::ranges::find(kReplyFields, name, &KnownField::name) != std::ranges::end(kReplyFields);
}

bool asks_for_something(std::string_view name, const jinja::Value& value, const FieldNames& known) {
  const KnownField* const field = find_field(name);
  if (!field || value.is_none() || as_number(value) == field->neutral) return false;
  const bool turns_off = same_meaning(name, known).empty();
  return !is_neutral_word(*field, value, turns_off) && !has_only_neutral_words(*field, value, turns_off);
}

std::string_view same_meaning(std::string_view name, const FieldNames& known) {
  const KnownField* const field = find_field(name);
  if (!field || field->meaning.empty()) return {};
  const auto other = std::ranges::find_if(known, [&](const std::string& other_name) {
    const KnownField* const candidate = find_field(other_name);
    return candidate && candidate->meaning == field->meaning;
  });
  return other == known.end() ? std::string_view{} : *other;
}

}  // namespace carat
