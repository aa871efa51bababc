// The public C++ API on top of the engine: options to requests, events to chunks.
#include <algorithm>
#include <iterator>
#include <utility>

#include "api/engine_setup.h"
#include "api/loaded_model.h"
#include "api/prompt.h"
#include "api/sampling.h"
#include "base/error.h"
#include "carat/engine.h"
#include "chat/json.h"
#include "chat/output_parser.h"
#include "engine/engine.h"

namespace carat {
namespace {

using Clock = std::chrono::steady_clock;

/// Appends what `more` brings to `chunk`.
void append(Chunk& chunk, const Chunk& more) {
  chunk.text += more.text;
  chunk.thought += more.thought;
  chunk.tool_calls.insert(chunk.tool_calls.end(), more.tool_calls.begin(), more.tool_calls.end());
  chunk.tokens.insert(chunk.tokens.end(), more.tokens.begin(), more.tokens.end());
  chunk.logprobs.insert(chunk.logprobs.end(), more.logprobs.begin(), more.logprobs.end());
}

void append(Chunk& chunk, OutputDelta&& delta) {
  chunk.text += delta.content;
  chunk.thought += delta.reasoning;
  std::ranges::move(delta.tool_calls, std::back_inserter(chunk.tool_calls));
}

bool shows_something(const Chunk& chunk) {
  return !chunk.text.empty() || !chunk.thought.empty() || !chunk.tool_calls.empty();
}

}  // namespace

inline namespace v1 {

struct Generation::State {
  RequestHandle handle;
  std::optional<OutputParser> parser;  // of a chat
  Completion completion = {};
  bool finished = false;
  bool stopped = false;  // by a stop string that the parser found; what the engine still sends isn't wanted

  /// What one event brings. At the end of the reply fills in `completion`.
  void take(Event& event, Chunk& chunk) {
    if (event.token >= 0 && !stopped) {
      chunk.tokens.push_back(event.token);
      if (event.logprobs) chunk.logprobs.push_back(std::move(*event.logprobs));
      if (parser)
        append(chunk, parser->push(event.token));
      else
        chunk.text += event.text;
    } else if (!parser) {
      chunk.text += event.text;
    }
    if (!stopped && parser && parser->stopped()) {
      stopped = true;
      handle.cancel();
    }
    if (event.finish) finish(std::move(*event.finish), chunk);
  }

  void finish(Finish&& end, Chunk& chunk) {
    if (parser && !stopped) append(chunk, parser->finish());
    finished = true;
    const bool by_stop_string = stopped || (parser && parser->stopped());
    completion.finish = by_stop_string ? FinishReason::stop : end.reason;
    completion.error = std::move(end.error);
    completion.usage = end.usage;
    if (stopped)
      completion.usage.reply_tokens = static_cast<int>(completion.tokens.size() + chunk.tokens.size());
    completion.first_token_s = end.first_token_s;
    completion.total_s = end.total_s;
  }
};

Generation::Generation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;
Generation::~Generation() = default;

std::optional<Chunk> Generation::next(std::optional<std::chrono::milliseconds> patience) {
  const auto deadline = Clock::now() + patience.value_or(std::chrono::milliseconds(0));
  Chunk chunk;
  while (!state_->finished) {
    std::optional<std::chrono::milliseconds> left;
    if (patience) {
      left = std::max(std::chrono::milliseconds(0),
                      std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()));
    }
    auto event = state_->handle.next(left);
    if (!event) break;
    state_->take(*event, chunk);
    if (shows_something(chunk)) break;
  }
  append(state_->completion, chunk);
  const bool empty = !shows_something(chunk) && chunk.tokens.empty();
  return empty ? std::nullopt : std::optional(std::move(chunk));
}

bool Generation::finished() const { return state_->finished; }
void Generation::cancel() { state_->handle.cancel(); }
const Completion& Generation::so_far() const { return state_->completion; }

const Completion& Generation::wait() {
  while (!state_->finished) next();
  return state_->completion;
}

struct Model::State {
  GenerationConfig generation;
  int32_t bos = -1;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
  std::unique_ptr<Engine> engine;

  /// `tools`: whether the reply may call some.
  std::unique_ptr<Generation::State> submit(std::vector<int32_t> prompt, const ReplyOptions& options,
                                            bool chat, bool tools) const {
    Request request = engine_request(options, generation);
    if (!chat) request.stop = options.stop;  // else the parser looks for them, in the answer alone
    std::optional<OutputParser> parser;
    if (chat) parser.emplace(tokenizer, OutputOptions{tools, options.stop}, prompt);
    request.prompt = std::move(prompt);
    return std::make_unique<Generation::State>(
        Generation::State{engine->submit(std::move(request), options.notify), std::move(parser)});
  }

  std::unique_ptr<Generation::State> chat(jinja::Value messages, const ReplyOptions& options) const {
    Conversation conversation;
    conversation.messages = std::move(messages);
    if (!options.tools.empty()) conversation.tools = jinja::parse_json(options.tools, Origin::user, "tools");
    const bool tools = conversation.tools.truth();
    return submit(encode_chat(*chat_template, std::move(conversation), options.think), options, true, tools);
  }
};

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::string& name, const ModelOptions& options) {
  LoadedModel loaded = load_model(name, options.warning);
  auto state = std::make_unique<State>();
  state->tokenizer = load_tokenizer(loaded, options.warning);
  state->chat_template = load_chat_template(loaded, state->tokenizer, options.warning);
  state->generation = loaded.generation;
  state->bos = bos_token(loaded);
  state->engine = make_engine(std::move(loaded), state->tokenizer, engine_setup(options), options.progress);
  return Model(std::move(state));
}

Generation Model::chat(std::span<const Message> messages, const ReplyOptions& options) const {
  std::vector<jinja::Value> list;
  for (const Message& message : messages) list.push_back(text_message(message.role, message.content));
  return Generation(state_->chat(jinja::Value::list(std::move(list)), options));
}

Generation Model::chat(std::initializer_list<Message> messages, const ReplyOptions& options) const {
  return chat(std::span(messages.begin(), messages.size()), options);
}

Generation Model::chat_json(std::string_view messages, const ReplyOptions& options) const {
  return Generation(state_->chat(jinja::parse_json(messages, Origin::user, "messages"), options));
}

Generation Model::complete(std::string_view text, const ReplyOptions& options) const {
  return generate(encode_continuation(*state_->tokenizer, text, state_->bos), options);
}

Generation Model::generate(std::vector<int32_t> prompt, const ReplyOptions& options) const {
  if (options.think || !options.tools.empty())
    fail(ErrorKind::invalid_argument, options.think ? "think" : "tools",
         " is set, which has no effect on text that is continued; it is for chats");
  return Generation(state_->submit(std::move(prompt), options, false, false));
}

std::vector<int32_t> Model::tokenize(std::string_view text, bool special) const {
  return state_->tokenizer->encode(text, special ? SpecialTokens::recognise : SpecialTokens::as_text);
}

std::string Model::detokenize(std::span<const int32_t> tokens) const {
  return state_->tokenizer->decode(tokens, /*skip_special=*/false);
}

bool Model::is_chat_model() const { return !state_->chat_template->continues_text(); }
bool Model::can_think() const { return state_->chat_template->can_think(); }
int Model::max_context() const { return state_->engine->max_context(); }
int Model::max_sequences() const { return state_->engine->runner().info().limits.max_sequences; }
std::string Model::device() const { return state_->engine->runner().info().device; }

std::string Model::failure() const { return state_->engine->failure(); }

const char* version() noexcept { return CARAT_VERSION; }

}  // namespace v1
}  // namespace carat
