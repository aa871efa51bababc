#include "cli/reply_file.h"

#include <gtest/gtest.h>

#include "cli/program.h"
#include "support/expect_error.h"

namespace carat {
namespace {

std::string line(int index) {
  return R"({"index":)" + std::to_string(index) + R"(,"custom_id":"c)" + std::to_string(index) + "\"}\n";
}
std::string id(int index) { return "\"c" + std::to_string(index) + "\""; }

TEST(ReplyFile, RemembersWhatItHas) {
  const TempDirectory directory;
  const auto path = directory.path() / "out";
  {
    ReplyFile file(path);
    for (const int index : {3, 0}) file.append(static_cast<uint64_t>(index), id(index), line(index));
    EXPECT_TRUE(file.has(3, id(3)));
    EXPECT_FALSE(file.has(1, id(1)));
    EXPECT_EQ(file.replies(), 2u);
  }
  const ReplyFile again(path);
  EXPECT_TRUE(again.has(3, id(3)));
  EXPECT_TRUE(again.has(0, id(0)));
  EXPECT_FALSE(again.has(2, id(2)));
  EXPECT_EQ(again.replies(), 2u);
}

TEST(ReplyFile, LineThatWasCutOffIsRemoved) {
  for (std::size_t kept = 0; kept < line(1).size(); ++kept) {
    const TempDirectory directory;
    const auto path = directory.write("out", line(0) + line(1).substr(0, kept));
    {
      ReplyFile file(path);
      EXPECT_FALSE(file.has(1, id(1)));
      file.append(2, id(2), line(2));
    }
    EXPECT_EQ(read_text(path), line(0) + line(2));
  }
}

TEST(ReplyFile, FileOfOthersIsRefusedAndUntouched) {
  const TempDirectory directory;
  const std::string text = line(0) + "a shopping list\n" + "torn";
  const auto path = directory.write("out", text);
  expect_error(ErrorKind::corrupt, {"line 2 is not a reply of carat batch"}, [&] { ReplyFile file(path); });
  EXPECT_EQ(read_text(path), text);
  const auto torn = directory.write("torn", line(0) + "milk, bread");
  expect_error(ErrorKind::corrupt, {"last line is not a reply"}, [&] { ReplyFile file(torn); });
  EXPECT_EQ(read_text(torn), line(0) + "milk, bread");
}

TEST(ReplyFile, RepliesToOtherRequestsAreNoticed) {
  const TempDirectory directory;
  const ReplyFile file(directory.write("out", line(0)));
  expect_error(ErrorKind::invalid_argument, {"index 0", "another id"}, [&] { file.has(0, id(5)); });
}

TEST(ReplyFile, OneWriterAtATime) {
  const TempDirectory directory;
  const ReplyFile first(directory.path() / "out");
  expect_error(ErrorKind::unavailable, {"another process"}, [&] { ReplyFile(directory.path() / "out"); });
}

}  // namespace
}  // namespace carat
