// What schemas allow and what not, value by value, and which schemas are refused.
#include "grammar/json_schema.h"

#include "grammar/masked_reply.h"
#include "support/expect_error.h"

namespace carat {
namespace {

struct Case {
  const char* schema;
  std::vector<std::string> valid, invalid;
};

void expect_cases(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    SCOPED_TRACE(test.schema);
    MaskedReply reply(demo_tokenizer(), demo_compiler().json_schema(test.schema, Thinking::off));
    for (const bool bytes : {false, true}) {
      for (const std::string& text : test.valid) EXPECT_EQ(reply.first_refused(text, bytes), -1) << text;
      for (const std::string& text : test.invalid) EXPECT_NE(reply.first_refused(text, bytes), -1) << text;
    }
  }
}

TEST(JsonSchema, Objects) {
  expect_cases({
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],
           "additionalProperties":false})",
       {R"({"a":1})", R"({"a": -20, "b": "x"})", "{\n  \"a\": 3,\n  \"b\": \"\"\n}",
        R"({"a":0,"b":"\u00e9é\ud83d\ude00"})"},
       {"{}", R"({"b":"x"})", R"({"b":"x","a":1})", R"({"a":1,"c":2})", R"({"a":1,"a":2})", R"({"a":01})",
        R"({"a":1.5})", R"({"a" :1})", "{\n\n\"a\":1}", R"({"a":1} )", R"({"a":1,})",
        R"({"a":1,"b":"\ud83d"})"}},

      {R"({"type":"object","properties":{"id":{"type":"integer"}},
           "additionalProperties":{"type":"boolean"}})",
       {"{}", R"({"id":1})", R"({"id":1,"ids":true,"i":false})", R"({"x":true})", R"({"":true,"é":true})"},
       {R"({"x":true,"id":1})", R"({"\u0069d":true})", R"({"id":true})", R"({"x":1})"}},
      {R"({"type":"object","properties":{"a":true,"b":false},"minProperties":1})",
       {R"({"a":[1,{"x":null}]})", R"({"c":1})"},
       {"{}", R"({"b":1})", R"({"a":1,"b":1})"}},
      {R"({"required":["x"],"properties":{"y":{"type":"null"}}})",
       {R"({"y":null,"x":1})", R"({"x":{}})"},
       {"{}", R"({"y":null})", "[]"}},
  });
}

TEST(JsonSchema, Arrays) {
  expect_cases({
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1, 2]", "[1,2,3]", "[\n  1,\n  2\n]"},
       {"[]", "[1,2,3,4]", "[1,]", "[true]", "[,1]"}},
      {R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false})",
       {"[]", R"(["a"])", R"(["a",1])"},
       {"[1]", R"(["a",1,2])"}},
      {R"({"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"boolean"},"minItems":2})",
       {"[null,true]", "[null,true,false]"},
       {"[null]", "[true,true]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
  });
}

TEST(JsonSchema, Texts) {
  expect_cases({
      {R"({"type":"string","minLength":2,"maxLength":4})",
       {R"("ab")", R"("abcd")", R"("éé😀é")", R"("\n\"")", R"("\ud83d\ude00\u00e9")"},
       {R"("a")", R"("abcde")", R"("😀")", R"("\ud83d\ude00")", R"("\udead\udead")", "\"a\nb\""}},
      {R"({"type":"string","pattern":"^[a-c]+(x|yz)?$"})",
       {R"("a")", R"("abcx")", R"("ayz")"},
       {R"("")", R"("x")", R"("ay")", R"("aX")"}},
      {R"({"type":"string","pattern":"\\d{2}"})",
       {R"("12")", R"("a12b")", R"("é\"12\\")"},
       {R"("1")", R"("1a2")"}},
      {R"({"type":"string","pattern":"^[^a]*$","maxLength":3})",
       {R"("")", R"("bé\"")", R"("\n\u0001\\")"},
       {R"("a")", R"("bbbb")", R"("\u0061")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-29")", R"("1999-12-31")"},
       {R"("2023-02-29")", R"("2023-13-01")", R"("2023-04-31")", R"("0000-01-01")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-01-02T03:04:05Z")", R"("2024-01-02T03:04:05.123+01:00")"},
       {R"("2024-01-02")", R"("2024-01-02T25:04:05Z")"}},
      {R"({"type":"string","format":"email"})", {R"("a.b@c.de")"}, {R"("a@b")", R"("@b.c")"}},
      {R"({"type":"string","format":"uuid"})",
       {R"("01234567-89ab-cdef-0123-456789abcdef")"},
       {R"("01234567-89ab-cdef-0123-456789abcde")"}},
  });
}

TEST(JsonSchema, Numbers) {
  expect_cases({
      {R"({"type":"number"})",
       {"0", "-0", "12.5", "1e5", "-1.5E-07", "0.1e+10"},
       {"01", "1.", ".5", "+1", "1e", "1e1000", "NaN", "--1"}},
      {R"({"type":"integer","minimum":-5,"maximum":120})",
       {"-5", "-1", "0", "7", "99", "100", "120"},
       {"-6", "121", "1000", "-10", "1.0"}},
      {R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":12.5})",
       {"10", "11", "12"},
       {"9", "13", "1", "100", "-10"}},
      {R"({"type":"number","minimum":0.25,"maximum":1.5})",
       {"0.25", "0.3", "1", "1.0", "1.5", "1.50", "1.4999"},
       {"0.2", "0", "1.51", "1.6", "2", "10", "-1", "-0.5"}},
      {R"({"type":"number","exclusiveMinimum":0})", {"0.001", "5", "123.5"}, {"0", "-1", "0.0", "-0"}},
      {R"({"type":"number","maximum":-1.5})", {"-1.5", "-2", "-100.25"}, {"-1.4", "0", "1", "-1"}},
      {R"({"type":"integer","multipleOf":15,"minimum":1})", {"15", "30", "3000"}, {"0", "5", "31", "-15"}},
  });
}

TEST(JsonSchema, ChoicesAndReferences) {
  expect_cases({
      {R"({"enum":["red","green",null,3,[1,{"a":2}]]})",
       {R"("red")", R"("green")", "null", "3", R"([1,{"a":2}])", R"([1, {"a": 2}])"},
       {R"("re")", R"("redd")", "33", "[1]"}},
      {R"({"const":{"a":"b"}})", {R"({"a":"b"})"}, {"{}", R"({"a":"c"})"}},
      {R"({"type":["string","null"]})", {R"("x")", "null"}, {"1"}},
      {R"({"type":"integer","nullable":true})", {"1", "null"}, {R"("1")"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"k":{"const":"a"}},
           "required":["k"]}]})",
       {"1", R"({"k":"a"})", R"({"k":"a","z":1})"},
       {R"({"k":"b"})", "{}"}},
      {R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},
           "required":["kind","x"],"additionalProperties":false},
           {"type":"object","properties":{"kind":{"enum":["b","c"]}},"required":["kind"]}]})",
       {R"({"kind":"a","x":1})", R"({"kind":"c"})"},
       {R"({"kind":"a"})", R"({"kind":"b","kind":"c"})"}},
      {R"({"allOf":[{"$ref":"#/$defs/base"},{"type":"object","properties":{"b":{"type":"integer"}},
           "required":["b"]}],
           "$defs":{"base":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}})",
       {R"({"a":"x","b":1})"},
       {R"({"a":"x"})", R"({"b":1})"}},
      {R"({"type":"object","properties":{"value":{"type":"integer"},
           "next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
           "required":["value","next"],"additionalProperties":false})",
       {R"({"value":1,"next":null})", R"({"value":1,"next":{"value":2,"next":{"value":3,"next":null}}})"},
       {R"({"value":1})", R"({"value":1,"next":{}})"}},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", {"null"}, {"1"}},
      {R"({"allOf":[{"type":"string","nullable":true},{"type":"string"}]})", {R"("x")"}, {"null"}},
      {R"({"allOf":[{"type":"string","nullable":true},{"type":["string","null"]}]})",
       {R"("x")", "null"},
       {"1"}},
      {R"({"type":"object","anyOf":[{"required":["a"],"nullable":true}]})", {R"({"a":1})"}, {"null", "{}"}},
      {R"({"nullable":true,"anyOf":[{"type":"integer"},{"type":"boolean"}]})", {"null", "1"}, {R"("x")"}},
  });
}

TEST(JsonSchema, AnyObject) {
  MaskedReply reply(demo_tokenizer(), demo_compiler().json_object(Thinking::off));
  for (const char* text : {"{}", R"({"a": [1, 2.5e3, {"b": null}], "c": "\u00e9"})",
                           "{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}"})
    EXPECT_EQ(reply.first_refused(text, false), -1) << text;
  for (const char* text : {"[]", "1", R"({"a"})", R"({"a":1)", "{  }", R"({"a":	1})"})
    EXPECT_NE(reply.first_refused(text, false), -1) << text;
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += R"({"a":)";
  EXPECT_NE(reply.first_refused(deep, false), static_cast<int>(deep.size())) << "nesting is bounded";
}

TEST(JsonSchema, RefusesWhatItCannotKeep) {
  const auto refused = [](ErrorKind kind, const char* schema, std::vector<std::string_view> parts) {
    SCOPED_TRACE(schema);
    expect_error(kind, parts, [&] { demo_compiler().json_schema(schema, Thinking::off); });
  };
  using enum ErrorKind;
  refused(unsupported, R"({"properties":{"tags":{"type":"array","uniqueItems":true}}})",
          {"#/properties/tags", "\"uniqueItems\""});
  refused(unsupported, R"({"type":"object","patternProperties":{}})", {"#: ", "\"patternProperties\""});
  refused(unsupported, R"({"not":{}})", {"\"not\""});
  refused(unsupported, R"({"if":{},"then":{}})", {"\"if\""});
  refused(unsupported, R"x({"type":"string","pattern":"^a(?=b)"})x", {"\"pattern\"", "group", "byte 3"});
  refused(unsupported, R"x({"type":"string","pattern":"(a"})x", {"\"pattern\""});
  refused(unsupported, R"({"type":"string","pattern":"^a\\!\\q$"})", {"\"pattern\""});
  refused(unsupported, R"({"type":"string","format":"idn-email"})", {"\"format\"", "idn-email"});
  refused(unsupported, R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"\"oneOf\""});
  refused(unsupported, R"({"type":"number","multipleOf":0.01})", {"\"multipleOf\""});
  refused(unsupported, R"({"$ref":"http://example.com/s"})", {"\"$ref\""});
  refused(unsupported, R"({"enum":["a"],"minLength":3})", {"\"minLength\""});
  refused(unsupported, R"({"allOf":[{"prefixItems":[{"type":"string"}]},{"items":{"type":"integer"}}]})",
          {"\"prefixItems\"", "\"items\""});
  refused(invalid_argument, R"({"$ref":"#/$defs/missing"})", {"\"$ref\"", "missing"});
  refused(invalid_argument, R"({"type":"strin"})", {"\"type\"", "strin"});
  refused(invalid_argument, R"({"type":"string","minLength":-1})", {"\"minLength\""});
  refused(invalid_argument, R"({"type":"object","required":"a"})", {"\"required\""});
  refused(invalid_argument, "[]", {"#"});
  refused(invalid_argument, "{\"a\":1,", {"not JSON"});
  refused(invalid_argument, R"({"type":"object","type":"array"})", {"twice"});
  refused(invalid_argument, R"({"type":"string","minLength":3,"maxLength":2})", {"nothing satisfies"});
  refused(invalid_argument, R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
          {"nothing satisfies"});
  refused(invalid_argument, "false", {"nothing satisfies"});
  refused(invalid_argument, std::string(1000, '[').c_str(), {"nested"});
}

TEST(JsonSchema, NamesKeywordAndPlace) {
  try {
    demo_compiler().json_schema(R"({"anyOf":[{"type":"array","items":{"contains":{}}}]})", Thinking::off);
    FAIL();
  } catch (const SchemaError& error) {
    EXPECT_EQ(error.keyword(), "contains");
    EXPECT_EQ(error.place(), "#/anyOf/0/items");
  }
}

}  // namespace
}  // namespace carat
