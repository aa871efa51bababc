// Chat formats for checkpoints that bring no template of their own.
#pragma once
#include <string_view>

namespace carat {

/// The format of the instruction-tuned Gemma 4 models, as a template. Besides what every chat template gets
/// it reads `expects_empty_thought`: the models without per-layer embeddings want to see an empty thought
/// when they are not to think; those with them leak their reasoning when they see one.
std::string_view gemma4_template();

/// For models that only continue text: the texts of all messages, each on a line of its own but for the
/// model's, which go on with what was there.
std::string_view plain_template();

}  // namespace carat
