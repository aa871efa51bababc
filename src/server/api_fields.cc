#include "server/api_fields.h"

#include <algorithm>
#include <cmath>

#include "chat/json.h"

namespace carat {
namespace {

using jinja::Value;

/// Counts what stands between brackets and commas, texts aside; as many values at least come of the text.
std::size_t count_values(std::string_view json) {
  std::size_t count = 1;
  bool in_text = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '"')
      in_text = !in_text;
    else if (in_text && c == '\\')
      ++at;
    else if (!in_text && (c == ',' || c == '[' || c == '{'))
      ++count;
  }
  return count;
}

/// A number without a fraction is an integer, however it was written.
std::optional<int64_t> whole_number(const Value& value) {
  if (const int64_t* integer = value.as_integer()) return *integer;
  constexpr double kExact = 9007199254740992.;  // 2^53
  const double* number = value.as_number();
  if (number && std::abs(*number) <= kExact && std::trunc(*number) == *number)
    return static_cast<int64_t>(*number);
  return std::nullopt;
}

}  // namespace

Value parse_body(std::string_view body, Origin origin) {
  if (body.empty()) bad_request("", "the body is empty; it must be a JSON object");
  if (count_values(body) > kMostJsonValues)
    bad_request("", "the body has more than ", kMostJsonValues, " JSON values");
  try {
    Value value = jinja::parse_json(body, origin, "the body");
    if (!value.as_map()) bad_request("", "the body is ", value.type_name(), ", expected a JSON object");
    return value;
  } catch (const Error& error) {
    bad_request("", error.what());
  }
}

std::string element_path(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

ApiFields::ApiFields(Value object, std::string path) : object_(std::move(object)), path_(std::move(path)) {
  if (!object_.as_map()) bad_request(path_, path_, " is ", object_.type_name(), ", expected an object");
}

std::string ApiFields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const Value* ApiFields::find(std::string_view name) const {
  known_.emplace(name);
  const Value* value = map().find(name);
  return value && !value->is_none() ? value : nullptr;
}

std::optional<bool> ApiFields::boolean(std::string_view name) const {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  if (!value->as_boolean()) reject(name, "is ", value->type_name(), ", expected true or false");
  return *value->as_boolean();
}

std::optional<int64_t> ApiFields::integer(std::string_view name, int64_t least, int64_t most) const {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  const std::optional<int64_t> integer = whole_number(*value);
  if (!integer && !value->as_number())
    reject(name, "is ", value->type_name(), ", expected an integer between ", least, " and ", most);
  if (!integer || *integer < least || *integer > most)
    reject(name, "is ", jinja::to_text(*value).bytes(), ", must be an integer between ", least, " and ",
           most);
  return integer;
}

std::optional<double> ApiFields::number(std::string_view name, double least, double most) const {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  if (!value->as_number() && !value->as_integer())
    reject(name, "is ", value->type_name(), ", expected a number between ", least, " and ", most);
  const double number = value->as_number() ? *value->as_number() : static_cast<double>(*value->as_integer());
  if (!(number >= least && number <= most))
    reject(name, "is ", number, ", must be between ", least, " and ", most);
  return number;
}

std::optional<std::string> ApiFields::text(std::string_view name) const {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  if (!value->as_text()) reject(name, "is ", value->type_name(), ", expected a string");
  return value->as_text()->bytes();
}

Value ApiFields::required(std::string_view name) const {
  const Value* value = find(name);
  if (!value) reject(name, "is missing");
  return *value;
}

Value ApiFields::required_map(std::string_view name) const {
  if (!object(name)) reject(name, "is missing");
  return *find(name);
}

Value ApiFields::required_text_value(std::string_view name) const {
  if (!text(name)) reject(name, "is missing");
  return *find(name);
}

std::string ApiFields::required_text(std::string_view name) const {
  return required_text_value(name).as_text()->bytes();
}

std::string ApiFields::required_one_of(std::string_view name,
                                       std::initializer_list<std::string_view> allowed) const {
  std::optional<std::string> value = one_of(name, allowed);
  if (!value) reject(name, "is missing");
  return *std::move(value);
}

std::optional<std::string> ApiFields::one_of(std::string_view name,
                                             std::initializer_list<std::string_view> allowed) const {
  std::optional<std::string> value = text(name);
  if (!value || std::ranges::find(allowed, *value) != allowed.end()) return value;
  std::string names;
  for (const std::string_view each : allowed) names += (names.empty() ? "" : ", ") + std::string(each);
  reject(name, "is ", in_quotes(*value), ", expected one of ", names);
}

std::optional<ApiFields> ApiFields::object(std::string_view name) const {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  return ApiFields(*value, path(name));
}

const std::vector<Value>* ApiFields::list(std::string_view name) const {
  const Value* value = find(name);
  if (!value) return nullptr;
  if (!value->as_list()) reject(name, "is ", value->type_name(), ", expected a list");
  return &value->as_list()->items;
}

std::vector<std::string> ApiFields::texts(std::string_view name) const {
  const Value* value = find(name);
  if (!value) return {};
  if (value->as_text()) return {value->as_text()->bytes()};
  std::vector<std::string> texts;
  for (const Value& item : *list(name)) {
    if (!item.as_text())
      bad_request(element_path(path(name), texts.size()), element_path(path(name), texts.size()), " is ",
                  item.type_name(), ", expected a string");
    texts.push_back(item.as_text()->bytes());
  }
  return texts;
}

std::vector<int32_t> token_ids(const std::vector<Value>& list, const std::string& path, int vocab) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Value& item : list) {
    const std::optional<int64_t> id = whole_number(item);
    if (!id || *id < 0 || *id >= vocab) {
      const std::string where = element_path(path, ids.size());
      bad_request(where, where, " is ", id ? std::to_string(*id) : std::string(item.type_name()),
                  ", expected a token id between 0 and ", vocab - 1);
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

std::vector<int32_t> ApiFields::token_ids(std::string_view name, int vocab) const {
  const std::vector<Value>* items = list(name);
  return items ? carat::token_ids(*items, path(name), vocab) : std::vector<int32_t>{};
}

void ApiFields::ignore(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) known_.emplace(name);
}

void ApiFields::ignore_fields_of_replies() const {
  for (const jinja::Map::Entry& entry : map().entries()) {
    const std::string& name = entry.key.as_text()->bytes();
    if (shapes_only_the_reply(name)) known_.insert(name);
  }
}

void ApiFields::refuse_rest(bool strict) const {
  for (const jinja::Map::Entry& entry : map().entries()) {
    const std::string& name = entry.key.as_text()->bytes();
    if (known_.contains(name) || entry.value.is_none()) continue;
    if (asks_for_something(name, entry.value, known_)) {
      const std::string_view instead = same_meaning(name, known_);
      reject(name, "means nothing at this endpoint", instead.empty() ? "" : "; use ", instead);
    }
    if (strict && !is_known_field(name)) bad_request(path(name), "unknown field ", in_quotes(path(name)));
  }
}

}  // namespace carat
