#include "io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "io/checkpoint_writer.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

std::string file_of(const std::string& tensor, const std::string& bytes = "abcd") {
  return safetensors_file({{tensor, "U8", {static_cast<int64_t>(bytes.size())}, bytes}});
}

class CheckpointTest : public ::testing::Test {
 protected:
  void write_index(const std::string& weight_map) const {
    directory_.write("model.safetensors.index.json",
                     R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
  }
  void expect_open_fails(ErrorKind kind, const std::vector<std::string_view>& parts) const {
    expect_error(kind, parts, [&] { Checkpoint::open(directory_.path()); });
  }
  TempDirectory directory_;
};

TEST_F(CheckpointTest, OpensASingleFile) {
  const float values[] = {1.5f, -2.f};
  const std::string bytes(reinterpret_cast<const char*>(values), sizeof values);
  // One byte before it: the format does not align data, so readers must copy.
  directory_.write("model.safetensors",
                   safetensors_file({{"odd", "U8", {1}, "!"}, {"w", "F32", {1, 2}, bytes}}));
  const auto checkpoint = Checkpoint::open(directory_.path());
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_EQ(checkpoint->files().size(), 1u);
  EXPECT_EQ(checkpoint->directory(), directory_.path());
  EXPECT_EQ(checkpoint->find("missing"), nullptr);
  const Tensor* w = checkpoint->find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(checkpoint->file_name(*w), "model.safetensors");
  float read[2];
  ASSERT_EQ(w->bytes.size(), sizeof read);
  std::memcpy(read, w->bytes.data(), sizeof read);
  EXPECT_EQ(read[1], -2.f);
}

TEST_F(CheckpointTest, OpensTheShardsOfAnIndex) {
  directory_.write("model-1.safetensors", file_of("a", "first"));
  directory_.write("model-2.safetensors", file_of("b", "second"));
  write_index(R"({"b":"model-2.safetensors","a":"model-1.safetensors"})");
  const auto checkpoint = Checkpoint::open(directory_.path());
  ASSERT_EQ(checkpoint->files().size(), 2u);
  const Tensor* b = checkpoint->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(std::memcmp(b->bytes.data(), "second", 6), 0);
  EXPECT_EQ(checkpoint->file_name(*b), "model-2.safetensors");
}

TEST_F(CheckpointTest, PrefersTheSingleFileToAnIndex) {
  directory_.write("model.safetensors", file_of("whole"));
  write_index(R"({"a":"gone.safetensors"})");
  EXPECT_NE(Checkpoint::open(directory_.path())->find("whole"), nullptr);
}

TEST_F(CheckpointTest, KeepsTensorsThatTheIndexForgot) {
  directory_.write("s", safetensors_file({{"a", "U8", {1}, "1"}, {"extra", "U8", {1}, "2"}}));
  write_index(R"({"a":"s"})");
  EXPECT_NE(Checkpoint::open(directory_.path())->find("extra"), nullptr);
}

TEST_F(CheckpointTest, SaysWhatIsMissing) {
  expect_open_fails(ErrorKind::not_found, {directory_.path().native(), "no model.safetensors"});
  expect_error(ErrorKind::not_found, {"nowhere", "no such directory"},
               [&] { Checkpoint::open(directory_.path() / "nowhere"); });
  const auto file = directory_.write("file", "x");
  expect_error(ErrorKind::not_found, {"file", "not a directory"}, [&] { Checkpoint::open(file); });
}

TEST_F(CheckpointTest, RefusesPathsThatAreNoFiles) {
  std::filesystem::create_directory(directory_.path() / "model.safetensors");
  expect_open_fails(ErrorKind::not_found, {"model.safetensors", "not a regular file"});
}

TEST_F(CheckpointTest, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo((directory_.path() / "model.safetensors").c_str(), 0600), 0);
  expect_open_fails(ErrorKind::not_found, {"model.safetensors", "not a regular file"});
}

TEST_F(CheckpointTest, ReportsABrokenLink) {
  std::filesystem::create_symlink("blobs/gone", directory_.path() / "model.safetensors");
  expect_open_fails(ErrorKind::not_found, {"model.safetensors", "No such file"});
}

TEST_F(CheckpointTest, ReportsAnUnreadableFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root can read every file";
  const auto path = directory_.write("model.safetensors", file_of("a"));
  std::filesystem::permissions(path, std::filesystem::perms::none);
  expect_open_fails(ErrorKind::not_found, {"model.safetensors", "Permission denied"});
}

TEST_F(CheckpointTest, RefusesAFileCutAnywhere) {
  const std::string whole = file_of("tensor", std::string(64, 'x'));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    directory_.write("model.safetensors", whole.substr(0, length));
    expect_open_fails(ErrorKind::corrupt, {"model.safetensors"});
  }
}

TEST_F(CheckpointTest, RefusesAMissingShard) {
  directory_.write("s1", file_of("a"));
  write_index(R"({"a":"s1","b":"s2"})");
  expect_open_fails(ErrorKind::not_found, {"s2", "missing", "model.safetensors.index.json"});
}

TEST_F(CheckpointTest, RefusesATensorThatIsNotInItsShard) {
  directory_.write("s1", file_of("a"));
  directory_.write("s2", file_of("b"));
  write_index(R"({"a":"s1","b":"s2","c":"s2"})");
  expect_open_fails(ErrorKind::corrupt, {"s2", "\"c\"", "not in it"});
  write_index(R"({"a":"s2","b":"s1"})");
  expect_open_fails(ErrorKind::corrupt, {"s2", "\"a\"", "not in it"});
}

TEST_F(CheckpointTest, RefusesATensorInTwoShards) {
  directory_.write("s1", file_of("a"));
  directory_.write("s2", safetensors_file({{"b", "U8", {1}, "b"}, {"a", "U8", {1}, "a"}}));
  write_index(R"({"a":"s1","b":"s2"})");
  expect_open_fails(ErrorKind::corrupt, {"s2", "\"a\"", "also in s1"});
}

TEST_F(CheckpointTest, RefusesShardsOutsideTheDirectory) {
  for (const char* shard : {"../s", "/etc/passwd", "..", ".", "", "sub/s", "sub\\\\s", "s\\u0000x"}) {
    write_index(R"({"a":")" + std::string(shard) + "\"}");
    expect_open_fails(ErrorKind::corrupt, {"model.safetensors.index.json", "\"a\"", "not a plain file name"});
  }
}

TEST_F(CheckpointTest, RefusesABrokenIndex) {
  const auto write = [&](std::string_view text) { directory_.write("model.safetensors.index.json", text); };
  write("");
  expect_open_fails(ErrorKind::corrupt, {"index.json", "not valid JSON"});
  write("[]");
  expect_open_fails(ErrorKind::corrupt, {"index.json", "not a JSON object"});
  write("{}");
  expect_open_fails(ErrorKind::corrupt, {"index.json", "weight_map", "missing"});
  write_index("[]");
  expect_open_fails(ErrorKind::corrupt, {"weight_map", "must be an object"});
  write_index("{}");
  expect_open_fails(ErrorKind::corrupt, {"lists no tensor"});
  write_index(R"({"a":5})");
  expect_open_fails(ErrorKind::corrupt, {"weight_map.a = 5"});
  write_index(R"({"a":"s1","a":"s2"})");
  expect_open_fails(ErrorKind::corrupt, {"\"a\"", "twice"});
}

}  // namespace
}  // namespace carat
