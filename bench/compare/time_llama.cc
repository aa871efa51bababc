// Times llama.cpp through its library: reading a prompt, then greedy decoding one token at a time. Prints one
// JSON object. prepare.sh compiles it; compare.py runs it.
//
//   time_llama MODEL.gguf THREADS PROMPT_TOKENS TOKENS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void decode(llama_context* context, std::vector<llama_token>& tokens) {
  if (llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))) != 0) {
    std::fprintf(stderr, "llama_decode failed\n");
    std::exit(1);
  }
}

llama_token best_token(llama_context* context, int vocab) {
  const float* logits = llama_get_logits_ith(context, -1);
  return static_cast<llama_token>(std::max_element(logits, logits + vocab) - logits);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int threads = std::atoi(argv[2]), prompt = std::atoi(argv[3]), count = std::atoi(argv[4]);
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(prompt + count + 64);
  params.n_batch = params.n_ubatch = 512;
  params.n_threads = params.n_threads_batch = threads;
  llama_context* context = llama_init_from_model(model, params);
  if (!context) return 1;
  const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));

  std::vector<llama_token> first{2}, tokens{2};
  for (int i = 0; i < 3; ++i) decode(context, first);  // touches the weights, as our loading does
  llama_memory_clear(llama_get_memory(context), true);
  for (int i = 1; i < prompt; ++i) tokens.push_back(static_cast<llama_token>(1000 + i * 7919 % 200000));

  auto start = Clock::now();
  for (int i = 0; i < prompt; i += 512) {
    std::vector<llama_token> part(tokens.begin() + i, tokens.begin() + std::min(prompt, i + 512));
    decode(context, part);
  }
  std::vector<llama_token> next{best_token(context, vocab)};
  const double prefill_s = seconds_since(start);
  std::vector<double> steps;
  for (int i = 0; i < count; ++i) {
    start = Clock::now();
    decode(context, next);
    next[0] = best_token(context, vocab);
    steps.push_back(seconds_since(start));
  }
  std::nth_element(steps.begin(), steps.begin() + count / 2, steps.end());
  std::printf("{\"prefill_tok_s\": %.3f, \"median_step_ms\": %.3f}\n", prompt / prefill_s,
              1e3 * steps[count / 2]);
  llama_free(context);
  llama_model_free(model);
}
