#include "grammar/schema_keywords.h"

#include <algorithm>
#include <array>

#include "grammar/schema_merge.h"

namespace carat::grammar {
namespace {

using Type = JsonValue::Type;

constexpr std::array kKeywords = {Keyword{"type", ""},
                                  Keyword{"enum", ""},
                                  Keyword{"const", ""},
                                  Keyword{"$ref", ""},
                                  Keyword{"allOf", ""},
                                  Keyword{"anyOf", ""},
                                  Keyword{"oneOf", ""},
                                  Keyword{"nullable", ""},
                                  Keyword{"properties", "object"},
                                  Keyword{"required", "object"},
                                  Keyword{"additionalProperties", "object"},
                                  Keyword{"minProperties", "object"},
                                  Keyword{"maxProperties", "object"},
                                  Keyword{"items", "array"},
                                  Keyword{"prefixItems", "array"},
                                  Keyword{"minItems", "array"},
                                  Keyword{"maxItems", "array"},
                                  Keyword{"uniqueItems", "array"},
                                  Keyword{"minLength", "string"},
                                  Keyword{"maxLength", "string"},
                                  Keyword{"pattern", "string"},
                                  Keyword{"format", "string"},
                                  Keyword{"minimum", "number"},
                                  Keyword{"maximum", "number"},
                                  Keyword{"exclusiveMinimum", "number"},
                                  Keyword{"exclusiveMaximum", "number"},
                                  Keyword{"multipleOf", "number"}};

}  // namespace

const Keyword* find_keyword(std::string_view name) {
  const auto found = std::ranges::find(kKeywords, name, &Keyword::name);
  return found == kKeywords.end() ? nullptr : &*found;
}

void check_keywords(const JsonValue& schema, const std::string& place) {
  const auto require = [&](const JsonMember& member, bool is_right, const char* what) {
    if (!is_right) refuse_invalid(member.name, place, std::string("has to be ") + what);
  };
  for (const JsonMember& member : schema.members) {
    const auto& [name, value] = member;
    if (is_annotation(name)) continue;
    if (!find_keyword(name)) refuse_unsupported(name, place);
    const auto all_are = [&](Type type) {
      return value.is(Type::array) &&
             std::ranges::all_of(value.items, [&](const JsonValue& item) { return item.is(type); });
    };
    if (name == "allOf" || name == "anyOf" || name == "oneOf")
      require(member, value.is(Type::array) && !value.items.empty(), "a list of schemas");
    if (name == "enum") require(member, value.is(Type::array) && !value.items.empty(), "a list of values");
    if (name == "required") require(member, all_are(Type::text), "a list of names");
    if (name == "prefixItems") require(member, value.is(Type::array), "a list of schemas");
    if (name == "properties") require(member, value.is(Type::object), "an object of schemas");
    if (name == "nullable" || name == "uniqueItems")
      require(member, value.is(Type::boolean), "true or false");
    if (name == "pattern" || name == "format" || name == "$ref")
      require(member, value.is(Type::text), "a text");
    if (name == "type")
      require(member, value.is(Type::text) || all_are(Type::text), "a name or a list of names");
    if (name == "uniqueItems" && value.boolean) refuse_unsupported(name, place);
  }
}

}  // namespace carat::grammar
