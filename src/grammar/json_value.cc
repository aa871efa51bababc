#include "grammar/json_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

namespace carat::grammar {
namespace {

using Json = nlohmann::json;
using Type = JsonValue::Type;

class Reader final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({Type::boolean, value}); }
  bool number_integer(number_integer_t value) override { return add_number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add_number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& spelling) override { return add_number(spelling); }
  bool string(string_t& value) override { return add({Type::text, false, value}); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return begin(Type::object); }
  bool start_array(std::size_t) override { return begin(Type::array); }
  bool key(string_t& name) override {
    if (!open_.back().names.insert(name).second)
      throw std::invalid_argument("has the name \"" + name + "\" twice in an object");
    open_.back().name = name;
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception&) override {
    throw std::invalid_argument("is not JSON from byte " + std::to_string(byte) + " on");
  }

  JsonValue take() { return std::move(root_); }

 private:
  struct Open {
    JsonValue value;
    std::string name;  // of the member that comes
    std::set<std::string> names;
  };

  bool add_number(std::string spelling) { return add({Type::number, false, std::move(spelling)}); }
  bool begin(Type type) {
    if (open_.size() >= JsonValue::kMaxDepth)
      throw std::invalid_argument("is nested deeper than " + std::to_string(JsonValue::kMaxDepth) +
                                  " levels");
    open_.push_back({{type}, {}, {}});
    return true;
  }
  bool end() {
    JsonValue value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }
  bool add(JsonValue value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().value.is(Type::object))
      open_.back().value.members.push_back({open_.back().name, std::move(value)});
    else
      open_.back().value.items.push_back(std::move(value));
    return true;
  }

  JsonValue root_;
  std::vector<Open> open_;
};

}  // namespace

JsonValue::JsonValue(Type its_type, bool its_boolean, std::string its_text)
    : type(its_type), boolean(its_boolean), text(std::move(its_text)) {}

JsonValue JsonValue::parse(std::string_view json) {
  Reader reader;
  Json::sax_parse(json, &reader);
  return reader.take();
}

const JsonValue* JsonValue::find(std::string_view name) const {
  const auto found = std::ranges::find(members, name, &JsonMember::name);
  return found == members.end() ? nullptr : &found->value;
}

void JsonValue::set(std::string_view name, JsonValue value) {
  const auto found = std::ranges::find(members, name, &JsonMember::name);
  if (found != members.end())
    found->value = std::move(value);
  else
    members.push_back({std::string(name), std::move(value)});
}

void JsonValue::erase(std::string_view name) {
  std::erase_if(members, [&](const JsonMember& member) { return member.name == name; });
}

bool JsonValue::operator==(const JsonValue& other) const {
  return type == other.type && boolean == other.boolean && text == other.text && items == other.items &&
         members == other.members;
}

}  // namespace carat::grammar
