#include "io/safetensors_header.h"

#include <gtest/gtest.h>

#include "io/checkpoint_writer.h"
#include "support/expect_error.h"

namespace carat {
namespace {

std::vector<Tensor> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "m.st");
}

/// One F32 tensor "x" of two elements, its header written out by the test.
std::string with_header(const std::string& header, std::size_t data_bytes = 8) {
  return safetensors_file(header, std::string(data_bytes, '\1'));
}

void expect_corrupt(const std::string& file, std::vector<std::string_view> parts) {
  parts.push_back("m.st");
  expect_error(ErrorKind::corrupt, parts, [&] { parse(file); });
}

TEST(SafetensorsHeader, ListsTensorsInFileOrder) {
  const std::string file = with_header(
      R"({"__metadata__":{"format":"pt","n":"1"},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},)"
      R"("a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}})");
  const std::vector<Tensor> tensors = parse(file);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].dtype, DType::f32);
  EXPECT_TRUE(tensors[0].shape.empty());
  EXPECT_EQ(tensors[0].bytes.size(), 4u);
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(tensors[1].bytes.data(), tensors[0].bytes.data() + 4);
}

TEST(SafetensorsHeader, AcceptsAFileWithoutTensorsAndTensorsWithoutElements) {
  EXPECT_TRUE(parse(safetensors_file("{}", "")).empty());
  const auto tensors =
      parse(safetensors_file({{"none", "F32", {0, 7}, ""}, {"x", "U8", {3}, "abc"}, {"end", "I8", {0}, ""}}));
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].bytes.size(), 0u);
}

TEST(SafetensorsHeader, AcceptsSpacesAfterTheJson) {
  EXPECT_EQ(parse(with_header(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}     )")).size(), 1u);
}

TEST(SafetensorsHeader, MetadataHoldsTextsOnly) {
  for (const char* value : {"{}", "null", R"({"a":"b"})"}) {
    EXPECT_TRUE(parse(safetensors_file("{\"__metadata__\":" + std::string(value) + "}", "")).empty());
  }
  for (const char* value :
       {"1", "[]", "\"x\"", R"({"a":1})", R"({"a":null})", R"({"a":{}})", R"({"a":["b"]})"}) {
    expect_corrupt(safetensors_file("{\"__metadata__\":" + std::string(value) + "}", ""), {"__metadata__"});
  }
}

TEST(SafetensorsHeader, KeepsTensorsOfUnknownDtype) {
  const auto tensors =
      parse(safetensors_file({{"vision", "F4", {3, 4}, "123456"}, {"x", "F32", {1}, "abcd"}}));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].dtype, DType::other);
  EXPECT_EQ(tensors[0].dtype_name, "F4");
  EXPECT_EQ(tensors[0].bytes.size(), 6u);
}

TEST(SafetensorsHeader, KnowsTheSizeOfEveryDtype) {
  const std::vector<std::pair<const char*, std::size_t>> sizes{
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},     {"I32", 4},
      {"I16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [dtype, bytes] : sizes) {
    const auto tensors = parse(safetensors_file({{"x", dtype, {3}, std::string(3 * bytes, 'x')}}));
    EXPECT_EQ(size_bytes(tensors.at(0).dtype), bytes);
    EXPECT_EQ(name(tensors.at(0).dtype), dtype);
  }
}

TEST(SafetensorsHeader, RefusesFilesTooShortForAHeader) {
  for (const std::string file : {"", "1234567"})
    expect_corrupt(file, {std::to_string(file.size()) + " bytes"});
  expect_corrupt(std::string("\x02\0\0\0\0\0\0\0", 8), {"cut", "2 bytes", "only 0"});
}

TEST(SafetensorsHeader, RefusesAHeaderLongerThanTheFile) {
  expect_corrupt(safetensors_file("{}", "", 3), {"cut", "header has 3 bytes", "only 2"});
  expect_corrupt(safetensors_file("{}", "", INT64_MAX), {"not a safetensors file", "9223372036854775807"});
  expect_corrupt("PK\3\4 this is a zip file", {"not a safetensors file"});
}

TEST(SafetensorsHeader, RecognisesALargeFileThatWasNotDownloaded) {
  expect_corrupt("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
                 {"Git LFS", "git lfs pull"});
}

TEST(SafetensorsHeader, RefusesHeadersThatAreNotJson) {
  expect_corrupt(with_header("{\"x\":"), {"not valid JSON"});
  expect_corrupt(with_header("{} {}"), {"not valid JSON"});
  expect_corrupt(with_header(" {}"), {"does not start with '{'"});
  expect_corrupt(with_header("\xef\xbb\xbf{}"), {"does not start with '{'"});
  expect_corrupt(with_header("[]"), {"does not start with '{'"});
  expect_corrupt(with_header(std::string("{}\0garbage", 10)), {"byte 2 of it is 0"});
  expect_corrupt(with_header("{\"\xff\":{}}"), {"not valid JSON"});
  expect_corrupt(with_header("{\"x\":{\"dtype\":\"F32\",\"shape\":[NaN]}}"), {"not valid JSON"});
  expect_corrupt(with_header("{\"x\":{\"shape\":[1e999]}}"), {"not valid JSON"});
}

TEST(SafetensorsHeader, RefusesValuesThatDoNotBelong) {
  for (const char* value : {"1", "\"F32\"", "null", "true", "[]", "1.5", "-1"}) {
    expect_corrupt(with_header("{\"x\":" + std::string(value) + "}"), {"\"x\"", "holds"});
  }
}

TEST(SafetensorsHeader, NestingCostsNoStack) {
  expect_corrupt(with_header("{\"x\":" + std::string(1 << 20, '[')), {"\"x\""});
  expect_corrupt(with_header("{\"__metadata__\":{\"a\":" + std::string(1 << 20, '{')), {"__metadata__"});
}

struct BadTensor {
  const char* why;
  const char* fields;
  std::vector<std::string_view> parts;
};

class BadTensors : public ::testing::TestWithParam<BadTensor> {};

TEST_P(BadTensors, AreRefused) {
  std::vector<std::string_view> parts = GetParam().parts;
  parts.push_back("\"x\"");
  expect_corrupt(with_header("{\"x\":{" + std::string(GetParam().fields) + "}}"), parts);
}

INSTANTIATE_TEST_SUITE_P(
    SafetensorsHeader, BadTensors,
    ::testing::Values(
        BadTensor{"NoDtype", R"("shape":[2],"data_offsets":[0,8])", {"no dtype"}},
        BadTensor{"NoShape", R"("dtype":"F32","data_offsets":[0,8])", {"no shape"}},
        BadTensor{"NoOffsets", R"("dtype":"F32","shape":[2])", {"no data_offsets"}},
        BadTensor{"OneOffset", R"("dtype":"F32","shape":[2],"data_offsets":[0])", {"no data_offsets"}},
        BadTensor{"ThreeOffsets", R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])", {"number 8"}},
        BadTensor{
            "FieldTwice", R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])", {"dtype twice"}},
        BadTensor{"UnknownField", R"("dtype":"F32","scale":1)", {"\"scale\""}},
        BadTensor{"DtypeIsNumber", R"("dtype":32,"shape":[2],"data_offsets":[0,8])", {"number 32"}},
        BadTensor{"DtypeIsList", R"("dtype":["F32"])", {"list"}},
        BadTensor{"ShapeIsText", R"("dtype":"F32","shape":"2")", {"\"2\""}},
        BadTensor{"ShapeInShape", R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])", {"list"}},
        BadTensor{"ObjectInShape", R"("dtype":"F32","shape":[{}],"data_offsets":[0,8])", {"object"}},
        BadTensor{"NegativeDimension", R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", {"-2"}},
        BadTensor{"FractionalDimension", R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])", {"2.0"}},
        BadTensor{"HugeDimension",
                  R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])",
                  {"9223372036854775808"}},
        BadTensor{"DimensionBeyond64Bits",
                  R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8])",
                  {"99999999999999999999"}},
        BadTensor{"ShapeOverflows",
                  R"("dtype":"F32","shape":[4294967296,1073741824,4],"data_offsets":[0,8])",
                  {"impossible shape"}},
        BadTensor{"ShapeTooBig", R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", {"8 bytes", "12"}},
        BadTensor{"ShapeTooSmall",
                  R"("dtype":"BF16","shape":[2],"data_offsets":[0,8])",
                  {"8 bytes", "BF16", "need 4"}},
        BadTensor{"NegativeOffset", R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])", {"-8"}},
        BadTensor{"EndBeforeStart", R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", {"ends at 0"}},
        BadTensor{"BeyondTheFile",
                  R"("dtype":"F32","shape":[3],"data_offsets":[0,12])",
                  {"cut", "12", "4 missing"}},
        BadTensor{"OffsetsNearOverflow",
                  R"("dtype":"F32","shape":[2],"data_offsets":[18446744073709551607,18446744073709551615])",
                  {"cut", "18446744073709551615"}}),
    [](const auto& test) { return std::string(test.param.why); });

TEST(SafetensorsHeader, RefusesTheSameNameTwice) {
  expect_corrupt(safetensors_file({{"x", "U8", {1}, "a"}, {"x", "U8", {1}, "b"}}), {"\"x\" twice"});
}

TEST(SafetensorsHeader, RefusesOverlapsGapsAndTrailingBytes) {
  const auto two = [](int a_end, int b_begin, std::size_t data_bytes) {
    return with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(a_end) +
                           "],\"data_offsets\":[0," + std::to_string(a_end) +
                           "]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" +
                           std::to_string(b_begin) + "," + std::to_string(b_begin + 4) + "]}}",
                       data_bytes);
  };
  EXPECT_EQ(parse(two(4, 4, 8)).size(), 2u);
  expect_corrupt(two(5, 4, 8), {"\"b\"", "byte 4", "inside", "\"a\"", "ends at 5"});
  expect_corrupt(two(4, 6, 10), {"\"b\"", "byte 6", "gap", "\"a\"", "ends at 4"});
  expect_corrupt(two(4, 4, 24), {"16 bytes follow the last tensor", "byte 8"});
  expect_corrupt(two(4, 4, 7), {"\"b\"", "1 missing"});
  expect_corrupt(safetensors_file("{}", "x"), {"1 bytes follow"});
}

TEST(SafetensorsHeader, MessagesStayOnOneLine) {
  expect_corrupt(with_header("{\"a\\nb\\u001b[31m\":{}}"), {"\"a\\x0ab\\x1b[31m\""});
  expect_corrupt(with_header("{\"" + std::string(5000, 'n') + "\":{}}"), {"nnn...\""});
}

}  // namespace
}  // namespace carat
