// Which format each matrix of the model gets when a checkpoint is quantised, at load or into a new
// checkpoint.
#pragma once
#include <string_view>

#include "model/weights.h"

namespace carat {

/// The format in which a matrix of `role` (see for_each_linear) stored as `stored` is kept when `wanted` is
/// asked for. Roles that lose most from few bits keep more: the router decides which experts run and stays as
/// stored; the head and the per-layer-embedding path never get less than 8 bits.
WeightFormat format_of_role(std::string_view role, WeightFormat stored, WeightFormat wanted);

}  // namespace carat
