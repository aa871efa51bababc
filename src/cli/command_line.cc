#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/demo_model.h"
#include "cli/engine_flags.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/option_values.h"
#include "cli/signals.h"
#include "cli/streams.h"
#include "cli/usage_error.h"

namespace carat {
namespace {

constexpr int kError = 1, kUsage = 2;

/// All commands: one is parsed, then run.
struct CommandLine {
  RunOptions run;
  BatchOptions batch;
  ServeOptions serve;
  std::string run_source;
  TokenizeOptions tokenize;
  InspectOptions inspect;
  CheckOptions check;
  BenchOptions bench;
  QuantizeOptions quantize;
  EvalOptions eval;
  std::function<int()> chosen;
};

const char* const kExit = "print this help";

CLI::App* add_command(CLI::App& app, const char* name, const char* meaning) {
  CLI::App* command = app.add_subcommand(name, meaning)->group("Commands");
  command->set_help_flag();  // finish_command() puts it last
  return command;
}

/// A single value given twice: the last one counts, so that a longer command line can correct a shorter one.
void let_last_win(CLI::App* command) {
  for (CLI::Option* option : command->get_options([](CLI::Option* o) { return o->nonpositional(); }))
    if (option->get_items_expected_max() == 1) option->take_last();
}

void finish_command(CLI::App* command, const std::string& footer) {
  let_last_win(command);
  command->set_help_flag("-h,--help", kExit);
  command->footer(footer);
}

/// `command` with its model named.
template <class Options>
std::function<int()> to_run(Options& options, int (*command)(const Options&)) {
  return [&options, command] {
    options.model = model_or_default(options.model);
    return command(options);
  };
}

/// --prompt, --file and "-" exclude each other.
void choose_prompt(const CLI::App& command, RunOptions& run, const std::string& source) {
  choose_one(command,
             {{"--file", [&] { run.prompt_file.reset(); }}, {"--prompt", [&] { run.prompt.reset(); }}},
             source == "-");
  if (source == "-" && (run.prompt || run.prompt_file)) {
    throw CLI::ValidationError(std::string("the prompt comes from ") +
                                   (run.prompt_file ? "--file" : "--prompt") + "; drop the argument \"-\"",
                               CLI::ExitCodes::ExcludesError);
  }
}

/// What CLI11 can't say about the words of `carat run`.
void check_run(const CLI::App& command, RunOptions& run, std::string source) {
  if (run.model == "-" && source.empty()) std::swap(run.model, source);
  if (std::error_code ignored; run.model.find(' ') != run.model.npos &&
                               run.model.find('/') == run.model.npos &&
                               !std::filesystem::exists(run.model, ignored)) {
    throw CLI::ValidationError("no directory " + in_quotes(run.model, 60) + "; a prompt is given with -p",
                               CLI::ExitCodes::ExtrasError);
  }
  if (run.model == "-" || (!source.empty() && source != "-")) {
    throw CLI::ValidationError(
        "unexpected argument " + in_quotes(source, 60) + ": the prompt is given with -p",
        CLI::ExitCodes::ExtrasError);
  }
  choose_prompt(command, run, source);
  if (run.prompt_file == "-") {
    run.prompt_file.reset();
    source = "-";
  }
  run.prompt_from_stdin = source == "-";
}

void add_run(CLI::App& app, CommandLine& line) {
  RunOptions& o = line.run;
  CLI::App* command = add_command(app, "run", "stream the reply to a prompt, or chat");
  add_model(command, o.model);
  command->add_option("SOURCE", line.run_source)->group("");  // "-", see check_run()
  const auto text = {
      add_text(command, "-p,--prompt", o.prompt, "the prompt"),
      add_file(command, "-f,--file", o.prompt_file, "file with the prompt; - for standard input"),
      add_text(command, "--system", o.system, "what a chat model is told before the conversation"),
      command->add_flag("--raw", o.raw, "continue the text as it is, without a chat turn"),
      add_file(command, "--json-schema", o.json_schema, "file with the JSON schema that the reply satisfies"),
      command->add_flag("--think", o.generation.think,
                        "let a chat model think first; shown dimmed, not with -q"),
      command->add_flag("--show-thinking", o.show_thinking, "in a chat: thoughts in full, not folded")};
  for (CLI::Option* option : text) option->group("Prompt");
  const auto length = {
      add_count(command, "-n,--max-tokens", o.generation.max_tokens, "tokens to generate at most", 1,
                kMostTokens)
          ->capture_default_str(),
      checked(
          add_text(command, "--stop", o.generation.stop, "end the reply before this text; may be repeated"),
          not_empty("the text to stop at"))
          ->allow_extra_args(false),
      command->add_flag("--ignore-eos", o.generation.ignore_eos, "don't stop where the model does")};
  for (CLI::Option* option : length) option->group("Length");
  add_sampling_flags(command, o.generation);
  add_context_flag(command, o.engine, "tokens of prompt and reply together (default: as needed)");
  add_draft_flags(command, o.engine);
  add_device_flags(command, o.engine.device);
  command->add_flag("-q,--quiet", o.quiet, "nothing on stderr but errors")->group("Other");
  std::vector<CLI::Option*> flags =
      command->get_options([](CLI::Option* option) { return option->nonpositional(); });
  read_from_environment(command, std::move(flags));
  finish_command(command,
                 "Every option can come from the environment: CARAT_TOP_K=40 is --top-k 40.\n\n"
                 "Without a prompt, on a terminal, it chats; /help there tells more.\n\n"
                 "Examples:\n"
                 "  carat run google/gemma-4-E2B-it\n"
                 "  carat run -p \"Once upon a time\"\n"
                 "  carat run google/gemma-4-E2B-it -p \"Why is the sky blue?\" -n 200\n"
                 "  git diff | carat run google/gemma-4-E2B-it -f -");
  command->get_help_ptr()->group("Other");
  command->callback([&line, command] {
    check_run(*command, line.run, line.run_source);
    line.chosen = to_run(line.run, run_command);
  });
}

void add_batch(CLI::App& app, CommandLine& line) {
  BatchOptions& o = line.batch;
  o.engine.max_sequences = 64;
  CLI::App* command = add_command(app, "batch", "answer a file of requests, as many at once as fit");
  add_model(command, o.model);
  needed(add_file(command, "IN", o.input, "a JSON object per line, with \"prompt\" or \"messages\""));
  needed(add_file(command, "OUT", o.output,
                  "replies, a JSON object per line; what it has already isn't done again"));
  command->add_flag("--raw", o.raw, "\"prompt\" is continued as it is, without a chat turn");
  command->add_flag("--think", o.generation.think, "let a chat model think first");
  add_count(command, "-n,--max-tokens", o.generation.max_tokens, "tokens of a reply at most", 1, kMostTokens)
      ->capture_default_str();
  add_sampling_flags(command, o.generation);
  read_from_environment(command, add_engine_flags(command, o.engine));
  command->add_flag("-q,--quiet", o.quiet, "nothing on stderr but errors");
  finish_command(command,
                 "Options are for what a request doesn't say. Replies come in the order in which they end; "
                 "\"index\" is the line of the request, from 0. After an interruption the same command goes "
                 "on where it stopped.\n\n"
                 "Example:\n  carat batch google/gemma-4-E2B-it questions.jsonl answers.jsonl");
  command->callback([&, command] {
    place_arguments(*command, {&o.model, &o.input, &o.output});
    line.chosen = to_run(o, batch_command);
  });
}

std::vector<CLI::Option*> add_access_flags(CLI::App* command, ServeOptions& o) {
  std::vector<CLI::Option*> options{
      add_text(command, "--host", o.host, "address to listen on, or unix:/path")->capture_default_str(),
      add_count(command, "--port", o.port, "0 for one that is free", 0, 65535)->capture_default_str(),
      checked(add_text(command, "--alias,--served-model-name", o.names,
                       "the model's name in the API; may be repeated"),
              not_empty("a name"))
          ->allow_extra_args(false),
      command->add_flag("--any-model", o.any_model, "requests may name any model"),
      checked(add_text(command, "--api-key", o.api_keys, "ask for this key; may be repeated"),
              not_empty("a key"))
          ->allow_extra_args(false),
      add_file(command, "--api-key-file", o.api_key_file, "file with one key per line"),
      checked(add_text(command, "--cors-origins", o.cors_origins,
                       "web pages that may call the server, with commas; * for all"),
              not_empty("an origin such as https://chat.example.org"))
          ->delimiter(',')
          ->allow_extra_args(false),
      checked(add_text(command, "--allowed-hosts", o.allowed_hosts,
                       "names by which a proxy on this machine calls it, with commas"),
              not_empty("a name such as gemma.example.org"))
          ->delimiter(',')
          ->allow_extra_args(false),
      add_file(command, "--ssl-cert", o.tls_certificate, "PEM file with the certificate and its chain"),
      add_file(command, "--ssl-key", o.tls_key, "PEM file with its key"),
      command->add_flag("--strict-api", o.strict_api, "refuse requests with unknown fields"),
      command->add_flag("--allow-special", o.allow_special, "texts of clients may name control tokens")};
  for (CLI::Option* option : options) option->group("Access");
  return options;
}

std::vector<CLI::Option*> add_operation_flags(CLI::App* command, ServeOptions& o) {
  constexpr double kMostSeconds = 1e6;
  std::vector<CLI::Option*> options{
      add_count(command, "--max-queue", o.engine.max_waiting,
                "replies that may wait beyond those being computed; more are refused", 0, 1 << 20)
          ->capture_default_str(),
      add_count(command, "--max-connections", o.max_connections, "more are turned away", 1, 1 << 20)
          ->capture_default_str(),
      add_number(command, "--request-timeout", o.request_timeout_s, "seconds for a whole reply; 0: no limit",
                 0, kMostSeconds)
          ->capture_default_str(),
      add_number(command, "--drain-timeout", o.drain_timeout_s,
                 "seconds that replies under way have after SIGTERM", 0, kMostSeconds)
          ->capture_default_str(),
      add_count(command, "--io-threads", o.io_threads, "threads for the network", 1, 16)
          ->capture_default_str(),
      add_text(command, "--metrics-prefix", o.metrics_prefix, "vllm: names as dashboards know them")
          ->capture_default_str(),
      add_choice(command, "--log-level", o.log_level, "quiet, error, info or debug",
                 {"quiet", "error", "info", "debug"})
          ->capture_default_str(),
      command->add_flag("--log-json", o.log_json, "log lines as JSON")};
  for (CLI::Option* option : options) option->group("Operation");
  return options;
}

void add_serve(CLI::App& app, CommandLine& line) {
  ServeOptions& o = line.serve;
  CLI::App* command = add_command(app, "serve", "an HTTP server with OpenAI's and Anthropic's APIs");
  add_model(command, o.model);
  std::vector<CLI::Option*> flags = add_access_flags(command, o);
  for (const auto& more : {add_operation_flags(command, o), add_engine_flags(command, o.engine)})
    flags.insert(flags.end(), more.begin(), more.end());
  flags.push_back(add_devices_flag(command, o.devices));
  command->add_option(kConfigFlag, "file with options, such as port = 8000")
      ->type_name("FILE")
      ->group("Other");
  read_from_environment(command, std::move(flags));
  finish_command(command,
                 "Every option can come from a file (--config) or the environment: CARAT_PORT=8000 is "
                 "--port 8000. Flags go before the environment, and that before the file.\n\n"
                 "Examples:\n"
                 "  carat serve google/gemma-4-E2B-it\n"
                 "  curl localhost:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
                 "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Why is the sky blue?\"}], "
                 "\"max_tokens\": 200}'");
  command->callback([&, command] {
    choose_one(*command, {{"--device", [&] { o.engine.device.device = DeviceOptions().device; }},
                          {"--devices", [&] { o.devices.clear(); }}});
    line.chosen = to_run(o, serve_command);
  });
}

void add_tokenize(CLI::App& app, CommandLine& line) {
  TokenizeOptions& o = line.tokenize;
  CLI::App* command = add_command(app, "tokenize", "token ids of a text");
  add_model(command, o.model, ", or a tokenizer.json");
  CLI::Option* text = command->add_option("TEXT", o.text, "default: standard input, to its last byte");
  CLI::Option* pieces =
      command->add_flag("--pieces", o.pieces, "one line per token: id and vocabulary entry");
  command->add_flag("--no-special", o.no_special, "special tokens in the text are text");
  command->add_flag("--bos", o.bos, "put <bos> first");
  command->add_flag("--jsonl", o.jsonl, "one JSON string per line in, one JSON array of ids per line out")
      ->excludes(text)
      ->excludes(pieces);
  finish_command(command,
                 "Examples:\n  carat tokenize DIR \"Hello, world!\" --pieces\n"
                 "  carat tokenize DIR < book.txt | wc -w");
  command->callback([&] { line.chosen = to_run(o, tokenize_command); });
}

void add_inspect(CLI::App& app, CommandLine& line) {
  InspectOptions& o = line.inspect;
  CLI::App* command = add_command(app, "inspect", "what a checkpoint is and what it costs to run");
  add_model(command, o.model);
  command->add_flag("--json", o.json, "everything, layer by layer, as JSON");
  finish_command(command, "Example:\n  carat inspect google/gemma-4-E2B-it");
  command->callback([&] { line.chosen = to_run(o, inspect_command); });
}

void add_check(CLI::App& app, CommandLine& line) {
  CheckOptions& o = line.check;
  CLI::App* command = add_command(app, "check", "compare with what transformers computed");
  add_model(command, o.model);
  needed(add_file(command, "REFERENCE", o.reference, "JSON file written by tools/reference.py"));
  add_text(command, "--prompts", o.prompts, "names of the prompts to check, with commas (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_count(command, "--greedy", o.greedy, "greedy tokens to compare at most (default: all)", 0, kMostTokens);
  add_number(command, "--tolerance", o.tolerance, "largest difference of a logit", 1e-12, 1e6)
      ->capture_default_str();
  command->add_flag("--json", o.json, "the results as JSON");
  command->add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  read_from_environment(command, add_device_flags(command, o.device));
  finish_command(
      command,
      "Exit code 1 when a logit is outside the tolerance or a token differs that is no near-tie.\n\n"
      "Example:\n  carat check DIR reference.json --device cpu --prompts one,france --greedy 8");
  command->callback([&, command] {
    place_arguments(*command, {&o.model, &o.reference});
    line.chosen = to_run(o, check_command);
  });
}

void add_bench(CLI::App& app, CommandLine& line) {
  BenchOptions& o = line.bench;
  CLI::App* command = add_command(app, "bench", "measure loading, prefill and decoding");
  add_model(command, o.model);
  add_count(command, "--prompt", o.prompt, "tokens of the prompt", 1, kMostTokens)->capture_default_str();
  add_count(command, "--context", o.context,
            "tokens in the cache when decoding is timed (default: the prompt)", 1, kMostTokens);
  add_count(command, "-n,--tokens", o.tokens, "tokens to generate", 1, kMostTokens)->capture_default_str();
  add_count(command, "--batch", o.batch, "sequences at once", 1, kMostSequences)->capture_default_str();
  checked(command->add_option("--seed", o.seed, "of the random prompt"), seed_number())
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--phases", o.phases,
                    "then generate once more with the time of each phase taken, one after the other");
  command->add_flag("--json", o.json, "the results as JSON");
  command->add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  read_from_environment(command, add_device_flags(command, o.device));
  finish_command(command, "Example:\n  carat bench google/gemma-4-E2B-it --prompt 512 -n 128 --batch 4");
  command->callback([&] { line.chosen = to_run(o, bench_command); });
}

void add_quantize(CLI::App& app, CommandLine& line) {
  QuantizeOptions& o = line.quantize;
  CLI::App* command = add_command(app, "quantize", "write a copy of a checkpoint with int8 or int4 weights");
  add_needed_model(command, o.model);
  needed(
      checked(command->add_option("OUT", o.output, "directory to create"), not_empty("a directory to create"))
          ->required());
  add_choice(command, "--format", o.format, "int8 or int4; the head and per-layer embeddings keep 8 bits",
             {"int8", "int4"})
      ->capture_default_str();
  add_count(command, "-t,--threads", o.threads, "threads (default: one per core)", 0, kMostThreads);
  command->add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  finish_command(command, "Example:\n  carat quantize google/gemma-4-E2B-it gemma-4-E2B-int4 --format int4");
  command->callback([&] { line.chosen = to_run(o, quantize_command); });
}

void add_eval(CLI::App& app, CommandLine& line) {
  EvalOptions& o = line.eval;
  CLI::App* command = add_command(app, "eval", "perplexity of a text, and what a format loses");
  add_model(command, o.model);
  needed(add_file(command, "TEXT", o.text, "file; - for standard input"));
  add_choice(command, "--against", o.against, "bf16, int8 or int4: compare the predictions with this format",
             {"bf16", "int8", "int4"});
  add_count(command, "-c,--context", o.context, "tokens per window", 2, kMostTokens)->capture_default_str();
  add_count(command, "-n,--tokens", o.tokens, "of the text at most (default: all)", 0, kMostTokens);
  command->add_flag("--json", o.json, "the results as JSON");
  command->add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  read_from_environment(command, add_device_flags(command, o.device));
  finish_command(command, "Example:\n  carat eval DIR book.txt --format int4 --against bf16");
  command->callback([&, command] {
    place_arguments(*command, {&o.model, &o.text});
    line.chosen = to_run(o, eval_command);
  });
}

/// The words after the program's name; `help COMMAND` becomes `COMMAND --help`.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty() || words[0] != "help") return words;
  words.resize(std::min<std::size_t>(words.size(), 2));
  words.emplace_back("--help");
  words.erase(words.begin());
  return words;
}

/// Last one first, as CLI11 takes them. It would give "--prompt=" the word that follows, so an empty value
/// becomes a word of its own.
std::vector<std::string> reversed(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    const bool empty_value = word->starts_with("--") && word->find('=') == word->size() - 1;
    if (empty_value) result.emplace_back();
    result.push_back(word->substr(0, word->size() - empty_value));
  }
  return result;
}

int report(int code, const std::string& message) {
  print_message(message);
  return code;
}

/// Help and version go to standard output; a wrong command line is one line that names where help is.
int end_of_parsing(const CLI::App& app, const CLI::ParseError& end) {
  if (end.get_exit_code() == 0) {
    std::ostringstream text;
    app.exit(end, text);
    write_stdout(text.str());
    return 0;
  }
  const auto commands = app.get_subcommands();
  const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
  return report(kUsage, usage_message(app, end) + "; see carat" + command + " --help");
}

void add_commands(CLI::App& app, CommandLine& line) {
  app.formatter(help_formatter());
  app.set_help_flag("-h,--help", kExit);
  app.set_version_flag("--version", "carat " CARAT_VERSION, "print the version");
  app.require_subcommand(1);
  app.footer("carat COMMAND --help tells more. Try: carat run -p \"Once upon a time\"");
  add_run(app, line);
  add_batch(app, line);
  add_serve(app, line);
  add_tokenize(app, line);
  add_inspect(app, line);
  add_check(app, line);
  add_bench(app, line);
  add_quantize(app, line);
  add_eval(app, line);
}

/// A command line that is parsed to see what it says.
struct Trial {
  explicit Trial(const std::vector<std::string>& words) {
    add_commands(app, line);
    try {
      app.parse(reversed(words));
    } catch (const CLI::ParseError& error) {
      objection = usage_message(app, error);
    }
  }
  CommandLine line;
  CLI::App app;
  std::string objection;  // empty when nothing is wrong
};

/// What `carat serve` is told without a file.
CommandFacts facts_of(const Trial& typed) {
  const CLI::App* const serve = typed.app.get_subcommand("serve");
  const auto option = [serve](const std::string& name) { return serve->get_option_no_throw("--" + name); };
  return {[](const std::vector<std::string>& words) { return Trial(words).objection; },
          [serve, option](const std::string& name) {
            if (name == "device" || name == "devices")
              return serve->count("--device") + serve->count("--devices") > 0;
            return option(name) && option(name)->count() > 0;
          },
          [option](const std::string& name) {
            return option(name) && option(name)->get_items_expected_max() <= 1;
          }};
}

}  // namespace

int run_command_line(int argc, char** argv) {
  set_up_signals();
  hold_standard_streams();
  std::vector<std::string> words = words_of(argc, argv);
  CommandLine line;
  CLI::App app("Runs Google's Gemma 4 from the Hugging Face checkpoint.", "carat");
  add_commands(app, line);
  try {
    if (const std::string wrong = unknown_command(app, words); !wrong.empty()) {
      return report(kUsage, wrong + "; see carat --help");
    }
    if (words.front() == "serve") {
      const Trial typed(words);
      if (typed.objection.empty()) words = with_config_file(words, facts_of(typed), line.serve.model);
    }
    try {
      app.parse(reversed(words));
    } catch (const CLI::ParseError& end) {
      return end_of_parsing(app, end);
    }
    return line.chosen();
  } catch (const std::bad_alloc&) {
    return report(kError, "out of memory");
  } catch (const std::exception& error) {
    return report(kError, error.what());
  }
}

}  // namespace carat
