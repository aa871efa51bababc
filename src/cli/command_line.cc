#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <new>

#include "base/error.h"
#include "cli/commands.h"

namespace carat {
namespace {

constexpr int kError = 1, kUsage = 2;

/// All commands: one is parsed, then run.
struct CommandLine {
  RunOptions run;
  std::string run_source;
  TokenizeOptions tokenize;
  InspectOptions inspect;
  CheckOptions check;
  BenchOptions bench;
  QuantizeOptions quantize;
  EvalOptions eval;
  std::function<int()> chosen;
};

const char* const kModelHelp = "directory, or org/name in the Hugging Face cache";

/// The option can come from the environment too: --top-k from CARAT_TOP_K. Flags win.
void read_from_environment(CLI::Option* option) {
  std::string name = "CARAT_" + option->get_lnames().front();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  option->envname(name);
}

void add_device_flags(CLI::App* command, DeviceOptions& device) {
  const CLI::Validator known(
      [](std::string& name) {
        return is_device_name(name) ? std::string() : name + " is none of cpu, ref, cuda:N";
      },
      "cpu|ref|cuda:N", "device");
  const auto options = {
      command->add_option("--device", device.device, "what computes")->check(known)->capture_default_str(),
      command->add_option("-t,--threads", device.threads, "cpu: threads; 0 for all cores")
          ->check(CLI::NonNegativeNumber),
      command
          ->add_option("--format", device.format, "cpu: weights as bf16, int8 or int4 (default: as stored)")
          ->check(CLI::IsMember({"bf16", "int8", "int4"})),
      command->add_option("--isa", device.isa, "cpu: instruction set (default: the best here)")
          ->check(CLI::IsMember({"scalar", "avx2", "avx512", "neon"})),
      command->add_flag("--mmap", device.mmap, "cpu: read the files in place instead of repacking them")};
  for (CLI::Option* option : options) read_from_environment(option);
}

void add_run(CLI::App& app, CommandLine& line) {
  RunOptions& o = line.run;
  CLI::App* command = app.add_subcommand("run", "stream the reply to a prompt");
  command->add_option("MODEL", o.model, std::string(kModelHelp) + " (default: the bundled demo)");
  CLI::Option* source =
      command->add_option("SOURCE", line.run_source, "- reads the prompt from standard input")
          ->type_name("-");
  CLI::Option* prompt = command->add_option("-p,--prompt", o.prompt, "the prompt")->excludes(source);
  command->add_option("-f,--file", o.prompt_file, "file with the prompt")->excludes(source)->excludes(prompt);
  command->add_option("-n,--max-tokens", o.max_tokens, "tokens to generate at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("-c,--context,--ctx-size,--max-model-len", o.context,
                   "tokens of prompt and reply together (default: as many as needed)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--temp,--temperature", o.temperature,
                   "0 for greedy (sampling defaults: the checkpoint's)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--top-k", o.top_k, "draw from the K likeliest; 0 for all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--top-p", o.top_p, "draw from the likeliest that have this probability together")
      ->check(CLI::Range(0., 1.));
  command->add_option("--min-p", o.min_p, "draw from those this likely relative to the best")
      ->check(CLI::Range(0., 1.));
  command->add_option("--repeat-penalty", o.repetition_penalty, "1 for none")->check(CLI::PositiveNumber);
  command->add_option("--seed", o.seed, "same seed, same text (default: random)");
  command->add_option("--stop", o.stop, "end the reply before this text; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--raw", o.raw, "continue the text as it is, without a chat turn");
  command->add_flag("--ignore-eos", o.ignore_eos, "don't stop where the model does");
  command->add_flag("-q,--quiet", o.quiet, "nothing on stderr but errors");
  for (CLI::Option* option : command->get_options())
    if (!option->get_lnames().empty() && option != command->get_help_ptr()) read_from_environment(option);
  add_device_flags(command, o.device);
  command->footer(
      "Examples:\n"
      "  carat run -p \"Once upon a time\"\n"
      "  carat run google/gemma-4-E2B-it -p \"Why is the sky blue?\" -n 200\n"
      "  git diff | carat run google/gemma-4-E2B-it -f -");
  command->callback([&line] {
    RunOptions& run = line.run;
    if (run.model == "-" && line.run_source.empty()) std::swap(run.model, line.run_source);
    if (run.prompt_file == "-") {
      run.prompt_file.reset();
      line.run_source = "-";
    }
    if (!line.run_source.empty() && line.run_source != "-")
      throw CLI::ExtrasError("run", {line.run_source + " (the prompt is given with -p)"});
    run.prompt_from_stdin = line.run_source == "-";
    line.chosen = [&run] { return run_command(run); };
  });
}

void add_tokenize(CLI::App& app, CommandLine& line) {
  TokenizeOptions& o = line.tokenize;
  CLI::App* command = app.add_subcommand("tokenize", "token ids of a text");
  command->add_option("MODEL", o.model, std::string(kModelHelp) + ", or a tokenizer.json")->required();
  CLI::Option* text = command->add_option("TEXT", o.text, "default: standard input, to its last byte");
  CLI::Option* pieces =
      command->add_flag("--pieces", o.pieces, "one line per token: id and vocabulary entry");
  command->add_flag("--no-special", o.no_special, "special tokens in the text are text");
  command->add_flag("--bos", o.bos, "put <bos> first");
  command
      ->add_flag("--jsonl", o.jsonl, "one JSON string per input line, one JSON array of ids per output line")
      ->excludes(text)
      ->excludes(pieces);
  command->footer(
      "Examples:\n  carat tokenize DIR \"Hello, world!\" --pieces\n  carat tokenize DIR < book.txt | wc -w");
  command->callback([&] { line.chosen = [&o] { return tokenize_command(o); }; });
}

void add_inspect(CLI::App& app, CommandLine& line) {
  InspectOptions& o = line.inspect;
  CLI::App* command = app.add_subcommand("inspect", "what a checkpoint is and what it costs to run");
  command->add_option("MODEL", o.model, kModelHelp)->required();
  command->add_flag("--json", o.json, "everything, layer by layer, as JSON");
  command->footer("Example:\n  carat inspect google/gemma-4-E2B-it");
  command->callback([&] { line.chosen = [&o] { return inspect_command(o); }; });
}

void add_check(CLI::App& app, CommandLine& line) {
  CheckOptions& o = line.check;
  CLI::App* command = app.add_subcommand("check", "compare with what transformers computed");
  command->add_option("MODEL", o.model, kModelHelp)->required();
  command->add_option("REFERENCE", o.reference, "JSON file written by tools/reference.py")->required();
  command->add_option("--prompts", o.prompts, "names of the prompts to check (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--greedy", o.greedy, "greedy tokens to compare at most (default: all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--tolerance", o.tolerance, "largest difference of a logit")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--json", o.json, "the results as JSON");
  command->add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  add_device_flags(command, o.device);
  command->footer(
      "Exit code 1 when a logit is outside the tolerance or a token differs that is no near-tie.\n"
      "Example:\n  carat check DIR reference.json --device cpu --prompts one,france --greedy 8");
  command->callback([&] { line.chosen = [&o] { return check_command(o); }; });
}

void add_bench(CLI::App& app, CommandLine& line) {
  BenchOptions& o = line.bench;
  CLI::App* command = app.add_subcommand("bench", "measure loading, prefill and decoding");
  command->add_option("MODEL", o.model, kModelHelp)->required();
  command->add_option("--prompt", o.prompt, "tokens of the prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--context", o.context, "tokens in the cache when decoding is timed (default: the prompt)")
      ->check(CLI::PositiveNumber);
  command->add_option("-n,--tokens", o.tokens, "tokens to generate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--batch", o.batch, "sequences at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seed", o.seed, "of the random prompt")->capture_default_str();
  command->add_flag("--json", o.json, "the results as JSON");
  command->add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  add_device_flags(command, o.device);
  command->footer("Example:\n  carat bench google/gemma-4-E2B-it --prompt 512 -n 128 --batch 4");
  command->callback([&] { line.chosen = [&o] { return bench_command(o); }; });
}

void add_quantize(CLI::App& app, CommandLine& line) {
  QuantizeOptions& o = line.quantize;
  CLI::App* command =
      app.add_subcommand("quantize", "write a copy of a checkpoint with int8 or int4 weights");
  command->add_option("MODEL", o.model, kModelHelp)->required();
  command->add_option("OUT", o.output, "directory to create")->required();
  command->add_option("--format", o.format, "of the matrices; the head and per-layer embeddings keep 8 bits")
      ->check(CLI::IsMember({"int8", "int4"}))
      ->capture_default_str();
  command->add_option("-t,--threads", o.threads, "0 for all cores")->check(CLI::NonNegativeNumber);
  command->add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  command->footer("Example:\n  carat quantize google/gemma-4-E2B-it gemma-4-E2B-int4 --format int4");
  command->callback([&] { line.chosen = [&o] { return quantize_command(o); }; });
}

void add_eval(CLI::App& app, CommandLine& line) {
  EvalOptions& o = line.eval;
  CLI::App* command = app.add_subcommand("eval", "perplexity of a text, and what a format loses");
  command->add_option("MODEL", o.model, kModelHelp)->required();
  command->add_option("TEXT", o.text, "file; - for standard input")->required();
  command->add_option("--against", o.against, "format to compare the predictions with")
      ->check(CLI::IsMember({"bf16", "int8", "int4"}));
  command->add_option("-c,--context", o.context, "tokens per window")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("-n,--tokens", o.tokens, "of the text at most; 0 for all")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", o.json, "the results as JSON");
  command->add_flag("-q,--quiet", o.quiet, "no progress on stderr");
  add_device_flags(command, o.device);
  command->footer("Example:\n  carat eval DIR book.txt --format int4 --against bf16");
  command->callback([&] { line.chosen = [&o] { return eval_command(o); }; });
}

int report(int code, const char* message) {
  std::fprintf(stderr, "carat: %s\n", message);
  return code;
}

/// Help and version go to standard output; a wrong command line is one line that names where help is.
int end_of_parsing(const CLI::App& app, const CLI::ParseError& end) {
  if (end.get_exit_code() == 0) return app.exit(end);
  const auto commands = app.get_subcommands();
  const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
  return report(kUsage, (std::string(end.what()) + "; see carat" + command + " --help").c_str());
}

}  // namespace

int run_command_line(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a result of write_stdout()
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a write that fails
  CommandLine line;
  CLI::App app("Runs Google's Gemma 4 from the Hugging Face checkpoint.", "carat");
  app.set_version_flag("--version", "carat " CARAT_VERSION);
  app.require_subcommand(1);
  app.footer("carat COMMAND --help tells more. Try: carat run -p \"Once upon a time\"");
  add_run(app, line);
  add_tokenize(app, line);
  add_inspect(app, line);
  add_check(app, line);
  add_bench(app, line);
  add_quantize(app, line);
  add_eval(app, line);
  try {
    app.parse(argc, argv);
    return line.chosen();
  } catch (const CLI::ParseError& end) {
    return end_of_parsing(app, end);
  } catch (const std::bad_alloc&) {
    return report(kError, "out of memory");
  } catch (const std::exception& error) {
    return report(kError, error.what());
  }
}

}  // namespace carat
