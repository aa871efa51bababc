#include "server/api_options.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>

namespace carat {
namespace {

constexpr int kMostStopStrings = 16;
constexpr std::size_t kMostStopBytes = 1024, kMostSaltBytes = 1024;
constexpr double kMostTemperature = 2., kMostPenalty = 100.;
constexpr int64_t kMostInt = std::numeric_limits<int32_t>::max();

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

/// {"token id": bias}, as in OpenAI's API.
std::vector<TokenBias> parse_logit_bias(const ApiFields& body, int vocab) {
  const std::optional<ApiFields> field = body.object("logit_bias");
  if (!field) return {};
  std::vector<TokenBias> biases;
  for (const jinja::Map::Entry& entry : field->map().entries()) {
    const std::string& key = entry.key.as_text()->bytes();
    int32_t token = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token);
    if (parsed.ec != std::errc{} || parsed.ptr != key.data() + key.size() || token < 0 || token >= vocab)
      bad_request("logit_bias", "logit_bias: ", in_quotes(key), " is no token id between 0 and ", vocab - 1);
    biases.push_back({token, static_cast<float>(field->number(key, -100., 100.).value_or(0.))});
  }
  return biases;
}

SamplingParams parse_sampling(const ApiFields& body, const ServedModel& model) {
  SamplingParams params = model.sampling;
  const auto set = [&](std::string_view name, double least, double most, float& value) {
    if (const auto number = body.number(name, least, most)) value = static_cast<float>(*number);
  };
  constexpr double kLeastPenalty = 1e-3;
  set("temperature", 0., kMostTemperature, params.temperature);
  set("top_p", 0., 1., params.top_p);
  set("min_p", 0., 1., params.min_p);
  set("presence_penalty", -2., 2., params.presence_penalty);
  set("frequency_penalty", -2., 2., params.frequency_penalty);
  set("repeat_penalty", kLeastPenalty, kMostPenalty, params.repetition_penalty);
  set("repetition_penalty", kLeastPenalty, kMostPenalty, params.repetition_penalty);
  if (const auto top_k = body.integer("top_k", -1, kMostInt))
    params.top_k = static_cast<int>(std::max<int64_t>(0, *top_k));  // -1 is how vLLM says "off"
  const auto seed =
      body.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  params.seed = seed ? static_cast<uint64_t>(*seed) : random_seed();
  params.logit_bias = parse_logit_bias(body, model.vocab);
  return params;
}

}  // namespace

void parse_stop(const ApiFields& body, std::string_view name, ReplyParameters& options) {
  options.stop = body.texts(name);
  if (options.stop.size() > kMostStopStrings)
    body.reject(name, "has ", options.stop.size(), " strings, the most are ", kMostStopStrings);
  for (const std::string& each : options.stop) {
    if (each.empty()) body.reject(name, "has an empty string");
    if (each.size() > kMostStopBytes)
      body.reject(name, "has a string of ", each.size(), " bytes, the most are ", kMostStopBytes);
  }
}

void parse_choices(const ApiFields& body, const ServedModel& model, ReplyParameters& options) {
  options.request.samples = static_cast<int>(body.integer("n", 1, model.most_choices).value_or(1));
  if (const auto stream_options = body.object("stream_options"))
    options.include_usage = stream_options->boolean("include_usage").value_or(false);
  options.timings = body.boolean("timings").value_or(false);
  options.return_token_ids = body.boolean("return_token_ids").value_or(false);
}

std::optional<int> parse_max_tokens(const ApiFields& body, std::initializer_list<std::string_view> names) {
  std::optional<int> result;
  for (const std::string_view name : names) {
    const auto value = body.integer(name, 0, kMostInt);
    if (value && !result) result = static_cast<int>(*value);
  }
  return result;
}

ReplyParameters parse_reply_options(const ApiFields& body, const ServedModel& model) {
  ReplyParameters options;
  Request& request = options.request;
  request.sampling = parse_sampling(body, model);
  const auto integer = [&](std::string_view name, int64_t least, int64_t most, int fallback) {
    return static_cast<int>(body.integer(name, least, most).value_or(fallback));
  };
  request.min_tokens = integer("min_tokens", 0, kMostInt, 0);
  request.priority = integer("priority", -kMostPriority, kMostPriority, 0);
  request.ignore_eos = body.boolean("ignore_eos").value_or(false);
  request.stop_tokens = body.token_ids("stop_token_ids", model.vocab);
  request.cache_salt = body.text("cache_salt").value_or("");
  if (request.cache_salt.size() > kMostSaltBytes)
    body.reject("cache_salt", "has ", request.cache_salt.size(), " bytes, the most are ", kMostSaltBytes);
  options.stream = body.boolean("stream").value_or(false);
  body.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
               "prompt_cache_retention"});
  return options;
}

Request to_request(const ReplyParameters& options, std::vector<int32_t> prompt, const std::string& field,
                   const ServedModel& model) {
  const auto context = static_cast<std::size_t>(model.engine->max_context());
  if (prompt.size() >= context) {
    throw ApiError(400, field, "context_length_exceeded",
                   "the prompt has " + std::to_string(prompt.size()) + " tokens; the context of " +
                       std::to_string(context) + " must hold it and at least one token of reply");
  }
  const int room = static_cast<int>(context - prompt.size());
  Request request = options.request;
  request.max_tokens = std::min(options.max_tokens.value_or(room), room);
  if (request.min_tokens > request.max_tokens)
    bad_request("min_tokens", "min_tokens is ", request.min_tokens, ", but the reply can have only ",
                request.max_tokens, " tokens");
  request.prompt = std::move(prompt);
  return request;
}

}  // namespace carat
