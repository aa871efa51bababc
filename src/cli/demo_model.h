// The model that comes with the program, for those who name none. Used by `carat run`.
#pragma once
#include <filesystem>

namespace carat {

/// $CARAT_DEMO_MODEL, else share/carat/models/demo beside the program's directory, else the source tree it
/// was built from. Throws Error{not_found}.
std::filesystem::path find_demo_model();

}  // namespace carat
