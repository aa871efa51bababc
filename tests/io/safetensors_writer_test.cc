#include "io/safetensors_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>

#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

TEST(SafetensorsWriter, WritesWhatCheckpointReads) {
  const TempDirectory directory;
  const std::array<float, 6> matrix{1, 2, 3, 4, 5, 6};
  const std::array<uint8_t, 3> blocks{7, 8, 9};
  const std::vector<TensorHeader> headers{{"a \"quoted\" name", DType::f32, {2, 3}},
                                          {"b.int8", DType::u8, {3, 1}}};
  SafetensorsWriter writer(directory.path() / "model.safetensors", headers, {{"carat_format", "int8"}});
  writer.write(bytes_of(matrix).first(10));  // pieces need not end where tensors do
  writer.write(bytes_of(matrix).subspan(10));
  writer.write(bytes_of(blocks));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "model.safetensors"));
  writer.finish();

  const auto checkpoint = Checkpoint::open(directory.path());
  ASSERT_EQ(checkpoint->tensors().size(), 2u);
  const Tensor* a = checkpoint->find("a \"quoted\" name");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(std::ranges::equal(a->bytes, bytes_of(matrix)));
  EXPECT_EQ((a->bytes.data() - checkpoint->files()[0].bytes().data()) % 64, 0);
  EXPECT_TRUE(std::ranges::equal(checkpoint->find("b.int8")->bytes, bytes_of(blocks)));
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItIsNotFinished) {
  const TempDirectory directory;
  {
    const std::vector<TensorHeader> headers{{"a", DType::u8, {1}}};
    const SafetensorsWriter writer(directory.path() / "model.safetensors", headers, {});
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(SafetensorsWriter, SaysWhyAFileCannotBeWritten) {
  const TempDirectory directory;
  expect_error(ErrorKind::unavailable, {"gone", "can't be created", "No such file"},
               [&] { SafetensorsWriter(directory.path() / "gone" / "f", {}, {}); });
  const std::vector<TensorHeader> headers{{"a", DType::u8, {1 << 20}}};
  const std::vector<std::byte> data(1 << 20);
  std::filesystem::create_symlink("/dev/full", directory.path() / "f.part");
  expect_error(ErrorKind::unavailable, {"f.part", "No space left"}, [&] {
    SafetensorsWriter writer(directory.path() / "f", headers, {});
    writer.write(data);
    writer.finish();
  });
}

}  // namespace
}  // namespace carat
