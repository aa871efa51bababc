// The model of those who name none: one rule for all commands.
#pragma once
#include <filesystem>
#include <string>

namespace carat {

/// $CARAT_DEMO_MODEL, else share/carat/models/demo beside the program's directory, else the source tree it
/// was built from. Throws Error{not_found}.
std::filesystem::path find_demo_model();

/// `named`; when that is empty, $CARAT_MODEL; when that is too, the bundled demo.
std::string model_or_default(const std::string& named);

}  // namespace carat
