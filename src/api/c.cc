// The C API: carat/engine.h with handles instead of objects and codes instead of exceptions.
#include "carat/c.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "carat/engine.h"
#include "chat/json.h"

struct carat_model {
  carat::Model model;
};

struct carat_reply {
  carat::Generation generation;
  carat::Chunk chunk = {};      // the last one
  std::string tool_calls = {};  // what carat_reply_tool_calls() returned last
};

namespace carat {
namespace {

thread_local std::string last_error;

/// What `action` returns, or `otherwise` and a message when it throws.
template <class Result, class Action>
Result guarded(Result otherwise, Action&& action) noexcept {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";  // short enough to need none
  } catch (const std::exception& error) {
    try {
      last_error = error.what();
    } catch (...) {
      last_error.clear();
    }
  }
  return otherwise;
}

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

/// The caller's struct in the size that we know: what it doesn't have keeps its default.
template <class Options>
Options known_part(const Options* given, void (*init)(Options*, std::size_t)) {
  Options options;
  init(&options, sizeof options);
  if (given) {
    require(given->size >= sizeof(std::size_t),
            "options without a size: fill them with carat_init_*() first");
    std::memcpy(&options, given, std::min(given->size, sizeof options));
  }
  return options;
}

std::string text_of(const char* text) { return text ? text : ""; }

ModelOptions cpp_options(const carat_model_options& c) {
  ModelOptions options;
  if (c.device) options.device = c.device;
  options.format = text_of(c.format);
  options.kv_memory = text_of(c.kv_memory);
  options.draft = text_of(c.draft);
  options.threads = c.threads;
  options.mmap = c.mmap != 0;
  options.context = c.context;
  options.max_sequences = c.max_sequences;
  options.max_step_tokens = c.max_step_tokens;
  options.prefix_cache = c.prefix_cache != 0;
  options.draft_tokens = c.draft_tokens;
  options.kv_type = text_of(c.kv_type);
  return options;
}

ReplyOptions cpp_options(const carat_generation_options& c) {
  ReplyOptions options;
  options.max_tokens = c.max_tokens;
  const auto set = [](auto& option, auto value) {
    if (!(value < 0)) option = value;
  };
  set(options.temperature, c.temperature);
  set(options.top_k, c.top_k);
  set(options.top_p, c.top_p);
  set(options.min_p, c.min_p);
  set(options.repetition_penalty, c.repetition_penalty);
  options.presence_penalty = c.presence_penalty;
  options.frequency_penalty = c.frequency_penalty;
  if (c.has_seed) options.seed = c.seed;
  require(c.stop || c.stop_count == 0, "stop is NULL");
  for (std::size_t i = 0; i < c.stop_count; ++i) options.stop.push_back(text_of(c.stop[i]));
  options.ignore_eos = c.ignore_eos != 0;
  options.priority = c.priority;
  options.cache_salt = text_of(c.cache_salt);
  options.think = c.think != 0;
  options.tools = text_of(c.tools);
  return options;
}

/// Writes at most `size` bytes of `value`, whose member `size` says how many.
template <class Struct>
void write_part(Struct* to, std::size_t size, Struct value) {
  if (!to || size < sizeof(std::size_t)) return;
  value.size = std::min(size, sizeof value);
  std::memset(to, 0, size);
  std::memcpy(to, &value, value.size);
}

std::string json_of(const std::vector<ToolCall>& calls) {
  std::string json = "[";
  for (const ToolCall& call : calls) {
    json += json.size() > 1 ? ", " : "";
    json += R"({"name": )" + jinja::to_json(jinja::Value::text(call.name, Origin::user)).bytes() +
            R"(, "arguments": )" + call.arguments + "}";
  }
  return json + "]";
}

template <class Start>
carat_reply* start_reply(carat_model* model, const char* text, const carat_generation_options* options,
                         Start&& start) {
  return guarded<carat_reply*>(nullptr, [&] {
    require(model, "the model is NULL");
    require(text, "the prompt is NULL");
    const auto cpp = cpp_options(known_part(options, carat_init_generation_options));
    return new carat_reply{start(cpp)};
  });
}

}  // namespace
}  // namespace carat

using namespace carat;

const char* carat_version(void) { return version(); }
const char* carat_last_error(void) { return last_error.c_str(); }

void carat_init_model_options(carat_model_options* options, size_t size) {
  const ModelOptions defaults;
  carat_model_options values{};
  values.context = defaults.context;
  values.max_sequences = defaults.max_sequences;
  values.max_step_tokens = defaults.max_step_tokens;
  values.prefix_cache = 1;
  values.draft_tokens = defaults.draft_tokens;
  write_part(options, size, values);
}

void carat_init_generation_options(carat_generation_options* options, size_t size) {
  carat_generation_options values{};
  values.max_tokens = ReplyOptions{}.max_tokens;
  values.temperature = values.top_p = values.min_p = values.repetition_penalty = -1.f;
  values.top_k = -1;
  write_part(options, size, values);
}

carat_model* carat_load(const char* model, const carat_model_options* options) {
  return guarded<carat_model*>(nullptr, [&] {
    require(model, "the name of the model is NULL");
    return new carat_model{Model::load(model, cpp_options(known_part(options, carat_init_model_options)))};
  });
}

void carat_free_model(carat_model* model) { delete model; }
int carat_is_chat_model(const carat_model* model) { return model && model->model.is_chat_model() ? 1 : 0; }
int carat_max_context(const carat_model* model) { return model ? model->model.max_context() : 0; }

carat_reply* carat_chat(carat_model* model, const char* messages, const carat_generation_options* options) {
  return start_reply(model, messages, options,
                     [&](const auto& cpp) { return model->model.chat_json(messages, cpp); });
}

carat_reply* carat_complete(carat_model* model, const char* text, const carat_generation_options* options) {
  return start_reply(model, text, options, [&](const auto& cpp) { return model->model.complete(text, cpp); });
}

void carat_free_reply(carat_reply* reply) { delete reply; }

enum carat_status carat_reply_next(carat_reply* reply, int timeout_ms) {
  return guarded(CARAT_ERROR, [&] {
    require(reply, "the reply is NULL");
    std::optional<std::chrono::milliseconds> patience;
    if (timeout_ms >= 0) patience = std::chrono::milliseconds(timeout_ms);
    auto chunk = reply->generation.next(patience);
    reply->chunk = chunk ? std::move(*chunk) : Chunk{};
    if (chunk) return CARAT_MORE;
    return reply->generation.finished() ? CARAT_END : CARAT_TIMEOUT;
  });
}

const char* carat_reply_text(const carat_reply* reply) { return reply ? reply->chunk.text.c_str() : ""; }
const char* carat_reply_thought(const carat_reply* reply) {
  return reply ? reply->chunk.thought.c_str() : "";
}

const char* carat_reply_tool_calls(carat_reply* reply) {
  return guarded("[]", [&] {
    require(reply, "the reply is NULL");
    reply->tool_calls = json_of(reply->generation.so_far().tool_calls);
    return reply->tool_calls.c_str();
  });
}

void carat_reply_cancel(carat_reply* reply) {
  if (reply) reply->generation.cancel();
}

enum carat_finish carat_reply_finish(const carat_reply* reply) {
  if (!reply) return CARAT_FAILED;
  switch (reply->generation.so_far().finish) {
    case FinishReason::stop:
      return CARAT_STOP;
    case FinishReason::length:
      return CARAT_LENGTH;
    case FinishReason::cancelled:
      return CARAT_CANCELLED;
    case FinishReason::error:
      break;
  }
  return CARAT_FAILED;
}

const char* carat_reply_error(const carat_reply* reply) {
  return reply ? reply->generation.so_far().error.c_str() : "the reply is NULL";
}

void carat_reply_usage(const carat_reply* reply, carat_usage* usage, size_t size) {
  carat_usage values{};
  if (reply) {
    const Completion& all = reply->generation.so_far();
    values = {0,
              all.usage.prompt_tokens,
              all.usage.cached_tokens,
              all.usage.reply_tokens,
              all.usage.drafted_tokens,
              all.usage.accepted_tokens,
              all.first_token_s,
              all.total_s};
  }
  write_part(usage, size, values);
}
