// What transformers computed for a checkpoint: the JSON that tools/reference.py writes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace carat {

struct PromptReference {
  std::string name;
  std::vector<int32_t> ids;
  std::vector<int32_t> argmax;    // at every position of ids
  std::vector<int32_t> top_ids;   // best first, at the last position
  std::vector<float> top_logits;  // of top_ids
  std::vector<int32_t> greedy;    // the continuation, eos ignored
};

/// In the order of the file. Every id is in [0, vocab), no prompt and no top list is empty, lengths agree,
/// top lists are distinct and in order. Throws Error{not_found} or Error{corrupt} naming file, prompt and
/// field, Error{invalid_argument} for another model's reference, Error{unsupported} for one not in float32.
std::vector<PromptReference> read_reference(const std::filesystem::path& path, int vocab);

}  // namespace carat
