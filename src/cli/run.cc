// `carat run`: one prompt, its reply streamed as it is drawn, and a footer with what it took.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/engine_setup.h"
#include "api/loaded_model.h"
#include "api/prompt.h"
#include "api/sampling.h"
#include "base/error.h"
#include "chat/output_parser.h"
#include "cli/commands.h"
#include "cli/footer.h"
#include "cli/progress.h"
#include "cli/reply_writer.h"
#include "cli/signals.h"
#include "cli/streams.h"
#include "engine/engine.h"
#include "grammar/grammar.h"

namespace carat {
namespace {

constexpr int kInterrupted = 130;  // the shell's code for a program ended by Ctrl-C

volatile std::sig_atomic_t interrupted = 0;

/// The first Ctrl-C ends the reply at the next token, the second one the program.
void end_reply_on_interrupt() {
  catch_first(SIGINT, [](int) { interrupted = 1; });
}

/// The user's one turn, behind the system's message if there is one.
std::vector<int32_t> encode_turn(const ChatTemplate& chat_template, const RunOptions& options,
                                 std::string_view text) {
  std::vector<jinja::Value> messages;
  if (options.system) messages.push_back(text_message("system", *options.system));
  messages.push_back(text_message("user", text));
  Conversation conversation;
  conversation.messages = jinja::Value::list(std::move(messages));
  return encode_chat(chat_template, std::move(conversation), options.generation.think);
}

/// Somebody sits at the terminal and has given no prompt.
bool wants_chat(const RunOptions& options) {
  return !options.prompt && !options.prompt_file && !options.prompt_from_stdin && !options.json_schema &&
         ::isatty(STDIN_FILENO) && ::isatty(STDERR_FILENO);
}

std::string read_prompt(const RunOptions& options) {
  if (options.prompt) return *options.prompt;
  if (!options.prompt_file && !options.prompt_from_stdin && ::isatty(STDIN_FILENO))
    fail(ErrorKind::invalid_argument, "no prompt: give it with -p TEXT, -f FILE or through a pipe");
  std::string text = options.prompt_file ? read_file(*options.prompt_file) : read_stdin();
  if (!text.empty() && text.back() == '\n')
    text.pop_back();  // the end of the file's last line, not of the text
  return text;
}

/// Tokens that the sequence may grow to: as many as asked for, or as this prompt and its reply need.
int context_size(const RunOptions& options, int prompt_tokens, int max_positions) {
  const int asked = options.engine.context;
  if (asked > 0 && asked <= prompt_tokens) {
    fail(ErrorKind::invalid_argument, "--context ", asked, ": the prompt has ", prompt_tokens,
         " tokens and at least one of reply must fit; give ", prompt_tokens + 1, " or more");
  }
  if (asked > 0) return asked;
  return static_cast<int>(
      std::min<int64_t>(int64_t{prompt_tokens} + options.generation.max_tokens, max_positions));
}

std::unique_ptr<Engine> make_engine_for(LoadedModel model, std::shared_ptr<const Tokenizer> tokenizer,
                                        const RunOptions& options, int prompt_tokens) {
  EngineSetup setup = options.engine;
  setup.context = context_size(options, prompt_tokens, model.plan.max_positions);
  setup.max_step_tokens = std::min(step_tokens(setup), prompt_tokens);
  return make_single_engine(std::move(model), std::move(tokenizer), setup, loading_bar(options.quiet));
}

/// A terminal shows what is continued before the continuation; a pipe gets the continuation alone.
void show_continued_text(const RunOptions& options, const std::string& text) {
  if (options.quiet || !::isatty(STDERR_FILENO) || !::isatty(STDOUT_FILENO)) return;
  std::fprintf(stderr, "\x1b[2m%s\x1b[0m", text.c_str());
  std::fflush(stderr);
}

/// Shows the reply to `request` while it is drawn. False when the reader of standard output is gone.
bool stream_reply(Engine& engine, const Request& request, std::optional<OutputParser> parser,
                  ReplyWriter& writer, Reply& reply) {
  reply = engine.generate(request, [&](const TokenEvent& event) {
    if (!parser) return writer.write(event.text, {}) && !interrupted;
    const OutputDelta delta = parser->push(event.token);
    return writer.write(delta.content, delta.reasoning) && !parser->stopped() && !interrupted;
  });
  if (parser) {
    const OutputDelta rest = parser->finish();
    writer.write(rest.content, rest.reasoning);
  }
  return writer.finish();
}

/// `chat_template`: null with --raw.
void check_chat_options(const RunOptions& options, const ChatTemplate* chat_template) {
  if (options.system && !chat_template) fail(ErrorKind::invalid_argument, "--system: --raw continues text");
  if (options.generation.think && !(chat_template && chat_template->can_think()))
    fail(ErrorKind::invalid_argument,
         "--think: ", chat_template ? "this model has no thinking" : "--raw continues text");
}

/// For a reply that satisfies the schema in the file.
std::shared_ptr<TokenMask> schema_mask(const RunOptions& options, const LoadedModel& model,
                                       const std::shared_ptr<const Tokenizer>& tokenizer,
                                       std::span<const int32_t> prompt) {
  if (options.generation.ignore_eos)
    fail(ErrorKind::invalid_argument, "--json-schema: the reply has an end, which --ignore-eos passes over");
  GrammarCompiler compiler(tokenizer, engine_options(model).eos_tokens);
  const Thinking thinking = thinking_behind(prompt, *tokenizer, options.generation.think);
  try {
    return make_mask(compiler.json_schema(read_file(*options.json_schema), thinking));
  } catch (const SchemaError& error) {
    fail(error.kind(), *options.json_schema, ": ", error.what());
  }
}

}  // namespace

int run_command(const RunOptions& options) {
  if (wants_chat(options)) return chat_command(options);
  const std::string text = read_prompt(options);
  const WarningSink warn = warning_printer(options.quiet);
  LoadedModel model = load_model(options.model, warn);
  const auto tokenizer = load_tokenizer(model, warn);
  const auto chat_template = options.raw ? nullptr : load_chat_template(model, tokenizer, warn);
  check_chat_options(options, chat_template.get());

  const ReplyOptions& how = options.generation;
  Request request = engine_request(how, model.generation);
  request.sampling.validate();
  request.prompt = chat_template ? encode_turn(*chat_template, options, text)
                                 : encode_continuation(*tokenizer, text, bos_token(model));
  if (!chat_template) request.stop = how.stop;  // else the parser looks for them, in the answer alone
  if (options.json_schema) request.mask = schema_mask(options, model, tokenizer, request.prompt);

  const auto engine =
      make_engine_for(std::move(model), tokenizer, options, static_cast<int>(request.prompt.size()));
  if (!chat_template || chat_template->continues_text()) show_continued_text(options, text);
  std::optional<OutputParser> parser;
  if (chat_template) parser.emplace(tokenizer, OutputOptions{false, how.stop}, request.prompt);
  ReplyWriter writer(options.quiet ? Thoughts::hidden : Thoughts::shown);
  end_reply_on_interrupt();
  Reply reply;
  if (!stream_reply(*engine, request, std::move(parser), writer, reply)) return 0;
  if (!options.quiet) {
    const auto& sampling = request.sampling;
    const Usage& usage = reply.usage;
    print_footer({usage.prompt_tokens, usage.cached_tokens, usage.reply_tokens, usage.drafted_tokens,
                  usage.accepted_tokens, reply.first_token_s, reply.total_s,
                  interrupted ? FinishReason::cancelled : reply.finish,
                  sampling.temperature > 0 ? "seed " + std::to_string(sampling.seed) : "greedy"});
  }
  if (reply.finish == FinishReason::error) fail(ErrorKind::corrupt, reply.error);
  return interrupted ? kInterrupted : 0;
}

}  // namespace carat
