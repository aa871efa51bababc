#include "grammar/schema_merge.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/utf8.h"
#include "grammar/grammar.h"
#include "grammar/number_dfa.h"

namespace carat::grammar {
namespace {

using Type = JsonValue::Type;

JsonValue false_schema() { return {Type::boolean, false}; }

/// The texts of a keyword that is one text or a list of them.
std::vector<JsonValue> as_list(const JsonValue& value) {
  return value.is(Type::array) ? value.items : std::vector{value};
}

bool is_member(const std::vector<JsonValue>& values, const JsonValue& value) {
  return std::ranges::find(values, value) != values.end();
}

JsonValue list_of(std::vector<JsonValue> items) {
  JsonValue list{Type::array};
  list.items = std::move(items);
  return list;
}

bool has_type(const std::vector<JsonValue>& types, std::string_view name) {
  return std::ranges::any_of(types, [&](const JsonValue& type) { return type.text == name; });
}

/// Types that both lists allow: every integer is a number.
JsonValue common_types(const JsonValue& one, const JsonValue& other) {
  const std::vector<JsonValue> left = as_list(one), right = as_list(other);
  std::vector<JsonValue> common;
  for (const JsonValue& type : left) {
    const bool is_number = type.text == "number" && has_type(right, "integer") && !has_type(left, "integer");
    if (is_number && !has_type(right, "number"))
      common.push_back({Type::text, false, "integer"});
    else if (is_member(right, type) || (type.text == "integer" && has_type(right, "number")))
      common.push_back(type);
  }
  return list_of(std::move(common));
}

JsonValue common_items(const JsonValue& one, const JsonValue& other) {
  JsonValue common{Type::array};
  for (const JsonValue& item : one.items)
    if (is_member(other.items, item)) common.items.push_back(item);
  return common;
}

JsonValue both(const JsonValue& one, const JsonValue& other) {
  JsonValue schema{Type::object};
  schema.set("allOf", list_of({one, other}));
  return schema;
}

JsonValue merged_properties(const JsonValue& one, const JsonValue& other) {
  JsonValue properties = one;
  for (const auto& [name, schema] : other.members) {
    const JsonValue* known = properties.find(name);
    properties.set(name, known ? both(*known, schema) : schema);
  }
  return properties;
}

JsonValue joined(const JsonValue& one, const JsonValue& other) {
  JsonValue list = one;
  for (const JsonValue& item : other.items)
    if (!is_member(list.items, item)) list.items.push_back(item);
  return list;
}

/// `keyword` with its values in both.
JsonValue merged_keyword(const std::string& keyword, const JsonValue& one, const JsonValue& other,
                         const std::string& place) {
  if (one == other) return one;
  if (keyword == "type") return common_types(one, other);
  if (one.is(Type::array) && other.is(Type::array)) {
    if (keyword == "enum") return common_items(one, other);
    if (keyword == "required" || keyword == "allOf") return joined(one, other);
  }
  if (keyword == "properties" && one.is(Type::object) && other.is(Type::object))
    return merged_properties(one, other);
  refuse_unsupported(keyword, place,
                     "stands in two schemas that have to hold together, which is not supported");
}

bool is_closed(const JsonValue& schema) {
  const JsonValue* additional = schema.find("additionalProperties");
  return additional && !(additional->is(Type::boolean) && additional->boolean);
}

/// Where one side restricts other properties, those that only the other side declares would have to satisfy
/// that as well.
void require_same_properties(const JsonValue& one, const JsonValue& other, const std::string& place) {
  static const JsonValue kNone{Type::object};
  const JsonValue* mine = one.find("properties");
  const JsonValue* theirs = other.find("properties");
  for (const JsonMember& member : (theirs ? theirs : &kNone)->members) {
    if (is_closed(one) && !(mine && mine->find(member.name)))
      refuse_unsupported("additionalProperties", place,
                         "beside the property \"" + printable(member.name) +
                             "\" of another schema that has to hold is not supported");
  }
}

/// `items` holds for every element behind the schema's own prefixItems, also for those that a longer prefix
/// of the other schema describes.
void require_same_prefix(const JsonValue& one, const JsonValue& other, const std::string& place) {
  const auto prefix_length = [](const JsonValue& schema) {
    const JsonValue* prefix = schema.find("prefixItems");
    return prefix ? prefix->items.size() : 0;
  };
  if (prefix_length(one) > prefix_length(other) && other.find("items"))
    refuse_unsupported("prefixItems", place,
                       "beside \"items\" of another schema that has to hold is not supported");
}

bool is_nullable(const JsonValue& schema) {
  const JsonValue* nullable = schema.find("nullable");
  return nullable && nullable->boolean;
}

/// The values that `enum` or `const` allow.
std::optional<std::vector<JsonValue>> values_of(const JsonValue& schema) {
  std::vector<JsonValue> values;
  if (const JsonValue* value = schema.find("const"))
    values = {*value};
  else if (const JsonValue* listed = schema.find("enum"))
    values = listed->items;
  else
    return std::nullopt;
  if (is_nullable(schema)) values.push_back({});
  return values;
}

std::string type_of(const JsonValue& value) {
  switch (value.type) {
    case Type::null:
      return "null";
    case Type::boolean:
      return "boolean";
    case Type::number:
      return "number";
    case Type::text:
      return "string";
    case Type::array:
      return "array";
    case Type::object:
      return "object";
  }
  return "";
}

/// Types that the schema allows, "integer" as "number"; empty when it doesn't say.
std::vector<std::string> types_of(const JsonValue& schema) {
  std::vector<std::string> types;
  if (const auto values = values_of(schema))
    for (const JsonValue& value : *values) types.push_back(type_of(value));
  else if (const JsonValue* type = schema.find("type"))
    for (const JsonValue& name : as_list(*type))
      types.push_back(name.text == "integer" ? "number" : name.text);
  if (!types.empty() && is_nullable(schema)) types.push_back("null");
  return types;
}

/// Whether null satisfies the schema for sure; schemas inside it, which may forbid it, are not looked into.
bool admits_null(const JsonValue& schema) {
  const std::vector<std::string> types = types_of(schema);
  if (!types.empty()) return std::ranges::find(types, "null") != types.end();
  return is_nullable(schema) || std::ranges::none_of(std::array{"$ref", "allOf", "anyOf", "oneOf"},
                                                     [&](const char* word) { return schema.find(word); });
}

bool same_value(const JsonValue& one, const JsonValue& other) {
  if (!one.is(Type::number) || !other.is(Type::number)) return one == other;
  const auto left = Decimal::parse(one.text), right = Decimal::parse(other.text);
  return !left || !right || *left == *right;
}

bool share_no_value(const std::vector<JsonValue>& one, const std::vector<JsonValue>& other) {
  return std::ranges::none_of(one, [&](const JsonValue& value) {
    return std::ranges::any_of(other, [&](const JsonValue& its) {
      const bool is_plain = !value.is(Type::array) && !value.is(Type::object);
      return is_plain ? same_value(value, its) : value.type == its.type;
    });
  });
}

bool requires_property(const JsonValue& schema, const std::string& name) {
  const JsonValue* required = schema.find("required");
  return required && is_member(required->items, {Type::text, false, name});
}

}  // namespace

void refuse_unsupported(const std::string& keyword, const std::string& place, const std::string& why) {
  throw SchemaError(ErrorKind::unsupported, keyword, place, why);
}

void refuse_invalid(const std::string& keyword, const std::string& place, const std::string& why) {
  throw SchemaError(ErrorKind::invalid_argument, keyword, place, why);
}

bool is_annotation(std::string_view keyword) {
  static constexpr std::array<std::string_view, 16> kAnnotations = {
      "title",    "description",   "default",         "examples",        "example", "$schema",
      "$comment", "deprecated",    "readOnly",        "writeOnly",       "$defs",   "definitions",
      "$id",      "discriminator", "contentEncoding", "contentMediaType"};
  return keyword.starts_with("x-") || std::ranges::find(kAnnotations, keyword) != kAnnotations.end();
}

JsonValue assertions_of(const JsonValue& schema) {
  JsonValue assertions = schema;
  std::erase_if(assertions.members, [](const JsonMember& member) { return is_annotation(member.name); });
  return assertions;
}

const JsonValue& resolve(const JsonValue& root, const std::string& reference, const std::string& place) {
  if (reference != "#" && !reference.starts_with("#/"))
    refuse_unsupported("$ref", place, "refers to " + in_quotes(reference) + ": only \"#/...\" is supported");
  const JsonValue* at = &root;
  std::string_view rest = std::string_view(reference).substr(1);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find('/'));
    rest.remove_prefix(word.size());
    std::string name;
    for (std::size_t i = 0; i < word.size(); ++i) {
      int code = 0;
      const char* const begin = word.data() + i + 1;
      if (word.substr(i).starts_with("~0") || word.substr(i).starts_with("~1"))
        name += word[++i] == '0' ? '~' : '/';
      else if (word[i] == '%' && i + 2 < word.size() &&
               std::from_chars(begin, begin + 2, code, 16).ptr == begin + 2)
        name += static_cast<char>(code), i += 2;
      else
        name += word[i];
    }
    std::size_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = at->is(Type::array) && parsed.ptr == name.data() + name.size() && !name.empty();
    at = is_index ? (index < at->items.size() ? &at->items[index] : nullptr) : at->find(name);
    if (!at) refuse_invalid("$ref", place, "refers to " + in_quotes(reference) + ", which is not there");
  }
  return *at;
}

JsonValue merged(const JsonValue& one, const JsonValue& other, const std::string& place) {
  if (one.is(Type::boolean)) return one.boolean ? other : false_schema();
  if (other.is(Type::boolean)) return other.boolean ? one : false_schema();
  require_same_properties(one, other, place);
  require_same_properties(other, one, place);
  require_same_prefix(one, other, place);
  require_same_prefix(other, one, place);
  JsonValue result = one;
  for (const auto& [keyword, value] : other.members) {
    if (keyword == "nullable") continue;  // widens its own schema; see below
    const JsonValue* known = result.find(keyword);
    if (!known)
      result.set(keyword, value);
    else if (!is_annotation(keyword))
      result.set(keyword, merged_keyword(keyword, *known, value, place));
  }
  result.erase("nullable");
  if ((is_nullable(one) || is_nullable(other)) && admits_null(one) && admits_null(other))
    result.set("nullable", {Type::boolean, true});
  return result;
}

bool are_disjoint(const JsonValue& root, const JsonValue& one, const JsonValue& other, int depth) {
  constexpr int kMaxDepth = 8;
  if (depth > kMaxDepth || !one.is(Type::object) || !other.is(Type::object)) return false;
  for (const bool first : {true, false}) {
    if (const JsonValue* reference = (first ? one : other).find("$ref")) {
      const JsonValue& target = resolve(root, reference->text, "#");
      return are_disjoint(root, first ? target : one, first ? other : target, depth + 1);
    }
  }
  const auto my_values = values_of(one), their_values = values_of(other);
  if (my_values && their_values) return share_no_value(*my_values, *their_values);
  const std::vector<std::string> mine = types_of(one), theirs = types_of(other);
  const auto is_theirs = [&](const std::string& type) {
    return std::ranges::find(theirs, type) != theirs.end();
  };
  if (!mine.empty() && !theirs.empty() && std::ranges::none_of(mine, is_theirs)) return true;
  if (mine != std::vector<std::string>{"object"} || theirs != mine) return false;
  const JsonValue* properties = one.find("properties");
  const JsonValue* their_properties = other.find("properties");
  if (!properties || !their_properties) return false;
  return std::ranges::any_of(properties->members, [&](const JsonMember& member) {
    const JsonValue* its = their_properties->find(member.name);
    return its && requires_property(one, member.name) && requires_property(other, member.name) &&
           are_disjoint(root, member.value, *its, depth + 1);
  });
}

}  // namespace carat::grammar
