// The pieces <0x00> .. <0xFF> that stand for single bytes. Used by the tokenizer and its byte-pair encoding.
#pragma once
#include <string>
#include <string_view>

namespace carat {

/// "<0x0A>" for 10; `byte` is in [0, 256).
std::string byte_piece(int byte);

/// The byte of a piece such as "<0x0A>" or "<0x0a>"; -1 for any other piece.
int byte_of_piece(std::string_view piece);

}  // namespace carat
