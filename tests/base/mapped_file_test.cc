#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <utility>

#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

TEST(MappedFile, ShowsTheBytes) {
  const TempDirectory directory;
  const MappedFile file(directory.write("f", std::string("a\0b", 3)));
  EXPECT_EQ(file.text(), std::string_view("a\0b", 3));
  EXPECT_EQ(file.bytes().size(), 3u);
  EXPECT_EQ(file.path().filename(), "f");
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  const TempDirectory directory;
  const MappedFile file(directory.write("f", ""));
  EXPECT_TRUE(file.bytes().empty());
  file.advise(0, 100, MappedFile::Access::sequential);
}

TEST(MappedFile, MovingKeepsTheBytesInPlace) {
  const TempDirectory directory;
  MappedFile first(directory.write("f", "first")), second(directory.write("g", "second"));
  const std::byte* bytes = first.bytes().data();
  MappedFile moved(std::move(first));
  EXPECT_EQ(moved.bytes().data(), bytes);
  second = std::move(moved);
  EXPECT_EQ(second.bytes().data(), bytes);
  EXPECT_EQ(second.text(), "first");
  EXPECT_EQ(second.path().filename(), "f");
}

TEST(MappedFile, OutlivesTheNameOfItsFile) {
  const TempDirectory directory;
  const auto path = directory.write("f", "still here");
  const MappedFile file(path);
  std::filesystem::remove(path);
  EXPECT_EQ(file.text(), "still here");
}

TEST(MappedFile, AdviceAcceptsAnyRange) {
  const TempDirectory directory;
  const MappedFile file(directory.write("f", std::string(10000, 'x')));
  file.advise(1, 9999, MappedFile::Access::random);
  file.advise(5000, 1 << 30, MappedFile::Access::sequential);
  EXPECT_EQ(file.text().back(), 'x');
}

TEST(MappedFile, PrefetchAcceptsAnyPartAndMemoryThatIsNoFile) {
  const TempDirectory directory;
  const MappedFile file(directory.write("f", std::string(10000, 'x')));
  prefetch_pages(file.bytes().subspan(4095, 2));
  prefetch_pages(file.bytes());
  const std::string memory(10000, 'y');
  prefetch_pages(std::as_bytes(std::span(memory)));
  EXPECT_EQ(file.text().back(), 'x');
  EXPECT_EQ(memory.back(), 'y');
}

TEST(MappedFile, RefusesMoreBytesThanTheKindOfFileHas) {
  const TempDirectory directory;
  const auto path = directory.write("f", "12345");
  EXPECT_EQ(MappedFile(path, 5).text(), "12345");
  expect_error(ErrorKind::corrupt, {"f: 5 bytes", "at most 4"}, [&] { const MappedFile file(path, 4); });
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const TempDirectory directory;
  expect_error(ErrorKind::not_found, {"gone", "No such file"},
               [&] { MappedFile(directory.path() / "gone"); });
  expect_error(ErrorKind::not_found, {"not a regular file"},
               [&] { const MappedFile file(directory.path()); });
  const auto pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(ErrorKind::not_found, {"pipe", "not a regular file"}, [&] { const MappedFile file(pipe); });
}

}  // namespace
}  // namespace carat
