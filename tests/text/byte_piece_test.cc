#include "text/byte_piece.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

TEST(BytePiece, NamesAndBytesGoBothWays) {
  EXPECT_EQ(byte_piece(0), "<0x00>");
  EXPECT_EQ(byte_piece(0xA9), "<0xA9>");
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(byte_of_piece(byte_piece(byte)), byte);
  EXPECT_EQ(byte_of_piece("<0xa9>"), 0xA9);
}

TEST(BytePiece, OtherPiecesAreNoBytes) {
  for (const char* piece : {"", "a", "<0x0>", "<0x0A", "<0x0A>>", "<0xG0>", "<0x0G>", "<1x0A>", "<0x0A)"}) {
    EXPECT_EQ(byte_of_piece(piece), -1) << piece;
  }
}

}  // namespace
}  // namespace carat
