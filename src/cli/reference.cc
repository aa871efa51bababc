#include "cli/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "io/json_object.h"

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

/// The fields of one prompt, with messages that say which one is wrong.
class PromptFields {
 public:
  PromptFields(const std::string& source, const Json& fields) : source_(source), fields_(fields) {
    if (!fields.is_object()) fail(ErrorKind::corrupt, source, ": not an object");
  }

  std::vector<int32_t> ids(const char* name, int vocab) const {
    std::vector<int32_t> ids;
    for (const Json& value : array(name)) {
      if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= vocab)
        fail(ErrorKind::corrupt, source_, ".", name, "[", ids.size(), "]: ", printable(value.dump(), 40),
             " is not a token id below ", vocab,
             ", the model's vocabulary; was the reference made for another model?");
      ids.push_back(value.get<int32_t>());
    }
    return ids;
  }

  std::vector<float> numbers(const char* name) const {
    std::vector<float> numbers;
    for (const Json& value : array(name)) {
      if (!value.is_number()) fail(ErrorKind::corrupt, source_, ".", name, ": not all numbers");
      numbers.push_back(value.get<float>());
      if (!std::isfinite(numbers.back()))
        fail(ErrorKind::corrupt, source_, ".", name, ": ", value.dump(), " is no float32");
    }
    return numbers;
  }

 private:
  const Json& array(const char* name) const {
    const auto found = fields_.find(name);
    if (found == fields_.end() || !found->is_array())
      fail(ErrorKind::corrupt, source_, ": no array \"", name, "\"");
    return *found;
  }

  const std::string& source_;
  const Json& fields_;
};

/// The best tokens in order, once each, and the last argmax one of the very best.
void check_top(const std::string& source, const PromptReference& prompt) {
  const std::vector<float>& logits = prompt.top_logits;
  const auto rise = std::ranges::adjacent_find(logits, std::less());
  if (rise != logits.end())
    fail(ErrorKind::corrupt, source, ".top_logits[", rise - logits.begin() + 1,
         "]: larger than the one before; the best come first");
  std::set<int32_t> seen;
  for (const int32_t id : prompt.top_ids)
    if (!seen.insert(id).second) fail(ErrorKind::corrupt, source, ".top_ids: ", id, " is there twice");
  const auto found = std::ranges::find(prompt.top_ids, prompt.argmax.back()) - prompt.top_ids.begin();
  if (found == std::ssize(prompt.top_ids) || logits[static_cast<std::size_t>(found)] != logits.front())
    fail(ErrorKind::corrupt, source, ": the last argmax is ", prompt.argmax.back(),
         ", but top_ids begin with ", prompt.top_ids.front());
}

PromptReference read_prompt_reference(const std::string& source, const std::string& name, const Json& json,
                                      int vocab) {
  const PromptFields fields(source, json);
  PromptReference prompt{name,
                         fields.ids("ids", vocab),
                         fields.ids("argmax", vocab),
                         fields.ids("top_ids", vocab),
                         fields.numbers("top_logits"),
                         fields.ids("greedy", vocab)};
  if (prompt.ids.empty() || prompt.top_ids.empty())
    fail(ErrorKind::corrupt, source, ": empty ids or top_ids");
  if (prompt.argmax.size() != prompt.ids.size())
    fail(ErrorKind::corrupt, source, ": ", prompt.ids.size(), " ids but ", prompt.argmax.size(), " argmax");
  if (prompt.top_logits.size() != prompt.top_ids.size())
    fail(ErrorKind::corrupt, source, ": ", prompt.top_ids.size(), " top_ids but ", prompt.top_logits.size(),
         " top_logits");
  check_top(source, prompt);
  return prompt;
}

Json parse_file(const std::filesystem::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  const MappedFile file(path, kMostBytes);
  check_json(file.text(), path.string());
  return Json::parse(file.text());
}

/// What the file says of the model and the arithmetic it was made with.
void check_origin(const std::string& source, const Json& root, int vocab) {
  if (const auto size = root.find("vocab_size"); size != root.end() && *size != vocab)
    fail(ErrorKind::invalid_argument, source, ": made for another model: its vocabulary has ",
         printable(size->dump(), 40), " tokens, this model's ", vocab);
  if (const auto dtype = root.find("dtype"); dtype != root.end() && *dtype != "float32")
    fail(ErrorKind::unsupported, source, ": dtype is ", printable(dtype->dump(), 40),
         "; only a reference computed in float32 is exact enough to compare with");
}

}  // namespace

std::vector<PromptReference> read_reference(const std::filesystem::path& path, int vocab) {
  const Json root = parse_file(path);
  if (!root.is_object() || !root.contains("prompts") || !root["prompts"].is_object() ||
      root["prompts"].empty())
    fail(ErrorKind::corrupt, path.string(), ": no \"prompts\"; expected the output of tools/reference.py");
  check_origin(path.string(), root, vocab);
  std::vector<PromptReference> prompts;
  for (const auto& [name, fields] : root["prompts"].items())
    prompts.push_back(read_prompt_reference(path.string() + ": " + in_quotes(name), name, fields, vocab));
  return prompts;
}

}  // namespace carat
