#include "model/quantized_checkpoint.h"

#include <algorithm>
#include <array>

namespace carat {

WeightFormat format_of_role(std::string_view role, WeightFormat stored, WeightFormat wanted) {
  constexpr std::array<std::string_view, 6> kEightBitRoles{"head",     "embed",    "ple_project",
                                                           "ple_gate", "ple_proj", "ple_table"};
  if (role == "router") return stored;
  if (wanted == WeightFormat::int4 && std::ranges::count(kEightBitRoles, role) > 0) return WeightFormat::int8;
  return wanted;
}

}  // namespace carat
