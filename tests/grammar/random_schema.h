// Random schemas, values that satisfy them, and a validator that knows the keywords these schemas have.
#pragma once
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "grammar/masked_reply.h"

namespace carat {

using Json = nlohmann::ordered_json;

inline std::string random_text(Random& random, std::size_t least, std::size_t most) {
  static const std::vector<std::string> kCharacters = {"a", "b", " ",  "\"", "\\", "\n", "{", "}",
                                                       ":", "é", "😀", "9",  "<",  "|",  "/", "T"};
  std::string text;
  const std::size_t count = least + random.below(most - least + 1);
  for (std::size_t i = 0; i < count; ++i) text += kCharacters[random.below(kCharacters.size())];
  return text;
}

inline Json random_schema(Random& random, int depth) {
  const std::size_t kinds = depth > 0 ? 9 : 6;
  switch (random.below(kinds)) {
    case 0: {
      Json schema = {{"type", "string"}};
      if (random.once_in(2)) schema["minLength"] = random.below(4);
      if (random.once_in(2)) schema["maxLength"] = 4 + random.below(6);
      return schema;
    }
    case 1:
      return {{"type", "string"},
              {"pattern", random.once_in(2) ? "^[A-Z]{2}-[0-9]{1,3}$" : "^(ab|\\\\\"|é)+$"}};
    case 2: {
      Json schema = {{"type", random.once_in(2) ? "integer" : "number"}};
      if (random.once_in(2)) schema["minimum"] = static_cast<int>(random.below(200)) - 100;
      if (random.once_in(2)) schema["maximum"] = 100 + static_cast<int>(random.below(200));
      return schema;
    }
    case 3:
      return {{"type", "boolean"}};
    case 4:
      return {{"enum", {"on", "off", "o\"n", 7, nullptr, random_text(random, 1, 5)}}};
    case 5:
      return {{"type", {"integer", "null"}}};
    case 6:
      return {{"anyOf", {random_schema(random, depth - 1), random_schema(random, depth - 1)}}};
    case 7: {
      Json schema = {{"type", "array"}, {"items", random_schema(random, depth - 1)}};
      if (random.once_in(2)) schema["minItems"] = random.below(3);
      if (random.once_in(2)) schema["maxItems"] = 2 + random.below(3);
      return schema;
    }
    default: {
      Json schema = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
      static const std::vector<std::string> kNames = {"a", "ab", "name", "n\"x", "é", "two words", "id", "b"};
      for (const std::string& name : kNames) {
        if (random.once_in(2)) continue;
        schema["properties"][name] = random_schema(random, depth - 1);
        if (random.once_in(2)) schema["required"].push_back(name);
      }
      if (random.once_in(2)) schema["additionalProperties"] = false;
      if (random.once_in(4)) schema["additionalProperties"] = {{"type", "boolean"}};
      return schema;
    }
  }
}

inline Json random_value(Random& random, const Json& schema) {
  if (schema.contains("anyOf")) return random_value(random, schema["anyOf"][random.below(2)]);
  if (schema.contains("enum")) return schema["enum"][random.below(schema["enum"].size())];
  const std::string type = schema["type"].is_array() ? schema["type"][random.below(2)] : schema["type"];
  if (schema.contains("pattern"))
    return schema["pattern"].get<std::string>()[1] == '[' ? "QX-" + std::to_string(random.below(1000))
                                                          : "ab\\\"é";
  if (type == "string")
    return random_text(random, schema.value("minLength", std::size_t{0}),
                       schema.value("maxLength", std::size_t{9}));
  if (type == "null") return nullptr;
  if (type == "boolean") return random.once_in(2);
  if (type == "integer" || type == "number") {
    const int least = schema.value("minimum", -500), most = schema.value("maximum", 500);
    const int whole = least + static_cast<int>(random.below(static_cast<std::size_t>(most - least) + 1));
    if (type == "integer" || whole == most) return whole;
    return whole + static_cast<double>(random.below(1000)) / 1000;
  }
  if (type == "array") {
    Json value = Json::array();
    const std::size_t least = schema.value("minItems", std::size_t{0}),
                      most = schema.value("maxItems", std::size_t{4});
    const std::size_t count = least + random.below(most - least + 1);
    for (std::size_t i = 0; i < count; ++i) value.push_back(random_value(random, schema["items"]));
    return value;
  }
  Json value = Json::object();
  for (const auto& [name, property] : schema["properties"].items()) {
    const bool is_required =
        std::find(schema["required"].begin(), schema["required"].end(), name) != schema["required"].end();
    if (is_required || random.once_in(2)) value[name] = random_value(random, property);
  }
  const bool open = !schema.contains("additionalProperties") || schema["additionalProperties"].is_object();
  if (open && random.once_in(2)) value["other " + random_text(random, 0, 4)] = true;
  return value;
}

inline bool has_type(const Json& value, const Json& type) {
  if (type.is_array())
    return std::any_of(type.begin(), type.end(), [&](const Json& name) { return has_type(value, name); });
  const std::string name = type;
  return name == "string"    ? value.is_string()
         : name == "null"    ? value.is_null()
         : name == "boolean" ? value.is_boolean()
         : name == "integer" ? value.is_number_integer()
         : name == "number"  ? value.is_number()
         : name == "array"   ? value.is_array()
                             : value.is_object();
}

/// Of the two patterns of random_schema().
inline bool has_pattern(std::string_view text, const std::string& pattern) {
  const auto take = [&](std::string_view piece) {
    const bool begins = text.starts_with(piece);
    if (begins) text.remove_prefix(piece.size());
    return begins;
  };
  if (pattern[1] == '(') {
    if (text.empty()) return false;
    while (take("ab") || take("\\\"") || take("é")) {
    }
    return text.empty();
  }
  const auto is_in = [](char c, char first, char last) { return c >= first && c <= last; };
  if (text.size() < 4 || text.size() > 6 || text[2] != '-') return false;
  if (!is_in(text[0], 'A', 'Z') || !is_in(text[1], 'A', 'Z')) return false;
  return std::ranges::all_of(text.substr(3), [&](char c) { return is_in(c, '0', '9'); });
}

inline bool validates(const Json& value, const Json& schema);

inline bool validates_object(const Json& value, const Json& schema) {
  for (const Json& name : schema["required"])
    if (!value.contains(name)) return false;
  const Json& properties = schema["properties"];
  for (const auto& [name, member] : value.items()) {
    const bool is_declared = properties.contains(name);
    if (!is_declared && !schema.contains("additionalProperties")) continue;
    if (!is_declared && !schema["additionalProperties"].is_object()) return false;
    if (!validates(member, is_declared ? properties[name] : schema["additionalProperties"])) return false;
  }
  return true;
}

inline bool validates(const Json& value, const Json& schema) {
  const auto satisfies = [&](const Json& item) { return validates(value, item); };
  if (schema.contains("anyOf")) return std::any_of(schema["anyOf"].begin(), schema["anyOf"].end(), satisfies);
  if (schema.contains("enum"))
    return std::find(schema["enum"].begin(), schema["enum"].end(), value) != schema["enum"].end();
  if (!has_type(value, schema["type"])) return false;
  if (value.is_string()) {
    const std::string text = value;
    const auto characters = static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    return characters >= schema.value("minLength", std::size_t{0}) &&
           characters <= schema.value("maxLength", characters) &&
           (!schema.contains("pattern") || has_pattern(text, schema["pattern"]));
  }
  if (value.is_number()) {
    return (!schema.contains("minimum") || value >= schema["minimum"]) &&
           (!schema.contains("maximum") || value <= schema["maximum"]);
  }
  if (value.is_array()) {
    return value.size() >= schema.value("minItems", std::size_t{0}) &&
           value.size() <= schema.value("maxItems", value.size()) &&
           std::all_of(value.begin(), value.end(),
                       [&](const Json& item) { return validates(item, schema["items"]); });
  }
  return !value.is_object() || validates_object(value, schema);
}

}  // namespace carat
