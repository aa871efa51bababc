// How a model is loaded.
#pragma once
#include <functional>
#include <string>

namespace carat {
inline namespace v1 {

/// How a model is loaded and how much its engine may hold.
struct ModelOptions {
  std::string device = "cpu";  // "cpu", "cuda:N", or "ref": slow, exact, for comparison
  int threads = 0;             // cpu: 0 for the cores this process may use
  std::string isa = {};        // cpu: "scalar", "avx2", "avx512", "neon"; empty: the best here
  std::string format = {};     // "bf16", "int8", "int4"; empty: as stored
  bool mmap = false;           // cpu: read the files in place instead of repacking them
  /// For K and V: a share of what is free beside the weights ("0.9") or an amount ("8GiB"). Empty: half of
  /// the machine's, nine tenths of a GPU's.
  std::string kv_memory = {};
  /// K and V as "f32" (cpu, ref), "f16" (cpu, cuda) or "int8"; empty: as exact as the weights.
  std::string kv_type = {};
  int context = 0;         // tokens of the longest prompt plus reply; 0: as long as model and memory allow
  int max_sequences = 16;  // replies computed at once; more wait their turn
  /// Tokens of one pass over the weights, of all requests together; 0: as many as suit the device.
  int max_step_tokens = 0;
  bool prefix_cache = true;  // what a text shares with an earlier one isn't computed again
  /// Guess ahead: "ngram", "suffix" or the directory of a drafter; changes the speed, never a reply.
  std::string draft = {};
  int draft_tokens = 8;                                          // guesses per step, at most
  std::function<void(double fraction)> progress = {};            // of loading; called by load()
  std::function<void(const std::string& warning)> warning = {};  // doubtful things in the checkpoint's files
};

}  // namespace v1
}  // namespace carat
