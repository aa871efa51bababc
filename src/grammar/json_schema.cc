#include "grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "grammar/grammar.h"
#include "grammar/json_value.h"
#include "grammar/schema_keywords.h"
#include "grammar/schema_merge.h"
#include "grammar/text_formats.h"

namespace carat::grammar {
namespace {

using Type = JsonValue::Type;

constexpr int kMostSchemaDepth = 200;
constexpr std::size_t kMostSchemas = 50'000, kMostMerges = 2'000, kMostPatterns = 200,
                      kMostAlternatives = 2'000;
constexpr uint32_t kMostItems = 10'000, kMostCharacters = 1'000'000'000;

std::string below(const std::string& place, std::string_view keyword) {
  return place + '/' + printable(keyword, 80);
}

class SchemaCompiler {
 public:
  SchemaCompiler(Notation& notation, const JsonValue& root) : notation_(notation), root_(root) {}

  Node value(const JsonValue& schema, const std::string& place, Node next);
  Node any_object(Node next);

 private:
  Program& program() { return notation_.program(); }
  Node any_value(Node next);

  Node reference(const JsonValue& schema, const std::string& place, Node next);
  Node all_of(const JsonValue& schema, const std::string& place, Node next);
  Node one_of(const JsonValue& schema, const std::string& keyword, const std::string& place, Node next);
  Node typed(const JsonValue& schema, const std::string& place, Node next);
  Node of_type(const std::string& type, const JsonValue& schema, const std::string& place, Node next);
  Node constants(const JsonValue& schema, const std::string& place, Node next);
  Node constant(const JsonValue& value, const std::string& place, Node next);
  Node object(const JsonValue& schema, const std::string& place, Node next);
  Node object_body(const JsonValue& schema, const std::string& place);
  Node array(const JsonValue& schema, const std::string& place, Node next);
  Node array_body(const JsonValue& schema, const std::string& place);
  Node text(const JsonValue& schema, const std::string& place, Node next);
  Node number(bool whole, const JsonValue& schema, const std::string& place, Node next);
  Node key(const std::string& name, const std::string& place, Node next);
  JsonValue merge(const JsonValue& one, const JsonValue& other, const std::string& place);
  uint32_t count(const JsonValue& schema, const char* keyword, uint32_t otherwise, uint32_t most,
                 const std::string& place);

  Notation& notation_;
  const JsonValue& root_;
  std::map<std::string, Node> references_;  // to their rules
  std::optional<Node> any_value_, any_object_;
  std::size_t schemas_ = 0, merges_ = 0, patterns_ = 0;
  int depth_ = 0;
};

Node SchemaCompiler::any_value(Node next) {
  if (!any_value_) {
    any_value_ = program().choice();
    for (const Node target :
         {notation_.text(0, kUnlimited, Program::kBack), notation_.number({}, Program::kBack),
          notation_.word({"true", "false", "null"}, Program::kBack), any_object(Program::kBack),
          array(JsonValue{Type::object}, "", Program::kBack)})
      program().add_target(*any_value_, target);
  }
  return program().call(*any_value_, next);
}

Node SchemaCompiler::any_object(Node next) {
  if (!any_object_) {
    any_object_ = program().choice();
    program().add_target(*any_object_, object_body(JsonValue{Type::object}, ""));
  }
  return program().call(*any_object_, next);
}

Node SchemaCompiler::value(const JsonValue& schema, const std::string& place, Node next) {
  if (schema.is(Type::boolean)) return schema.boolean ? any_value(next) : program().choice();
  if (!schema.is(Type::object)) refuse_invalid("", place, "is neither an object nor true nor false");
  check_keywords(schema, place);
  if (++schemas_ > kMostSchemas) refuse_unsupported("", place, "makes the schema too large");
  if (++depth_ > kMostSchemaDepth)
    refuse_unsupported("", place, "is nested too deep, or refers to itself inside allOf");
  const JsonValue* nullable = schema.find("nullable");
  Node result;
  if (nullable && nullable->boolean) {
    JsonValue rest = schema;
    rest.erase("nullable");
    result = program().choice({notation_.word({"null"}, next), value(rest, place, next)});
  } else if (schema.find("$ref")) {
    result = reference(schema, place, next);
  } else if (schema.find("allOf")) {
    result = all_of(schema, place, next);
  } else if (schema.find("anyOf")) {
    result = one_of(schema, "anyOf", place, next);
  } else if (schema.find("oneOf")) {
    result = one_of(schema, "oneOf", place, next);
  } else if (schema.find("enum") || schema.find("const")) {
    result = constants(schema, place, next);
  } else {
    result = typed(schema, place, next);
  }
  --depth_;
  return result;
}

Node SchemaCompiler::reference(const JsonValue& schema, const std::string& place, Node next) {
  const std::string target = schema.find("$ref")->text;
  const JsonValue& referred = resolve(root_, target, place);
  JsonValue rest = assertions_of(schema);
  rest.erase("$ref");
  if (!rest.members.empty()) return value(merge(referred, rest, place), place, next);
  const auto [known, is_new] = references_.try_emplace(target);
  if (is_new) {
    const Node rule = known->second = program().choice();
    program().add_target(rule, value(referred, target, Program::kBack));
    return program().call(rule, next);
  }
  return program().call(known->second, next);
}

JsonValue SchemaCompiler::merge(const JsonValue& one, const JsonValue& other, const std::string& place) {
  if (++merges_ > kMostMerges) refuse_unsupported("allOf", place, "combines too many schemas");
  return merged(one, other, place);
}

Node SchemaCompiler::all_of(const JsonValue& schema, const std::string& place, Node next) {
  JsonValue together = assertions_of(schema);
  const std::vector<JsonValue> parts = together.find("allOf")->items;
  together.erase("allOf");
  if (parts.size() == 1 && together.members.empty()) return value(parts[0], below(place, "allOf/0"), next);
  for (const JsonValue& part : parts) {
    const JsonValue* reference = part.find("$ref");
    if (reference && !reference->is(Type::text)) refuse_invalid("$ref", place, "has to be a text");
    if (!part.is(Type::object) && !part.is(Type::boolean))
      refuse_invalid("allOf", place, "has to be a list of schemas");
    JsonValue rest = part;
    rest.erase("$ref");
    if (reference) together = merge(together, resolve(root_, reference->text, place), place);
    together = merge(together, rest, place);
  }
  return value(together, place, next);
}

/// oneOf is anyOf when no value can satisfy two of its schemas.
Node SchemaCompiler::one_of(const JsonValue& schema, const std::string& keyword, const std::string& place,
                            Node next) {
  JsonValue rest = assertions_of(schema);
  const std::vector<JsonValue> parts = rest.find(keyword)->items;
  rest.erase(keyword);
  if (parts.size() > kMostAlternatives)
    refuse_unsupported(keyword, place, "has more than " + std::to_string(kMostAlternatives) + " schemas");
  const Node choice = program().choice();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (std::find(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), parts[i]) !=
            parts.begin() + static_cast<std::ptrdiff_t>(i) &&
        keyword == "anyOf")
      continue;  // the same again
    for (std::size_t j = 0; keyword == "oneOf" && j < i; ++j) {
      if (!are_disjoint(root_, parts[j], parts[i]))
        refuse_unsupported(
            "oneOf", place,
            "is supported only when its schemas exclude each other by type, enum, const or a required "
            "property with these; use anyOf");
    }
    const std::string part_place = below(below(place, keyword), std::to_string(i));
    const bool is_alone = rest.members.empty();
    program().add_target(choice,
                         value(is_alone ? parts[i] : merge(rest, parts[i], part_place), part_place, next));
  }
  return choice;
}

/// Keywords of a single type, such as "properties", mean that type where none is given.
Node SchemaCompiler::typed(const JsonValue& schema, const std::string& place, Node next) {
  std::vector<std::string> types;
  if (const JsonValue* type = schema.find("type")) {
    if (type->is(Type::text)) types.push_back(type->text);
    for (const JsonValue& name : type->items) types.push_back(name.text);
  } else {
    for (const JsonMember& member : schema.members) {
      const Keyword* keyword = find_keyword(member.name);
      const bool is_new = keyword && std::ranges::find(types, keyword->type) == types.end();
      if (is_new && !keyword->type.empty()) types.emplace_back(keyword->type);
    }
    if (types.empty()) return any_value(next);
  }
  if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
  const Node choice = program().choice();
  for (const std::string& type : types) program().add_target(choice, of_type(type, schema, place, next));
  return choice;
}

Node SchemaCompiler::of_type(const std::string& type, const JsonValue& schema, const std::string& place,
                             Node next) {
  if (type == "object") return object(schema, place, next);
  if (type == "array") return array(schema, place, next);
  if (type == "string") return text(schema, place, next);
  if (type == "number" || type == "integer") return number(type == "integer", schema, place, next);
  if (type == "boolean") return notation_.word({"true", "false"}, next);
  if (type == "null") return notation_.word({"null"}, next);
  refuse_invalid("type", place, "is " + in_quotes(type) + ", which is no type");
}

bool has_type(const JsonValue& value, const std::string& type) {
  switch (value.type) {
    case Type::null:
      return type == "null";
    case Type::boolean:
      return type == "boolean";
    case Type::text:
      return type == "string";
    case Type::array:
      return type == "array";
    case Type::object:
      return type == "object";
    case Type::number: {
      const auto decimal = Decimal::parse(value.text);
      return type == "number" || (type == "integer" && decimal && decimal->is_whole());
    }
  }
  return false;
}

Node SchemaCompiler::constants(const JsonValue& schema, const std::string& place, Node next) {
  for (const JsonMember& member : schema.members) {
    const Keyword* keyword = find_keyword(member.name);
    if (keyword && !keyword->type.empty())
      refuse_unsupported(member.name, place, "beside enum or const is not supported");
  }
  const JsonValue* constant_value = schema.find("const");
  const JsonValue* listed = schema.find("enum");
  std::vector<JsonValue> values = listed ? listed->items : std::vector{*constant_value};
  if (listed && constant_value)
    std::erase_if(values, [&](const JsonValue& v) { return !(v == *constant_value); });
  if (const JsonValue* type = schema.find("type")) {
    std::vector<JsonValue> types = type->is(Type::text) ? std::vector{*type} : type->items;
    std::erase_if(values, [&](const JsonValue& v) {
      return std::ranges::none_of(types, [&](const JsonValue& name) { return has_type(v, name.text); });
    });
  }
  std::vector<std::string> texts, words;
  const Node choice = program().choice();
  for (const JsonValue& value : values) {
    if (value.is(Type::text))
      texts.push_back(value.text);
    else if (value.is(Type::array) || value.is(Type::object))
      program().add_target(choice, constant(value, place, next));
    else
      words.push_back(value.is(Type::number) ? value.text
                      : value.is(Type::null) ? "null"
                      : value.boolean        ? "true"
                                             : "false");
  }
  try {
    if (!texts.empty()) program().add_target(choice, notation_.one_text_of(texts, next));
  } catch (const std::invalid_argument& error) {
    refuse_unsupported(listed ? "enum" : "const", place, error.what());
  }
  if (!words.empty()) program().add_target(choice, notation_.word(words, next));
  return choice;
}

/// Backwards, as everything.
Node SchemaCompiler::constant(const JsonValue& value, const std::string& place, Node next) {
  const bool is_object = value.is(Type::object);
  if (!is_object && !value.is(Type::array)) {
    JsonValue schema{Type::object};
    schema.set("const", value);
    return constants(schema, place, next);
  }
  const std::size_t count = is_object ? value.members.size() : value.items.size();
  if (count == 0) return notation_.empty(is_object ? "{}" : "[]", next);
  Node at = notation_.close(is_object ? '}' : ']', next);
  for (std::size_t i = count; i-- > 0;) {
    at = constant(is_object ? value.members[i].value : value.items[i], place, at);
    if (is_object) at = key(value.members[i].name, place, at);
    at = i > 0 ? notation_.comma(at) : notation_.open(is_object ? '{' : '[', at);
  }
  return at;
}

Node SchemaCompiler::key(const std::string& name, const std::string& place, Node next) {
  try {
    return notation_.key(name, next);
  } catch (const std::invalid_argument& error) {
    refuse_unsupported("properties", place, in_quotes(name) + ' ' + error.what());
  }
}

/// Every object is a rule, and every array: see Program::kMaxDepth.
Node SchemaCompiler::object(const JsonValue& schema, const std::string& place, Node next) {
  const bool is_any = std::ranges::none_of(schema.members, [](const JsonMember& member) {
    const Keyword* keyword = find_keyword(member.name);
    return keyword && keyword->type == "object";
  });
  return is_any ? any_object(next) : program().call(object_body(schema, place), next);
}

Node SchemaCompiler::object_body(const JsonValue& schema, const std::string& place) {
  static const JsonValue kNone{Type::object}, kTrue{Type::boolean, true};
  const JsonValue* declared = schema.find("properties");
  const JsonValue* additional = schema.find("additionalProperties");
  const JsonValue* required = schema.find("required");
  if (!additional) additional = &kTrue;
  std::vector<JsonMember> properties = (declared ? declared : &kNone)->members;
  for (const JsonValue& name : (required ? required : &kNone)->items)
    if (std::ranges::find(properties, name.text, &JsonMember::name) == properties.end())
      properties.push_back({name.text, *additional});
  const auto is_required = [&](const std::string& name) {
    return required &&
           std::ranges::find(required->items, JsonValue{Type::text, false, name}) != required->items.end();
  };
  const std::size_t needed = static_cast<std::size_t>(
      std::ranges::count_if(properties, [&](const JsonMember& member) { return is_required(member.name); }));
  const uint32_t least = count(schema, "minProperties", 0, kUnlimited - 1, place);
  if (least > std::max<std::size_t>(needed, 1)) refuse_unsupported("minProperties", place);
  const bool is_closed = additional->is(Type::boolean) && !additional->boolean;
  const uint32_t most = count(schema, "maxProperties", kUnlimited, kUnlimited - 1, place);
  if (most < properties.size() || (most != kUnlimited && !is_closed))
    refuse_unsupported("maxProperties", place);

  // `after`: behind a member. `pick`: where one of the properties from the i-th on has to begin.
  const Node close = notation_.close('}', Program::kBack);
  Node pick = program().choice(), after = close;
  if (!is_closed) {
    std::vector<std::string> names;
    for (const JsonMember& member : properties) names.push_back(member.name);
    after = program().choice({close});
    pick = notation_.key_but(names, value(*additional, below(place, "additionalProperties"), after));
    program().add_target(after, notation_.comma(pick));
  }
  bool may_close = true;
  for (std::size_t i = properties.size(); i-- > 0;) {
    const auto& [name, property] = properties[i];
    const std::string property_place = below(below(place, "properties"), name);
    const Node member = key(name, place, value(property, property_place, after));
    const bool needs_this = is_required(name);
    pick = needs_this ? member : program().choice({member, pick});
    may_close = may_close && !needs_this;
    after = program().choice({notation_.comma(pick)});
    if (may_close) program().add_target(after, close);
  }
  const Node body = program().choice({notation_.open('{', pick)});
  if (may_close && least == 0) program().add_target(body, notation_.empty("{}", Program::kBack));
  return body;
}

Node SchemaCompiler::array(const JsonValue& schema, const std::string& place, Node next) {
  return program().call(array_body(schema, place), next);
}

Node SchemaCompiler::array_body(const JsonValue& schema, const std::string& place) {
  static const JsonValue kTrue{Type::boolean, true};
  const JsonValue* items = schema.find("items");
  const JsonValue* prefix = schema.find("prefixItems");
  if (items && items->is(Type::array))
    refuse_unsupported("items", place, "is a list; prefixItems is supported");
  if (!items) items = &kTrue;
  const std::size_t prefix_items = prefix ? prefix->items.size() : 0;
  const uint32_t least = count(schema, "minItems", 0, kMostItems, place);
  uint32_t most = count(schema, "maxItems", kUnlimited, kMostItems, place);
  if (items->is(Type::boolean) && !items->boolean) most = std::min(most, static_cast<uint32_t>(prefix_items));
  if (most < least) return program().choice();

  const Node item = program().choice();  // a rule: there may be many
  const auto element = [&](std::size_t i, Node next) {
    return i < prefix_items
               ? value(prefix->items[i], below(below(place, "prefixItems"), std::to_string(i)), next)
               : program().call(item, next);
  };
  const Node close = notation_.close(']', Program::kBack);
  std::size_t from = most;  // elements that each have a place of their own
  Node after = close;
  if (most == kUnlimited) {
    from = std::max<std::size_t>(prefix_items, least);
    after = program().choice({close});
    program().add_target(after, notation_.comma(program().call(item, after)));
  }
  Node first = most == 0 ? program().choice() : program().call(item, after);
  for (std::size_t i = from; i-- > 0;) {
    first = element(i, after);
    after = program().choice({notation_.comma(first)});
    if (i >= least) program().add_target(after, close);
  }
  program().add_target(item,
                       most == 0 ? program().choice() : value(*items, below(place, "items"), Program::kBack));
  const Node body = program().choice({notation_.open('[', first)});
  if (least == 0) program().add_target(body, notation_.empty("[]", Program::kBack));
  return body;
}

Node SchemaCompiler::text(const JsonValue& schema, const std::string& place, Node next) {
  const uint32_t least = count(schema, "minLength", 0, kMostCharacters, place);
  const uint32_t most = count(schema, "maxLength", kUnlimited, kMostCharacters, place);
  const JsonValue* pattern = schema.find("pattern");
  const JsonValue* format = schema.find("format");
  if (most < least) return program().choice();
  if (!pattern && !format) return notation_.text(least, most, next);
  if (pattern && format) refuse_unsupported("format", place, "beside pattern is not supported");
  const std::optional<std::string> known = format ? pattern_of_format(format->text) : pattern->text;
  if (!known)
    refuse_unsupported("format", place, "is " + in_quotes(format->text) + ", which is not supported");
  if (++patterns_ > kMostPatterns)
    refuse_unsupported(pattern ? "pattern" : "format", place, "is one of too many in this schema");
  try {
    return notation_.pattern(*known, least, most, next);
  } catch (const std::invalid_argument& error) {
    refuse_unsupported(pattern ? "pattern" : "format", place, error.what());
  }
}

Node SchemaCompiler::number(bool whole, const JsonValue& schema, const std::string& place, Node next) {
  NumberRange range{.whole = whole, .least = {}, .most = {}};
  const auto bound_of = [&](const char* keyword, bool inclusive, int tighter, std::optional<Bound>& bound) {
    const JsonValue* value = schema.find(keyword);
    if (!value) return;
    const auto decimal = value->is(Type::number) ? Decimal::parse(value->text) : std::nullopt;
    if (!decimal) refuse_invalid(keyword, place, "has to be a number of sensible size");
    const bool replaces = !bound || compare(*decimal, bound->value) * tighter > 0 || *decimal == bound->value;
    if (replaces) bound = Bound{*decimal, inclusive};
  };
  bound_of("minimum", true, 1, range.least);
  bound_of("exclusiveMinimum", false, 1, range.least);
  bound_of("maximum", true, -1, range.most);
  bound_of("exclusiveMaximum", false, -1, range.most);
  if (const JsonValue* multiple = schema.find("multipleOf")) {
    const auto decimal = multiple->is(Type::number) ? Decimal::parse(multiple->text) : std::nullopt;
    int factor = 0;
    if (decimal && decimal->is_whole() && !decimal->negative && decimal->whole.size() <= 4)
      std::from_chars(decimal->whole.data(), decimal->whole.data() + decimal->whole.size(), factor);
    if (factor < 1 || factor > NumberRange::kMostMultiple)
      refuse_unsupported("multipleOf", place, "is supported for whole numbers from 1 to 1000");
    range.whole = true;
    range.multiple_of = factor;
  }
  return notation_.number(range, next);
}

uint32_t SchemaCompiler::count(const JsonValue& schema, const char* keyword, uint32_t otherwise,
                               uint32_t most, const std::string& place) {
  const JsonValue* value = schema.find(keyword);
  if (!value) return otherwise;
  const auto decimal = value->is(Type::number) ? Decimal::parse(value->text) : std::nullopt;
  if (!decimal || !decimal->is_whole() || decimal->negative)
    refuse_invalid(keyword, place, "has to be a whole number from 0 up");
  uint32_t number = 0;
  const char* const end = decimal->whole.data() + decimal->whole.size();
  if (std::from_chars(decimal->whole.data(), end, number).ec != std::errc() || number > most)
    refuse_unsupported(keyword, place, "is more than " + std::to_string(most));
  return number;
}

}  // namespace

Node add_schema(Notation& notation, std::string_view schema, const std::string& name, bool object_only,
                Node next) {
  JsonValue root;
  try {
    root = JsonValue::parse(schema);
  } catch (const std::invalid_argument& error) {
    refuse_invalid("", name, error.what());
  }
  if (object_only) {
    const JsonValue object{Type::text, false, "object"};
    if (root.is(Type::boolean) && root.boolean) root = {Type::object};
    if (!root.find("type")) root.set("type", object);
    if (*root.find("type") != object) refuse_invalid("type", name, "has to be \"object\" here");
  }
  return SchemaCompiler(notation, root).value(root, name, next);
}

Node add_any_object(Notation& notation, Node next) {
  const JsonValue root{Type::boolean, true};
  return SchemaCompiler(notation, root).any_object(next);
}

}  // namespace carat::grammar
