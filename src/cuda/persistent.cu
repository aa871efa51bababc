// One launch per token: the persistent kernel of the plan's format, and here that of bf16.
#include "cuda/launch.h"
#include "cuda/persistent_kernel.h"

namespace carat::cuda {
namespace {

PersistentKernel kernel_for(WeightFormat format, int width, int full, int sliding, bool timed) {
  switch (format) {
    case WeightFormat::int8:
      return persistent_kernel_for<WeightFormat::int8>(width, full, sliding, timed);
    case WeightFormat::int4:
      return persistent_kernel_for<WeightFormat::int4>(width, full, sliding, timed);
    default:
      return persistent_kernel_for<WeightFormat::bf16>(width, full, sliding, timed);
  }
}

}  // namespace

template PersistentKernel persistent_kernel_for<WeightFormat::bf16>(int, int, int, bool);

bool has_persistent_kernel(WeightFormat format, int width, int full_head_dim, int sliding_head_dim) {
  return kernel_for(format, width, full_head_dim, sliding_head_dim, false) != nullptr;
}

void persistent_step(Queue& queue, const PersistentArgs& args, std::size_t shared_bytes) {
  LaunchShape shape{dim3(static_cast<unsigned>(queue.sm_count)), kVectorThreads + kLoadingThreads,
                    shared_bytes};
  shape.cooperative = true;
  launch(queue, shape,
         kernel_for(args.format, args.d_model, 2 * args.head_pairs[0], 2 * args.head_pairs[1],
                    args.cycles != nullptr),
         args);
}

}  // namespace carat::cuda
