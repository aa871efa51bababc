#include "io/json_object.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/utf8.h"

namespace carat {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

const json& as_json(const void* value) { return *static_cast<const json*>(value); }

/// Null when absent.
const json* find(const void* object, std::string_view name) {
  const auto found = as_json(object).find(name);
  return found == as_json(object).end() ? nullptr : &*found;
}

/// The line around byte `at`, so that the message shows the field whatever was wrong with it.
std::string_view line_at(std::string_view text, std::size_t at) {
  at = std::min(at, text.size());
  const std::size_t newline = at == 0 ? text.npos : text.rfind('\n', at - 1);
  std::size_t first = newline == text.npos ? 0 : newline + 1;
  first = std::max(first, at > 60 ? at - 60 : 0);
  first = std::min(text.find_first_not_of(" \t", first), at);
  const std::size_t last = std::min({text.find('\n', at), text.size(), at + 20});
  return text.substr(first, last - first);
}

/// Refuses what the library would accept: a key twice in one object, and nesting without end.
class StrictParse {
 public:
  explicit StrictParse(const std::string& source) : source_(source) {}
  bool operator()(int depth, json::parse_event_t event, const json& value) {
    if (depth > kMaxDepth) fail(ErrorKind::corrupt, source_, ": nested deeper than ", kMaxDepth, " levels");
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        fail(ErrorKind::corrupt, source_, ": ", in_quotes(key), " is there twice");
    }
    return true;
  }

 private:
  const std::string& source_;
  std::vector<std::unordered_set<std::string>> keys_;
};

json parse_strictly(std::string_view text, const std::string& source) {
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {  // the library takes it for the end
    fail(ErrorKind::corrupt, source, ": not valid JSON: byte ", nul, " is 0");
  }
  if (text.find_first_not_of(" \t\r\n") == text.npos) {
    fail(ErrorKind::corrupt, source,
         text.empty() ? ": not valid JSON: the file is empty"
                      : ": not valid JSON: nothing but blanks in the file");
  }
  try {
    StrictParse strict(source);
    return json::parse(text.begin(), text.end(), std::ref(strict));
  } catch (const json::parse_error& error) {
    if (error.byte > text.size()) {
      fail(ErrorKind::corrupt, source, ": not valid JSON: the file ends too early, after ", text.size(),
           " bytes");
    }
    fail(ErrorKind::corrupt, source, ": not valid JSON near byte ", error.byte, ": ",
         in_quotes(line_at(text, error.byte)));
  } catch (const json::exception&) {
    fail(ErrorKind::corrupt, source, ": not valid JSON: a number is too large");
  }
}

}  // namespace

void check_json(std::string_view text, const std::string& source) { parse_strictly(text, source); }

JsonObject JsonObject::parse(std::string_view text, const std::string& source) {
  JsonObject root;
  root.source_ = source;
  const auto document = std::make_shared<json>(parse_strictly(text, source));
  root.document_ = document;
  root.value_ = document.get();
  if (!as_json(root.value_).is_object()) fail(ErrorKind::corrupt, source, ": not a JSON object");
  return root;
}

bool JsonObject::has(std::string_view name) const {
  const json* value = find(value_, name);
  return value && !value->is_null();
}

bool JsonObject::is_null(std::string_view name) const {
  const json* value = find(value_, name);
  return value && value->is_null();
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> names;
  for (const auto& item : as_json(value_).items()) names.push_back(item.key());
  return names;
}

namespace {

/// The value as an int, when it is one.
bool to_int(const json& value, int& out) {
  if (!value.is_number_integer()) return false;
  // Unsigned numbers beyond int64 would wrap: clamp them, the range check refuses them anyway.
  const int64_t wide = value.is_number_unsigned()
                           ? static_cast<int64_t>(std::min<uint64_t>(value.get<uint64_t>(), INT64_MAX))
                           : value.get<int64_t>();
  out = static_cast<int>(std::clamp<int64_t>(wide, INT32_MIN, INT32_MAX));
  return true;
}

}  // namespace

int JsonObject::integer(std::string_view name, int fallback, Range<int> range) const {
  const json* value = find(value_, name);
  if (!value) return fallback;
  int number = 0;
  if (!to_int(*value, number)) reject(ErrorKind::corrupt, name, "must be an integer");
  if (number < range.least || number > range.most) {
    reject(ErrorKind::invalid_argument, name, "must be from ", range.least, " to ", range.most);
  }
  return number;
}

float JsonObject::number(std::string_view name, float fallback, Range<float> range) const {
  const json* value = find(value_, name);
  if (!value) return fallback;
  if (!value->is_number()) reject(ErrorKind::corrupt, name, "must be a number");
  const auto number = value->get<double>();
  if (!(number >= double{range.least} && number <= double{range.most})) {
    reject(ErrorKind::invalid_argument, name, "must be from ", range.least, " to ", range.most);
  }
  return static_cast<float>(number);
}

bool JsonObject::boolean(std::string_view name, bool fallback) const {
  const json* value = find(value_, name);
  if (!value) return fallback;
  if (!value->is_boolean()) reject(ErrorKind::corrupt, name, "must be true or false");
  return value->get<bool>();
}

std::string JsonObject::string(std::string_view name, std::string_view fallback) const {
  const json* value = find(value_, name);
  if (!value) return std::string(fallback);
  if (!value->is_string()) reject(ErrorKind::corrupt, name, "must be a text");
  return value->get<std::string>();
}

JsonObject JsonObject::object(std::string_view name) const {
  const json* value = find(value_, name);
  if (!value) fail(ErrorKind::corrupt, where(name), ": missing");
  if (!value->is_object()) reject(ErrorKind::corrupt, name, "must be an object");
  JsonObject child = *this;
  child.value_ = value;
  child.prefix_ = prefix_ + std::string(name) + ".";
  return child;
}

std::vector<JsonObject> JsonObject::objects(std::string_view name) const {
  const json* value = find(value_, name);
  std::vector<JsonObject> result;
  if (!value || !value->is_array()) return result;
  for (const json& item : *value) {
    const std::string place = std::string(name) + "[" + std::to_string(result.size()) + "]";
    if (!item.is_object()) fail(ErrorKind::corrupt, where(place), ": must be an object");
    result.push_back(*this);
    result.back().value_ = &item;
    result.back().prefix_ = prefix_ + place + ".";
  }
  return result;
}

std::vector<std::string> JsonObject::strings(std::string_view name) const {
  std::vector<std::string> result;
  if (!has(name)) return result;
  const json& list = *find(value_, name);
  if (!list.is_array()) reject(ErrorKind::corrupt, name, "must be a list of texts");
  for (const json& item : list) {
    if (!item.is_string()) reject(ErrorKind::corrupt, name, "must be a list of texts");
    result.push_back(item.get<std::string>());
  }
  return result;
}

std::vector<int> JsonObject::integers(std::string_view name, Range<int> range) const {
  if (!has(name)) return {};
  const json& value = *find(value_, name);
  if (!value.is_array()) return {integer(name, 0, range)};
  std::vector<int> result;
  for (const json& item : value) {
    int number = 0;
    if (!to_int(item, number)) reject(ErrorKind::corrupt, name, "must be an integer or a list of integers");
    if (number < range.least || number > range.most) {
      reject(ErrorKind::invalid_argument, name, item.dump(), " is not from ", range.least, " to ",
             range.most);
    }
    result.push_back(number);
  }
  return result;
}

std::vector<int> JsonObject::token_ids(std::string_view name, int vocab) const {
  if (!has(name)) return {};
  const json& value = *find(value_, name);
  std::vector<int> result;
  const auto add = [&](const json& item, const std::string& place) {
    int id = 0;
    if (!to_int(item, id) || id < 0 || id >= vocab) {
      fail(ErrorKind::invalid_argument, where(place), " = ", printable(item.dump(), 40),
           ": not a token id; the vocabulary of ", vocab, " has the ids 0 to ", vocab - 1);
    }
    result.push_back(id);
  };
  if (!value.is_array()) {
    add(value, std::string(name));
    return result;
  }
  for (const json& item : value) {
    add(item, std::string(name) + "[" + std::to_string(result.size()) + "]");
  }
  return result;
}

std::string JsonObject::where(std::string_view name) const {
  std::string field = in_quotes(prefix_ + std::string(name));
  return source_ + ": " + field.substr(1, field.size() - 2);
}

std::string JsonObject::shown(std::string_view name) const {
  const json* value = find(value_, name);
  if (!value) return "(absent)";
  if (value->is_object()) return "{...}";
  if (value->is_array()) return "[" + std::to_string(value->size()) + " values]";
  if (value->is_string()) return in_quotes(value->get_ref<const std::string&>());
  return value->dump();
}

}  // namespace carat
