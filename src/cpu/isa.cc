#include "cpu/isa.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "cpu/kernels.h"

namespace carat {

namespace scalar {
extern const Kernels kKernels;
}
#ifdef CARAT_HAVE_X86
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}
#endif
#ifdef CARAT_HAVE_NEON
namespace neon {
extern const Kernels kKernels;
}
#endif

namespace {

constexpr std::array<Isa, 4> kBestFirst{Isa::avx512, Isa::neon, Isa::avx2, Isa::scalar};

// Null when the kernels aren't in this build.
const Kernels* built(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return &scalar::kKernels;
#ifdef CARAT_HAVE_X86
    case Isa::avx2:
      return &avx2::kKernels;
    case Isa::avx512:
      return &avx512::kKernels;
#endif
#ifdef CARAT_HAVE_NEON
    case Isa::neon:
      return &neon::kKernels;
#endif
    default:
      return nullptr;
  }
}

// The compiler's checks include whether the operating system saves the registers.
bool machine_has(Isa isa) {
  switch (isa) {
#ifdef CARAT_HAVE_X86
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
#endif
    default:
      return built(isa) != nullptr;
  }
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::neon:
      return "neon";
  }
  CHECK(false);
}

bool isa_available(Isa isa) { return built(isa) != nullptr && machine_has(isa); }

Isa best_isa() {
  for (const Isa isa : kBestFirst) {
    if (isa_available(isa)) return isa;
  }
  CHECK(false);
}

Isa choose_isa(std::string_view name) {
  if (name.empty()) return best_isa();
  for (const Isa isa : kBestFirst) {
    if (name != isa_name(isa)) continue;
    if (!isa_available(isa)) {
      fail(ErrorKind::unavailable, "instruction set ", name, ": ",
           built(isa) ? "this machine doesn't have it" : "not in this build", "; the best here is ",
           isa_name(best_isa()));
    }
    return isa;
  }
  fail(ErrorKind::invalid_argument, "unknown instruction set '", name, "': use scalar, avx2, avx512 or neon");
}

const Kernels& kernels_for(Isa isa) {
  CHECK(isa_available(isa));
  return *built(isa);
}

}  // namespace carat
