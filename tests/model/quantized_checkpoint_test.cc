#include "model/quantized_checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "model/formats.h"
#include "model/gemma4_plan.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

struct Model {
  ModelConfig config;
  std::shared_ptr<const Checkpoint> checkpoint;
  ModelPlan plan;

  explicit Model(const std::filesystem::path& directory)
      : config(load_model_config(directory)),
        checkpoint(Checkpoint::open(directory)),
        plan(make_plan(config, checkpoint)) {}
};

std::vector<float> row_of(const Linear& w, int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(w.cols));
  decode_row(w, row, values.data());
  return values;
}

/// A row's values after a passage through `format`.
std::vector<float> through(WeightFormat format, const std::vector<float>& row) {
  const auto cols = static_cast<int64_t>(row.size());
  std::vector<std::byte> encoded(row_bytes(format, cols));
  encode_row(format, row.data(), cols, encoded.data());
  return row_of({format, 1, cols, encoded.data()}, 0);
}

TEST(FormatOfRole, KeepsMoreBitsWhereFewHurt) {
  EXPECT_EQ(format_of_role("gate", WeightFormat::bf16, WeightFormat::int4), WeightFormat::int4);
  EXPECT_EQ(format_of_role("head", WeightFormat::bf16, WeightFormat::int4), WeightFormat::int8);
  EXPECT_EQ(format_of_role("ple_gate", WeightFormat::bf16, WeightFormat::int4), WeightFormat::int8);
  EXPECT_EQ(format_of_role("head", WeightFormat::bf16, WeightFormat::int8), WeightFormat::int8);
  EXPECT_EQ(format_of_role("router", WeightFormat::bf16, WeightFormat::int8), WeightFormat::bf16);
}

class QuantizedCheckpoint : public testing::TestWithParam<std::pair<const char*, WeightFormat>> {
 protected:
  const std::filesystem::path source_ = test_checkpoint(GetParam().first);
  const WeightFormat format_ = GetParam().second;
  const TempDirectory directory_;
  const std::filesystem::path output_ = directory_.path() / "quantized";
  ThreadPool pool_{3};

  void write(const std::filesystem::path& source) {
    const Model model(source);
    write_quantized_checkpoint(model.config, model.checkpoint, format_, output_, pool_, [](double) {});
  }
};

TEST_P(QuantizedCheckpoint, HoldsEveryMatrixInItsFormatAndAllElseAsItWas) {
  write(source_);
  Model before(source_), after(output_);
  std::vector<std::pair<const char*, Linear>> originals;
  for_each_linear(before.plan, [&](const char* role, Linear& w) { originals.emplace_back(role, w); });
  std::size_t i = 0;
  for_each_linear(after.plan, [&](const char* role, Linear& w) {
    const auto& [expected_role, original] = originals.at(i++);
    SCOPED_TRACE(role);
    ASSERT_STREQ(role, expected_role);
    const WeightFormat format = format_of_role(role, original.format, format_);
    EXPECT_EQ(w.format, format);
    for (const int64_t row : {int64_t{0}, w.rows - 1}) {
      const std::vector<float> values = row_of(original, row);
      EXPECT_EQ(row_of(w, row), format == original.format ? values : through(format, values));
    }
  });
  EXPECT_EQ(i, originals.size());
  EXPECT_EQ(before.plan.head.data == before.plan.embed.data, after.plan.head.data == after.plan.embed.data);
  for (std::size_t l = 0; l < before.plan.layers.size(); ++l) {
    const LayerPlan &a = before.plan.layers[l], &b = after.plan.layers[l];
    EXPECT_TRUE(std::ranges::equal(a.post_ffn, b.post_ffn));
    EXPECT_TRUE(std::ranges::equal(a.tail.next_norm, b.tail.next_norm));
    EXPECT_EQ(a.tail.scalar, b.tail.scalar);
  }
}

TEST_P(QuantizedCheckpoint, ReportsProgressUpToTheEnd) {
  const Model model(source_);
  double last = 0;
  write_quantized_checkpoint(model.config, model.checkpoint, format_, output_, pool_, [&](double fraction) {
    EXPECT_GE(fraction, last);
    last = fraction;
  });
  EXPECT_EQ(last, 1.0);
}

TEST_P(QuantizedCheckpoint, CannotBeQuantisedAgainOrWrittenOver) {
  write(source_);
  expect_error(ErrorKind::invalid_argument, {"exists already"}, [&] { write(source_); });
  const Model quantized(output_);
  expect_error(ErrorKind::invalid_argument, {"is already int"}, [&] {
    write_quantized_checkpoint(quantized.config, quantized.checkpoint, format_, directory_.path() / "again",
                               pool_, [](double) {});
  });
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "again"));
}

INSTANTIATE_TEST_SUITE_P(
    Models, QuantizedCheckpoint,
    testing::Values(std::pair{"tiny", WeightFormat::int8}, std::pair{"tiny", WeightFormat::int4},
                    std::pair{"tiny-dense", WeightFormat::int4}, std::pair{"tiny-moe", WeightFormat::int8},
                    std::pair{"tiny-moe", WeightFormat::int4}, std::pair{"demo", WeightFormat::int8}),
    [](const auto& variant) {
      std::string name = variant.param.first;
      std::erase(name, '-');
      return name + "_" + format_name(variant.param.second);
    });

TEST(WriteQuantizedCheckpoint, CopiesTokenizerAndConfigurationButNoWeights) {
  const TempDirectory directory;
  const std::filesystem::path source = test_checkpoint("demo"), output = directory.path() / "q";
  const Model model(source);
  ThreadPool pool(1);
  write_quantized_checkpoint(model.config, model.checkpoint, WeightFormat::int4, output, pool, [](double) {});
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(output / name)) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(output / "model.safetensors.index.json"));
}

}  // namespace
}  // namespace carat
