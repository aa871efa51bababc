// The instruction sets that the kernels are compiled for, and which of them this machine has.
#pragma once
#include <string_view>

namespace carat {

/// avx2 implies FMA and F16C; avx512 implies F, BW, VL, DQ and VNNI; neon is 64-bit Arm's baseline.
enum class Isa { scalar, avx2, avx512, neon };

const char* isa_name(Isa isa);
/// True when the kernels were built for `isa` and this machine can run them.
bool isa_available(Isa isa);
/// The fastest available one.
Isa best_isa();
/// `name` as given to --isa; empty means best_isa(). Throws Error{invalid_argument} for an unknown name and
/// Error{unavailable} for one that this machine or this build lacks.
Isa choose_isa(std::string_view name);

}  // namespace carat
