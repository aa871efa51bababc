#include "io/json_object.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace carat {
namespace {

JsonObject parse(std::string_view text) { return JsonObject::parse(text, "f.json"); }

TEST(JsonObject, ReadsTypedFieldsAndFallbacks) {
  const JsonObject o =
      parse(R"({"i":5,"n":2.5,"whole":3,"b":true,"s":"text","l":["a","b"],"one":7,"many":[7,8]})");
  EXPECT_EQ(o.integer("i", 0, {0, 9}), 5);
  EXPECT_EQ(o.integer("absent", 4, {0, 9}), 4);
  EXPECT_EQ(o.number("n", 0.f, {0.f, 9.f}), 2.5f);
  EXPECT_EQ(o.number("whole", 0.f, {0.f, 9.f}), 3.f);
  EXPECT_TRUE(o.boolean("b", false));
  EXPECT_EQ(o.string("s", ""), "text");
  EXPECT_EQ(o.strings("l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.integers("one", {0, 9}), std::vector<int>{7});
  EXPECT_EQ(o.integers("many", {0, 9}), (std::vector<int>{7, 8}));
  EXPECT_TRUE(o.integers("absent", {0, 9}).empty());
}

TEST(JsonObject, NullIsAbsentOnlyWhereAskedFor) {
  const JsonObject o = parse(R"({"n":null})");
  EXPECT_FALSE(o.has("n"));
  EXPECT_TRUE(o.strings("n").empty());
  expect_error(ErrorKind::corrupt, {"f.json: n = null"}, [&] { o.integer("n", 1, {0, 9}); });
  expect_error(ErrorKind::corrupt, {"f.json: n = null"}, [&] { o.boolean("n", true); });
}

TEST(JsonObject, MessagesNameThePathAndTheValue) {
  const JsonObject inner = parse(R"({"outer":{"n":12,"t":"x\ny"}})").object("outer");
  expect_error(ErrorKind::invalid_argument, {"f.json: outer.n = 12", "from 1 to 3"},
               [&] { inner.integer("n", 1, {1, 3}); });
  expect_error(ErrorKind::corrupt, {"outer.t = \"x\\x0ay\"", "integer"},
               [&] { inner.integer("t", 1, {1, 3}); });
  expect_error(ErrorKind::corrupt, {"f.json: outer.gone: missing"}, [&] { inner.object("gone"); });
}

TEST(JsonObject, RefusesNumbersThatDoNotFit) {
  const JsonObject o =
      parse(R"({"u":18446744073709551615,"big":1e300,"neg":-9223372036854775808,"real":1.0,"list":[1,99]})");
  const Range<int> all{INT32_MIN, INT32_MAX - 1};
  expect_error(ErrorKind::invalid_argument, {"18446744073709551615"}, [&] { o.integer("u", 0, all); });
  expect_error(ErrorKind::invalid_argument, {"-9223372036854775808"}, [&] { o.integer("neg", 0, {0, 1}); });
  expect_error(ErrorKind::invalid_argument, {"big"}, [&] { o.number("big", 0.f, {0.f, 1e38f}); });
  expect_error(ErrorKind::corrupt, {"real = 1.0"}, [&] { o.integer("real", 0, all); });
  expect_error(ErrorKind::invalid_argument, {"list", "99"}, [&] { o.integers("list", {0, 9}); });
}

TEST(JsonObject, ShowsTheLineThatIsNotJson) {
  expect_error(ErrorKind::corrupt, {"f.json", "not valid JSON", "eps", "NaN"},
               [] { parse("{\n  \"a\": 1,\n  \"eps\": NaN\n}"); });
  expect_error(ErrorKind::corrupt, {"f.json", "too large"}, [] { parse(R"({"a": 1e999})"); });
  expect_error(ErrorKind::corrupt, {"f.json", "the file is empty"}, [] { parse(""); });
  expect_error(ErrorKind::corrupt, {"f.json", "nothing but blanks"}, [] { parse(" \n"); });
  expect_error(ErrorKind::corrupt, {"f.json", "ends too early, after 5 bytes"}, [] { parse("{\"a\":"); });
  expect_error(ErrorKind::corrupt, {"byte 2 is 0"}, [] { parse(std::string_view("{}\0x", 4)); });
  expect_error(ErrorKind::corrupt, {"not a JSON object"}, [] { parse("[1]"); });
}

TEST(JsonObject, GivesTheObjectsOfAList) {
  const JsonObject o = parse(R"({"list": [{"a": 1}, {"a": 2}], "text": "x", "mixed": [{}, 3]})");
  ASSERT_EQ(o.objects("list").size(), 2u);
  EXPECT_EQ(o.objects("list")[1].integer("a", 0, {0, 9}), 2);
  EXPECT_EQ(o.objects("list")[1].where("a"), "f.json: list[1].a");
  EXPECT_TRUE(o.objects("text").empty());
  EXPECT_TRUE(o.objects("absent").empty());
  expect_error(ErrorKind::corrupt, {"mixed[1]"}, [&] { o.objects("mixed"); });
}

TEST(JsonObject, RefusesRepeatedKeysAndDeepNesting) {
  expect_error(ErrorKind::corrupt, {"\"k\"", "twice"}, [] { parse(R"({"a":{"k":1,"k":2}})"); });
  EXPECT_TRUE(parse(R"({"a":{"k":1},"b":{"k":2}})").has("b"));
  expect_error(ErrorKind::corrupt, {"nested deeper than 64"},
               [] { parse("{\"a\":" + std::string(1 << 20, '[')); });
}

}  // namespace
}  // namespace carat
