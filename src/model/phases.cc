#include "model/phases.h"

#include <array>
#include <cstddef>

namespace carat {

const char* phase_name(Phase phase) {
  static constexpr std::array<const char*, static_cast<std::size_t>(Phase::kCount)> kNames{
      "embedding",    "per-layer inputs",
      "q k v",        "rotation, K/V append",
      "attention",    "output",
      "MLP",          "gate, up",
      "down",         "experts",
      "norms",        "per-layer mix",
      "leaving rows", "head",
      "draw"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace carat
