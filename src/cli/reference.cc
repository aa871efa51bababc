#include "cli/reference.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"

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
             " is not a token id below ", vocab, ", the model's vocabulary");
      ids.push_back(value.get<int32_t>());
    }
    return ids;
  }

  std::vector<float> numbers(const char* name) const {
    std::vector<float> numbers;
    for (const Json& value : array(name)) {
      if (!value.is_number()) fail(ErrorKind::corrupt, source_, ".", name, ": not all numbers");
      numbers.push_back(value.get<float>());
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
  return prompt;
}

Json parse_file(const std::filesystem::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  const MappedFile file(path, kMostBytes);
  try {
    return Json::parse(file.text());
  } catch (const Json::parse_error& error) {
    fail(ErrorKind::corrupt, path.string(), ": not valid JSON at byte ",
         std::min(error.byte, file.text().size()), " of ", file.text().size());
  } catch (const Json::exception&) {
    fail(ErrorKind::corrupt, path.string(), ": not valid JSON: a number is too large");
  }
}

}  // namespace

std::vector<PromptReference> read_reference(const std::filesystem::path& path, int vocab) {
  const Json root = parse_file(path);
  if (!root.is_object() || !root.contains("prompts") || !root["prompts"].is_object() ||
      root["prompts"].empty())
    fail(ErrorKind::corrupt, path.string(), ": no \"prompts\"; expected the output of tools/reference.py");
  std::vector<PromptReference> prompts;
  for (const auto& [name, fields] : root["prompts"].items())
    prompts.push_back(read_prompt_reference(path.string() + ": " + in_quotes(name), name, fields, vocab));
  return prompts;
}

}  // namespace carat
