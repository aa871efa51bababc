// The persistent kernel for int4 plans.
#include "cuda/persistent_kernel.h"

namespace carat::cuda {

template PersistentKernel persistent_kernel_for<WeightFormat::int4>(int, int, int, bool);

}  // namespace carat::cuda
