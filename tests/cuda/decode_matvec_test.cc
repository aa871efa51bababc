// How the products of single rows are shared out over a GPU.
#include <gtest/gtest.h>

#include "cuda/decode.h"

namespace carat::cuda {
namespace {

Queue queue_of(int sm_count, int shared_bytes) {
  return {nullptr, true, sm_count, cudaSuccess, {}, false, shared_bytes};
}

// A head's sums lie in shared memory: on a GPU with few multiprocessors too many for one CTA on each.
TEST(Matvec, TakesACtaPerMultiprocessorUnlessTheSumsDontFit) {
  constexpr int kVocab = 262144, kLarge = 227 * 1024;
  for (const int cols : {1536, 3840}) {
    const Matrix head{nullptr, kVocab, cols};
    EXPECT_EQ(matvec_ctas(queue_of(132, kLarge), head), 132) << cols;
    const int ctas = matvec_ctas(queue_of(20, kFewestSharedBytes), head);
    EXPECT_GT(ctas, 20) << cols;
    EXPECT_LT(ctas, 200) << cols;
  }
  EXPECT_EQ(matvec_ctas(queue_of(20, kFewestSharedBytes), {nullptr, 2 * 6144, 1536}, /*gated=*/true), 20);
  EXPECT_EQ(matvec_ctas(queue_of(132, kLarge), {nullptr, 100, 1536}), 100);  // no CTA without an output
}

}  // namespace
}  // namespace carat::cuda
