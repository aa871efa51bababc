// generation_config.json: the sampling defaults that a checkpoint recommends. Declared in model_config.h.
#include <limits>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "io/json_object.h"
#include "io/model_config.h"

namespace carat {

GenerationConfig parse_generation_config(std::string_view json, const std::string& source_name, int vocab) {
  const JsonObject file = JsonObject::parse(json, source_name);
  const auto number = [&](const char* field, Range<float> range) -> std::optional<float> {
    if (!file.has(field)) return std::nullopt;
    return file.number(field, 0.f, range);
  };
  const auto integer = [&](const char* field, Range<int> range) -> std::optional<int> {
    if (!file.has(field)) return std::nullopt;
    return file.integer(field, 0, range);
  };
  const auto token = [&](const char* field) -> std::optional<int> {
    const std::vector<int> ids = file.token_ids(field, vocab);
    if (ids.size() > 1) file.reject(ErrorKind::corrupt, field, "must be one token id");
    return ids.empty() ? std::nullopt : std::optional<int>(ids.front());
  };
  GenerationConfig config;
  if (file.has("do_sample")) config.do_sample = file.boolean("do_sample", false);
  config.temperature = number("temperature", {0.f, 1e4f});
  config.top_p = number("top_p", {0.f, 1.f});
  config.min_p = number("min_p", {0.f, 1.f});
  config.repetition_penalty = number("repetition_penalty", {1e-3f, 1e3f});
  config.top_k = integer("top_k", {0, std::numeric_limits<int>::max()});
  config.bos_token_id = token("bos_token_id");
  config.pad_token_id = token("pad_token_id");
  config.eos_token_ids = file.token_ids("eos_token_id", vocab);
  config.suppress_tokens = file.token_ids("suppress_tokens", vocab);
  const std::set<int> suppressed(config.suppress_tokens.begin(), config.suppress_tokens.end());
  if (suppressed.size() == static_cast<std::size_t>(vocab)) {
    file.reject(ErrorKind::invalid_argument, "suppress_tokens", "they cover the whole vocabulary of ", vocab,
                ", so no token could ever be drawn");
  }
  return config;
}

GenerationConfig load_generation_config(const std::filesystem::path& directory, int vocab) {
  const std::filesystem::path path = directory / "generation_config.json";
  std::error_code ignored;
  // A dangling link is there: opening it says so, instead of silently running with other defaults.
  if (std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::not_found)
    return {};
  const MappedFile file(path, kMostConfigBytes);
  return parse_generation_config(file.text(), path.string(), vocab);
}

}  // namespace carat
