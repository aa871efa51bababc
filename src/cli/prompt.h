// Text of the user -> prompt ids of a checkpoint: continued as it is, or as the user's turn of a chat.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace carat {

enum class PromptFormat {
  continuation,    // <bos>text
  turn,            // <bos><|turn>user\ntext<turn|>\n<|turn>model\n
  turn_no_thought  // the same, then the empty thought that the larger models expect when they are not to
                   // think
};

/// Decided by the checkpoint's own chat template (chat_template.jinja, or the field of
/// tokenizer_config.json): a vocabulary with turn tokens alone doesn't make a chat model. Throws
/// Error{corrupt} for a broken tokenizer_config.json.
PromptFormat prompt_format(const std::filesystem::path& directory, const Tokenizer& tokenizer);

/// Exactly one bos. A turn's text is trimmed and is text all through; a continuation's may name special
/// tokens.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, PromptFormat format,
                                   int32_t bos);

}  // namespace carat
