#include "cli/demo_model.h"

#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace carat {

std::filesystem::path find_demo_model() {
  if (const char* chosen = std::getenv("CARAT_DEMO_MODEL"); chosen && *chosen) return chosen;
  std::error_code error;  // exists() and read_symlink() only report: a place that can't be read has no model
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share/carat/models/demo";
  const std::filesystem::path source_tree = CARAT_DEMO_MODEL_SOURCE;
  for (const auto& place : {installed, source_tree})
    if (std::filesystem::exists(place / "config.json", error)) return place;
  fail(ErrorKind::not_found, "the demo model is neither in ", installed.string(), " nor in ",
       source_tree.string(), "; name a MODEL or set CARAT_DEMO_MODEL");
}

std::string model_or_default(const std::string& named) {
  if (!named.empty()) return named;
  const char* variable = std::getenv("CARAT_MODEL");
  return variable && *variable ? variable : find_demo_model().string();
}

}  // namespace carat
