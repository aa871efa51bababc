// MODEL as a user writes it -> a checkpoint directory on this machine.
#pragma once
#include <filesystem>
#include <string>

namespace carat {

/// A directory is returned as it is. "org/name" is looked up in the Hugging Face cache ($HF_HUB_CACHE,
/// $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub, the first that is set): the
/// snapshot that refs/main names, else the newest one.
/// Throws Error{not_found} that says where was looked and how to download the model.
std::filesystem::path find_model(const std::string& model);

}  // namespace carat
