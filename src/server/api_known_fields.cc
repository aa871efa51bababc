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
    {"add_generation_prompt", "", 1},
    {"continue_final_message", "", 0},
    {"suffix", "", 0},
    {"previous_response_id", "", 0},
    {"truncate_prompt_tokens", "", kNone},
    // tools
    {"tools", "tools", 0},
    {"functions", "tools", 0},
    {"tool_choice", "tool choice", kNone},
    {"function_call", "tool choice", kNone},
    {"parallel_tool_calls", "", 1},
    {"mcp_servers", "", 0},
    {"web_search_options", "", kNone},
    // thinking
    {"thinking", "thinking", kNone},
    {"reasoning", "thinking", 0},
    {"reasoning_effort", "thinking", kNone},
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
    {"seed", "", kNone},
    {"presence_penalty", "", 0},
    {"frequency_penalty", "", 0},
    {"repetition_penalty", "", 1},
    {"repeat_penalty", "", 1},
    {"logit_bias", "", 0},
    {"allowed_token_ids", "", 0},
    {"bad_words", "", 0},
    {"use_beam_search", "", 0},
    {"n", "", 1},
    {"best_of", "", 1},
    // where the reply ends
    {"max_tokens", "limit", kNone},
    {"max_completion_tokens", "limit", kNone},
    {"max_output_tokens", "limit", kNone},
    {"min_tokens", "", 0},
    {"stop", "stop", 0},
    {"stop_sequences", "stop", 0},
    {"stop_token_ids", "", 0},
    {"ignore_eos", "", 0},
    {"include_stop_str_in_output", "", 0},
    // its form
    {"response_format", "format", 0},
    {"text", "format", 0},
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

}  // namespace

bool shapes_only_the_reply(std::string_view name) {
  return std::ranges::find(kReplyFields, name, &KnownField::name) != std::ranges::end(kReplyFields);
}

bool asks_for_something(std::string_view name, const jinja::Value& value) {
  const KnownField* const field = find_field(name);
  return field && !value.is_none() && as_number(value) != field->neutral;
}

std::string_view same_meaning(std::string_view name, const std::set<std::string, std::less<>>& known) {
  const KnownField* const field = find_field(name);
  if (!field || field->meaning.empty()) return {};
  const auto other = std::ranges::find_if(known, [&](const std::string& other_name) {
    const KnownField* const candidate = find_field(other_name);
    return candidate && candidate->meaning == field->meaning;
  });
  return other == known.end() ? std::string_view{} : *other;
}

}  // namespace carat
