// All kernels for one instruction set: this file is compiled once for each, with that set's compiler flags
// and with CARAT_ISA naming it (cmake/isa.cmake). Everything lives in a namespace of that name and nothing
// here may be an inline function shared with other files, or the linker could keep the copy that other
// machines can't run.
#include <cstddef>
#include <cstdint>

#include "cpu/kernels.h"
#include "model/formats.h"

#define CARAT_SCALAR 1
#define CARAT_AVX2 2
#define CARAT_AVX512 3
#define CARAT_NEON 4
#if CARAT_ISA_NUMBER == CARAT_AVX512
#include "cpu/vec_avx512.h"
#elif CARAT_ISA_NUMBER == CARAT_AVX2
#include "cpu/vec_avx2.h"
#elif CARAT_ISA_NUMBER == CARAT_NEON
#include "cpu/vec_neon.h"
#else
#include "cpu/vec_scalar.h"
#endif

#include "cpu/kernels_attention.h"
#include "cpu/kernels_matmul.h"

namespace carat::CARAT_ISA {

extern const Kernels kKernels;
const Kernels kKernels{kIsa,         matmul, pack_panels,  quantize,       rms_norm, residual_norm,
                       weighted_sum, rope,   gelu_mul,     softcap,        argmax,   decode_row,
                       store_kv,     attend, attend_chunk, merge_attention};

}  // namespace carat::CARAT_ISA
