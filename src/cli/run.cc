// `carat run`: one prompt, its reply streamed as it is drawn, and a footer with what it took.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <random>
#include <utility>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/prompt.h"
#include "cli/reply_writer.h"
#include "cli/signals.h"
#include "cli/streams.h"
#include "engine/engine.h"

namespace carat {
namespace {

constexpr int kInterrupted = 130;  // the shell's code for a program ended by Ctrl-C

volatile std::sig_atomic_t interrupted = 0;

/// The first Ctrl-C ends the reply at the next token, the second one the program.
void end_reply_on_interrupt() {
  catch_first(SIGINT, [](int) { interrupted = 1; });
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

/// The checkpoint's defaults, each replaced by the flag that was given.
SamplingParams sampling_params(const RunOptions& options, const GenerationConfig& defaults) {
  SamplingParams params;
  params.temperature =
      options.temperature.value_or(defaults.do_sample ? defaults.temperature.value_or(1.f) : 0.f);
  params.top_k = options.top_k.value_or(defaults.top_k.value_or(params.top_k));
  params.top_p = options.top_p.value_or(defaults.top_p.value_or(params.top_p));
  params.min_p = options.min_p.value_or(defaults.min_p.value_or(params.min_p));
  params.repetition_penalty =
      options.repetition_penalty.value_or(defaults.repetition_penalty.value_or(params.repetition_penalty));
  params.seed = options.seed ? *options.seed : std::random_device{}();
  params.validate();
  return params;
}

/// Tokens that the sequence may grow to: as many as asked for, or as this prompt and its reply need.
int context_size(const RunOptions& options, int prompt_tokens, int max_positions) {
  if (options.context > max_positions) {
    fail(ErrorKind::invalid_argument, "--context ", options.context, ": the model has only ", max_positions,
         " positions");
  }
  if (options.context > 0 && options.context <= prompt_tokens) {
    fail(ErrorKind::invalid_argument, "--context ", options.context, ": the prompt has ", prompt_tokens,
         " tokens and at least one of reply must fit; give ", prompt_tokens + 1, " or more");
  }
  const int64_t wanted = options.context > 0 ? options.context : int64_t{prompt_tokens} + options.max_tokens;
  return static_cast<int>(std::min<int64_t>(wanted, max_positions));
}

DraftMethod draft_method(const std::string& name) {
  if (name.empty()) return DraftMethod::none;
  return name == "ngram" ? DraftMethod::ngram : DraftMethod::suffix;
}

Engine make_engine(LoadedModel model, std::shared_ptr<const Tokenizer> tokenizer, const RunOptions& options,
                   int prompt_tokens) {
  constexpr int kStepTokens = 512;
  EngineOptions settings = engine_options(model);
  settings.max_positions = context_size(options, prompt_tokens, model.plan.max_positions);
  settings.draft = draft_method(options.draft);
  settings.draft_tokens = options.draft_tokens;
  const int checked_tokens = settings.draft == DraftMethod::none ? 1 : 1 + settings.draft_tokens;
  const RunnerOptions limits = size_kv(model.plan.kv_groups, settings.max_positions, 1,
                                       std::max(checked_tokens, std::min(kStepTokens, prompt_tokens)));
  return Engine(make_runner(std::move(model.plan), limits, options.device, options.quiet),
                std::move(tokenizer), std::move(settings));
}

/// A terminal shows what is continued before the continuation; a pipe gets the continuation alone.
void show_continued_text(const RunOptions& options, const std::string& text) {
  if (options.quiet || !::isatty(STDERR_FILENO) || !::isatty(STDOUT_FILENO)) return;
  std::fprintf(stderr, "\x1b[2m%s\x1b[0m", text.c_str());
  std::fflush(stderr);
}

void print_footer(const Request& request, const Reply& reply) {
  const auto generated = static_cast<double>(reply.tokens.size());
  constexpr int kTooFewToTime = 2;  // one step says nothing about a rate
  const double decode_s = reply.total_s - reply.first_token_s;
  std::fprintf(stderr, "%zu prompt tokens, %zu generated", request.prompt.size(), reply.tokens.size());
  if (generated > kTooFewToTime && decode_s > 0)
    std::fprintf(stderr, ", %.1f tok/s", (generated - 1) / decode_s);
  if (generated > 0) std::fprintf(stderr, ", first token after %.2f s", reply.first_token_s);
  if (request.sampling.temperature > 0)
    std::fprintf(stderr, ", seed %llu", static_cast<unsigned long long>(request.sampling.seed));
  else
    std::fputs(", greedy", stderr);
  if (reply.usage.drafted_tokens > 0)
    std::fprintf(stderr, ", %d of %d drafts accepted", reply.usage.accepted_tokens,
                 reply.usage.drafted_tokens);
  if (reply.finish == FinishReason::length) std::fputs(" (ended by the length limit)", stderr);
  std::fputc('\n', stderr);
}

/// False when the reader of standard output is gone.
bool stream_reply(Engine& engine, const Request& request, ReplyWriter& writer, Reply& reply) {
  reply =
      engine.generate(request, [&](const TokenEvent& event) { return writer.write(event) && !interrupted; });
  return writer.finish();
}

}  // namespace

int run_command(const RunOptions& options) {
  const std::string text = read_prompt(options);
  LoadedModel model =
      load_model(options.model.empty() ? find_demo_model().string() : options.model, options.quiet);
  const auto tokenizer = load_tokenizer(model, options.quiet);
  const auto chat_template = options.raw ? nullptr : load_chat_template(model, tokenizer);
  if (options.think && !chat_template)
    fail(ErrorKind::invalid_argument,
         "--think: ", options.raw ? "--raw continues text" : "this is no chat model");

  Request request;
  request.prompt = chat_template ? encode_turn(*chat_template, text, options.think)
                                 : encode_continuation(*tokenizer, text, bos_token(model));
  request.sampling = sampling_params(options, model.generation);
  request.max_tokens = options.max_tokens;
  if (!chat_template) request.stop = options.stop;  // else the parser looks for them, in the answer alone
  request.ignore_eos = options.ignore_eos;

  Engine engine = make_engine(std::move(model), tokenizer, options, static_cast<int>(request.prompt.size()));

  if (!chat_template) show_continued_text(options, text);
  std::optional<OutputParser> parser;
  if (chat_template) parser.emplace(tokenizer, OutputOptions{false, options.stop}, request.prompt);
  ReplyWriter writer(std::move(parser), options.quiet);
  end_reply_on_interrupt();
  Reply reply;
  if (!stream_reply(engine, request, writer, reply)) return 0;
  if (!options.quiet) print_footer(request, reply);
  if (reply.finish == FinishReason::error) fail(ErrorKind::corrupt, reply.error);
  return interrupted ? kInterrupted : 0;
}

}  // namespace carat
