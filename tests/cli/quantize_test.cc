#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace carat {
namespace {

TEST(Quantize, WritesACheckpointThatRunsLikeTheFormatAtLoad) {
  const TempDirectory directory;
  const std::string output = directory.path() / "int8";
  const Finished written =
      run_program({"quantize", kTestData + "tiny", output, "--format", "int8", "-t", "2"});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(written.out, testing::HasSubstr(output));
  EXPECT_EQ(written.err, "");
  const Finished inspected = run_program({"inspect", output});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, testing::HasSubstr("U8"));
}

TEST(Quantize, RefusesAnExistingDirectory) {
  const TempDirectory directory;
  expect_one_line_error(run_program({"quantize", kTestData + "tiny", directory.path()}), 1, "exists already");
}

TEST(Quantize, ReplacesWhatAnInterruptedRunLeft) {
  const TempDirectory directory;
  const std::string output = directory.path() / "int8";
  directory.write("int8.part/.writing", "");
  directory.write("int8.part/model.safetensors.part", "half");
  EXPECT_EQ(run_program({"quantize", kTestData + "tiny", output}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(output + ".part"));
  EXPECT_FALSE(std::filesystem::exists(output + "/.writing"));
}

TEST(Quantize, LeavesAPartAloneThatIsNotItsOwn) {
  const TempDirectory directory;
  const auto precious = directory.write("int8.part/thesis.txt", "years of work");
  expect_one_line_error(run_program({"quantize", kTestData + "tiny", directory.path() / "int8"}), 1,
                        "not what an interrupted run left");
  EXPECT_EQ(read_text(precious), "years of work");
}

TEST(Quantize, FailedWriteLeavesNothing) {
  const TempDirectory directory;
  const struct rlimit small{100000, RLIM_INFINITY};
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Finished finished = run_program({"quantize", kTestData + "tiny", directory.path() / "int8"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  expect_one_line_error(finished, 1, "int8.part");
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Quantize, NamesTheWeightThatIsNotFinite) {
  const TempDirectory copy;
  copy_checkpoint(kTestData + "tiny", copy);
  const auto file = copy.path() / "model.safetensors";
  std::fstream weights(file, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header_bytes = 0;
  weights.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  std::string header(header_bytes, ' ');
  weights.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const std::string name = "model.language_model.layers.1.mlp.up_proj.weight";
  const auto tensor = nlohmann::json::parse(header).at(name);
  ASSERT_EQ(tensor.at("dtype"), "BF16");
  const uint64_t cols = tensor.at("shape")[1], begin = tensor.at("data_offsets")[0];
  weights.seekp(static_cast<std::streamoff>(8 + header_bytes + begin + 2 * (3 * cols + 5)));
  weights.write("\xc0\x7f", 2);
  weights.close();
  const std::string where = file.string() + ": tensor \"" + name + "\", row 3, column 5 is nan";
  expect_one_line_error(run_program({"quantize", copy.path(), copy.path() / "out"}), 1, where);
  expect_one_line_error(run_program({"bench", copy.path(), "--format", "int4"}), 1, where);
}

TEST(Quantize, EmptyTensorBesideAMatrixIsNoMatrix) {
  const TempDirectory copy;
  copy_checkpoint(kTestData + "tiny", copy);
  const auto file = copy.path() / "model.safetensors";
  const std::string bytes = read_text(file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  auto header = nlohmann::json::parse(bytes.substr(8, length));
  const std::string data = bytes.substr(8 + length);
  // Before the name of every matrix, at the place of one.
  const uint64_t begin = header["model.language_model.layers.1.mlp.up_proj.weight"]["data_offsets"][0];
  header["a"] = {{"dtype", "BF16"}, {"shape", {0}}, {"data_offsets", {begin, begin}}};
  const std::string text = header.dump();
  length = text.size();
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, sizeof length);
  copy.write("model.safetensors", prefix + text + data);
  const Finished finished = run_program({"quantize", copy.path(), copy.path() / "out"});
  EXPECT_EQ(finished.code, 0) << finished.err;
}

TEST(Quantize, OutputMayEndInDots) {
  const TempDirectory directory;
  EXPECT_EQ(run_program({"quantize", kTestData + "tiny", directory.path().string() + "/new/."}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "new" / "config.json"));
  expect_one_line_error(
      run_program({"quantize", kTestData + "tiny", directory.path().string() + "/other/.."}), 1,
      "/other/.. exists already");
}

TEST(Quantize, SideFileThatCannotBeReadIsAnError) {
  const TempDirectory copy, out;
  copy_checkpoint(kTestData + "tiny", copy);
  std::filesystem::create_symlink("nowhere", copy.path() / "tokenizer.json");
  expect_one_line_error(run_program({"quantize", copy.path(), out.path() / "int8"}), 1,
                        "tokenizer.json: can't be copied: No such file");
  EXPECT_TRUE(std::filesystem::is_empty(out.path()));
}

TEST(Quantize, RefusesOtherFormats) {
  expect_one_line_error(run_program({"quantize", kTestData + "tiny", "out", "--format", "int2"}), 2, "int2");
}

}  // namespace
}  // namespace carat
