// A JSON document as it was written: members in order, numbers as spelled. Used by json_schema.h for schemas.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace carat::grammar {

struct JsonMember;

struct JsonValue {
  enum class Type { null, boolean, number, text, array, object };

  JsonValue(Type its_type = Type::null, bool its_boolean = false, std::string its_text = {});

  Type type;
  bool boolean;
  std::string text;  // of a text, or a number's spelling
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;

  /// Deeper documents are refused, so that recursion over values is safe.
  static constexpr int kMaxDepth = 100;
  /// Throws std::invalid_argument for what isn't JSON, is nested too deep or has a name twice in an object.
  static JsonValue parse(std::string_view json);

  bool is(Type wanted) const { return type == wanted; }
  /// Null when this is no object or has no such member.
  const JsonValue* find(std::string_view name) const;
  void set(std::string_view name, JsonValue value);
  void erase(std::string_view name);
  /// Numbers are equal when they are spelled alike; members when they are in the same order.
  bool operator==(const JsonValue& other) const;
};

struct JsonMember {
  std::string name;
  JsonValue value;
  bool operator==(const JsonMember&) const = default;
};

}  // namespace carat::grammar
