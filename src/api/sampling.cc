#include "api/sampling.h"

#include <random>

namespace carat {

SamplingParams sampling_params(const ReplyOptions& options, const GenerationConfig& defaults) {
  SamplingParams params;
  params.temperature =
      options.temperature.value_or(defaults.do_sample ? defaults.temperature.value_or(1.f) : 0.f);
  params.top_k = options.top_k.value_or(defaults.top_k.value_or(params.top_k));
  params.top_p = options.top_p.value_or(defaults.top_p.value_or(params.top_p));
  params.min_p = options.min_p.value_or(defaults.min_p.value_or(params.min_p));
  params.repetition_penalty =
      options.repetition_penalty.value_or(defaults.repetition_penalty.value_or(params.repetition_penalty));
  params.presence_penalty = options.presence_penalty;
  params.frequency_penalty = options.frequency_penalty;
  for (const auto& [token, bias] : options.logit_bias) params.logit_bias.push_back({token, bias});
  params.seed = options.seed ? *options.seed : std::random_device{}();
  return params;
}

Request engine_request(const ReplyOptions& options, const GenerationConfig& defaults) {
  Request request;
  request.sampling = sampling_params(options, defaults);
  request.max_tokens = options.max_tokens;
  request.ignore_eos = options.ignore_eos;
  request.logprobs = options.logprobs;
  request.priority = options.priority;
  request.cache_salt = options.cache_salt;
  return request;
}

}  // namespace carat
