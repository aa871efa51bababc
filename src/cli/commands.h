// The commands of the program, one .cc file each, and what they can be told. Text goes to standard output,
// everything else to standard error; a command returns its exit code and throws Error for what went wrong.
// `model` is never empty: see model_or_default().
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/engine_setup.h"
#include "carat/request.h"

namespace carat {

/// `carat run`: streams the reply to a prompt; without one, on a terminal, chats.
struct RunOptions {
  std::string model;
  EngineSetup engine;                              // engine.context = 0: what this prompt and max_tokens need
  std::optional<std::string> prompt, prompt_file;  // neither: standard input
  bool prompt_from_stdin = false;                  // asked for, so also when it is a terminal
  std::optional<std::string> system;
  std::optional<std::string> json_schema;  // a file
  ReplyOptions generation;
  bool raw = false, show_thinking = false, quiet = false;
};
int run_command(const RunOptions& options);
/// The chat of `carat run`. Standard input and standard error are a terminal.
int chat_command(const RunOptions& options);

/// `carat batch`: a file of requests, as many at once as fit, into a file of replies.
struct BatchOptions {
  std::string model, input, output;
  EngineSetup engine;
  ReplyOptions generation;  // for what a request doesn't say
  bool raw = false, quiet = false;
};
int batch_command(const BatchOptions& options);

/// `carat serve`: the HTTP server.
struct ServeOptions {
  std::string model;
  EngineSetup engine;
  std::vector<std::string> devices;  // an engine on each; empty: one on engine.device
  std::string host = "127.0.0.1";    // or unix:/path
  int port = 8080;
  std::vector<std::string> names;  // in the API; empty: what the model is called
  std::vector<std::string> api_keys, cors_origins, allowed_hosts;
  std::optional<std::string> api_key_file, tls_certificate, tls_key;
  double request_timeout_s = 600, drain_timeout_s = 30;
  int io_threads = 1, max_connections = 4096;
  std::string metrics_prefix = "carat", log_level = "info";
  bool log_json = false, any_model = false, strict_api = false, allow_special = false;
};
int serve_command(const ServeOptions& options);

/// `carat tokenize`: text -> token ids.
struct TokenizeOptions {
  std::string model;  // a directory, org/name, or a tokenizer.json
  std::optional<std::string> text;
  bool pieces = false, no_special = false, bos = false, jsonl = false;
};
int tokenize_command(const TokenizeOptions& options);

/// `carat inspect`: what a checkpoint is and what it costs to run.
struct InspectOptions {
  std::string model;
  bool json = false;
};
int inspect_command(const InspectOptions& options);

/// `carat check`: compares a backend with logits and greedy tokens that transformers computed.
struct CheckOptions {
  std::string model, reference;
  DeviceOptions device;
  std::vector<std::string> prompts;  // empty: all of the reference
  std::optional<int> greedy;         // at most this many greedy tokens; unset: all of the reference
  double tolerance = 2e-3;
  bool json = false, quiet = false;
};
int check_command(const CheckOptions& options);

/// `carat bench`: how fast a model loads, reads a prompt and generates here, beside the read bandwidth and,
/// on GPUs, the matrix rate.
struct BenchOptions {
  std::string model;
  DeviceOptions device;
  int prompt = 512;            // tokens of the prompt whose prefill is timed
  std::optional<int> context;  // tokens cached when decoding is timed; unset: the prompt
  int tokens = 64;             // generated per sequence
  int batch = 1;               // sequences at once
  uint64_t seed = 0;
  bool phases = false;  // also where a step's time goes
  bool json = false, quiet = false;
};
int bench_command(const BenchOptions& options);

/// `carat quantize`: writes a copy of a checkpoint with int8 or int4 weights.
struct QuantizeOptions {
  std::string model, output;
  std::string format = "int8";
  int threads = 0;  // 0: the cores this process may use
  bool quiet = false;
};
int quantize_command(const QuantizeOptions& options);

/// `carat eval`: perplexity of a text, and the distance to the predictions of another format.
struct EvalOptions {
  std::string model, text;  // a file, or - for standard input
  DeviceOptions device;
  std::string against;  // a format; empty: no comparison
  int context = 512;    // tokens per window
  int tokens = 0;       // of the text, at most; 0: all
  bool json = false, quiet = false;
};
int eval_command(const EvalOptions& options);

}  // namespace carat
