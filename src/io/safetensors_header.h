// The safetensors container: 8 bytes of header length, a JSON header, the data. From the bytes of one file to
// a checked list of tensors; safetensors.cc does files and shards.
#pragma once
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace carat {

/// The tensors of one file in file order; `Tensor::file` is left 0. As strict as the reference
/// implementation: the spans must fill the data exactly, so neither gaps nor trailing bytes pass. Stricter
/// where that one guesses: duplicate names and unknown fields are refused. `source` names the file in
/// messages. Throws Error{corrupt}. A huge header costs time and memory in proportion to the file, never
/// more.
std::vector<Tensor> parse_safetensors(std::span<const std::byte> file, const std::string& source);

}  // namespace carat
