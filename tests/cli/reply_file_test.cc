#include "cli/reply_file.h"

#include <gtest/gtest.h>

#include "cli/program.h"
#include "support/expect_error.h"

namespace carat {
namespace {

/// The reply to line `index`, whose hash is 100 more.
std::string line(int index, const std::string& more = "") {
  return R"({"index":)" + std::to_string(index) + R"(,"custom_id":null,"line_hash":)" +
         std::to_string(100 + index) + more + "}\n";
}

void append(ReplyFile& file, const std::string& line) { file.append(line, parse_batch_reply(line)); }

TEST(ReplyFile, RemembersWhatItHas) {
  const TempDirectory directory;
  const auto path = directory.path() / "out";
  {
    ReplyFile file(path);
    for (const int index : {3, 0}) append(file, line(index));
    EXPECT_TRUE(file.has(3, 103));
    EXPECT_FALSE(file.has(1, 101));
    EXPECT_EQ(file.replies(), 2u);
  }
  const ReplyFile again(path);
  EXPECT_TRUE(again.has(3, 103));
  EXPECT_TRUE(again.has(0, 100));
  EXPECT_FALSE(again.has(2, 102));
  EXPECT_EQ(again.replies(), 2u);
}

TEST(ReplyFile, LineThatWasCutOffIsRemoved) {
  for (std::size_t kept = 0; kept < line(1).size(); ++kept) {
    const TempDirectory directory;
    const auto path = directory.write("out", line(0) + line(1).substr(0, kept));
    {
      ReplyFile file(path);
      EXPECT_FALSE(file.has(1, 101));
      append(file, line(2));
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
  expect_error(ErrorKind::invalid_argument, {"index 0", "another request than line 1"},
               [&] { file.has(0, 105); });
  file.check_end(1);
  expect_error(ErrorKind::invalid_argument, {"index 0", "ends before"}, [&] { file.check_end(0); });
}

TEST(ReplyFile, CountsErrorsAlsoThoseThatWereThere) {
  const TempDirectory directory;
  const std::string error = R"(,"error":{"code":"c","message":"m"})", none = R"(,"error":null)";
  const auto path = directory.write("out", line(0) + line(1, error) + line(2, none));
  {
    ReplyFile file(path);
    EXPECT_EQ(file.failed(), 1u);
    append(file, line(3, error));
    EXPECT_EQ(file.failed(), 2u);
  }
  EXPECT_EQ(ReplyFile(path).failed(), 2u);
  EXPECT_EQ(ReplyFile(path).replies(), 4u);
}

TEST(ReplyFile, OneWriterAtATime) {
  const TempDirectory directory;
  const ReplyFile first(directory.path() / "out");
  expect_error(ErrorKind::unavailable, {"another process"}, [&] { ReplyFile(directory.path() / "out"); });
}

}  // namespace
}  // namespace carat
