// Every PTX instruction that CUDA C++ has no name for, one function each. The kernels include no other
// assembly, so this file is what another vendor's compiler has to replace.
#pragma once
#include <cstdint>

namespace carat::cuda::ptx {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- Programmatic dependent launch (sm_90): a kernel starts before the one in front of it has ended.

/// Lets the next kernel's CTAs start once every CTA of this one has said so or ended.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Returns when the kernels in front have ended and their writes are visible. Must run in every CTA of every
/// kernel: only then does "the one before me has ended" imply the same for all kernels before it.
__device__ inline void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- Bulk copies from global to shared memory that complete on an mbarrier (sm_90).

__device__ inline void barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}

/// Makes initialised barriers visible to the copy engine.
__device__ inline void fence_barrier_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ inline void barrier_expect(uint64_t* barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

/// An L2 policy for bytes that are read once: they leave first.
__device__ inline uint64_t policy_evict_first() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

/// `bytes` and both addresses are multiples of 16.
__device__ inline void bulk_copy(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                                 uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
#endif
}

// ---- Clusters (sm_90): CTAs that write into each other's shared memory.

__device__ inline uint32_t cluster_rank() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}
/// The two halves of a barrier of all threads of the cluster. What was written before the first is visible
/// after the second.
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
/// The same without any order of memory.
__device__ inline void cluster_arrive_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

/// Where `mine`, in shared memory, lies in CTA `rank` of the cluster.
template <class T>
__device__ inline T* cluster_pointer(T* mine, uint32_t rank) {
  T* other = mine;
#if __CUDA_ARCH__ >= 900
  asm("mapa.u64 %0, %1, %2;" : "=l"(other) : "l"(mine), "r"(rank));
#endif
  return other;
}
/// Writes to where `to` lies in CTA `rank` of the cluster, and counts 4 bytes on that CTA's `barrier`. No
/// need to wait for it: the receiver does.
__device__ inline void store_remote(float* to, float value, uint32_t rank, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .b32 address, counter;\n"
      "mapa.shared::cluster.u32 address, %0, %2;\n"
      "mapa.shared::cluster.u32 counter, %3, %2;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [address], %1, [counter];\n"
      "}" ::"r"(shared_address(to)),
      "r"(__float_as_uint(value)), "r"(rank), "r"(shared_address(barrier))
      : "memory");
#endif
}

// ---- 16-byte asynchronous copies (sm_80).

/// Copies 16 bytes, or writes zeros when not `valid` (then `from` is not read).
__device__ inline void async_copy16(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}

__device__ inline void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most `kPending` of this thread's committed groups are in flight.
template <int kPending>
__device__ inline void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- Tensor cores (sm_80).

/// Four 8x8 matrices of 16-bit values; lane i gives the address of one row: of matrix i / 8, row i % 8.
__device__ inline void load_matrices(uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}

/// The same, each matrix transposed.
__device__ inline void load_matrices_transposed(uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}

/// d[16, 8] += a[16, 16] b[16, 8] with bfloat16 factors.
__device__ inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same with float16 factors.
__device__ inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// d[16, 8] += a[16, 32] b[32, 8]: signed bytes times signed ones, and times unsigned ones.
__device__ inline void mma_signed(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma_unsigned(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- Arithmetic.

/// sum + the products of four bytes of a and b each: signed times signed, signed times unsigned.
__device__ inline int dot_signed(uint32_t a, uint32_t b, int sum) {
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}
__device__ inline int dot_unsigned(uint32_t a, uint32_t b, int sum) {
  asm("dp4a.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}

/// The larger one; NaN when either is.
__device__ inline float max_or_nan(float a, float b) {
  float larger = a;
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
#endif
  return larger;
}

// ---- Copies of boxes of a tensor, as its map describes them (sm_90). Whatever lies outside the tensor is
// zero.

/// Counts down a barrier that barrier_init() has set to so many arrivals.
__device__ inline void barrier_arrive(uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

/// Brings a map on chip, so that its first copy doesn't wait for it.
__device__ inline void prefetch_map(const void* map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

__device__ inline void tensor_copy(void* to, const void* map, int x, int y, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
#endif
}

__device__ inline void tensor_copy(void* to, const void* map, int x, int y, int z, int w, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], "
      "[%6];" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(barrier))
      : "memory");
#endif
}

// ---- Tensor cores of Hopper (sm_90a): four warps multiply a[64, 16] b[16, n] with bfloat16 factors in
// shared memory and add to float32 registers, laid out as those of mma_bf16() side by side. Asynchronous:
// registers and shared memory are free again after warpgroup_wait().

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// A matrix in shared memory whose rows are 128 bytes, permuted by the copy engine's 128-byte pattern; its
/// groups of 8 rows lie behind each other. 16 columns further on is 2 further on.
__device__ inline uint64_t swizzled_matrix(const void* rows) {
  constexpr uint64_t kGroupBytes = 1024, kSwizzle128 = 1;
  return (shared_address(rows) >> 4) | uint64_t{1} << 16 | (kGroupBytes >> 4) << 32 | kSwizzle128 << 62;
}

/// The other way round: 16 rows of a matrix [rows, columns] are the 16 factors of each sum. Blocks of 64
/// columns lie `block_bytes` apart.
__device__ inline uint64_t swizzled_columns(const void* rows, uint64_t block_bytes) {
  constexpr uint64_t kGroupBytes = 1024, kSwizzle128 = 1;
  return (shared_address(rows) >> 4) | (block_bytes >> 4) << 16 | (kGroupBytes >> 4) << 32 |
         kSwizzle128 << 62;
}

/// What this thread has written to shared memory is visible to the tensor cores after the next barrier.
__device__ inline void fence_shared_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until at most `kPending` committed groups of products are unfinished.
template <int kPending>
__device__ inline void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define CARAT_PTX_FLOATS4(d, i) "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3])
__device__ inline void warpgroup_mma(float (&d)[4], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3}, "
      "%4, %5, add, 1, 1, 0, 0;\n}"
      : CARAT_PTX_FLOATS4(d, 0)
      : "l"(a), "l"(b), "r"(1));
}
__device__ inline void warpgroup_mma(float (&d)[8], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, add, 1, 1, 0, 0;\n}"
      : CARAT_PTX_FLOATS4(d, 0), CARAT_PTX_FLOATS4(d, 4)
      : "l"(a), "l"(b), "r"(1));
}
__device__ inline void warpgroup_mma(float (&d)[16], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, add, 1, 1, 0, 0;\n}"
      : CARAT_PTX_FLOATS4(d, 0), CARAT_PTX_FLOATS4(d, 4), CARAT_PTX_FLOATS4(d, 8), CARAT_PTX_FLOATS4(d, 12)
      : "l"(a), "l"(b), "r"(1));
}
__device__ inline void warpgroup_mma(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;\n}"
      : CARAT_PTX_FLOATS4(d, 0), CARAT_PTX_FLOATS4(d, 4), CARAT_PTX_FLOATS4(d, 8), CARAT_PTX_FLOATS4(d, 12),
        CARAT_PTX_FLOATS4(d, 16), CARAT_PTX_FLOATS4(d, 20), CARAT_PTX_FLOATS4(d, 24), CARAT_PTX_FLOATS4(d, 28)
      : "l"(a), "l"(b), "r"(1));
}
__device__ inline void warpgroup_mma(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, 0;\n}"
      : CARAT_PTX_FLOATS4(d, 0), CARAT_PTX_FLOATS4(d, 4), CARAT_PTX_FLOATS4(d, 8), CARAT_PTX_FLOATS4(d, 12),
        CARAT_PTX_FLOATS4(d, 16), CARAT_PTX_FLOATS4(d, 20), CARAT_PTX_FLOATS4(d, 24),
        CARAT_PTX_FLOATS4(d, 28), CARAT_PTX_FLOATS4(d, 32), CARAT_PTX_FLOATS4(d, 36),
        CARAT_PTX_FLOATS4(d, 40), CARAT_PTX_FLOATS4(d, 44), CARAT_PTX_FLOATS4(d, 48),
        CARAT_PTX_FLOATS4(d, 52), CARAT_PTX_FLOATS4(d, 56), CARAT_PTX_FLOATS4(d, 60)
      : "l"(a), "l"(b), "r"(1));
}
/// The same with float16 factors.
__device__ inline void warpgroup_mma_f16(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;\n}"
      : CARAT_PTX_FLOATS4(d, 0), CARAT_PTX_FLOATS4(d, 4), CARAT_PTX_FLOATS4(d, 8), CARAT_PTX_FLOATS4(d, 12),
        CARAT_PTX_FLOATS4(d, 16), CARAT_PTX_FLOATS4(d, 20), CARAT_PTX_FLOATS4(d, 24), CARAT_PTX_FLOATS4(d, 28)
      : "l"(a), "l"(b), "r"(1));
}
/// d[64, 128] += a[64, 16] b[16, 128] with float16 factors: a in registers, as mma_f16() has it, b from
/// swizzled_columns().
__device__ inline void warpgroup_mma_f16(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}"
      : CARAT_PTX_FLOATS4(d, 0), CARAT_PTX_FLOATS4(d, 4), CARAT_PTX_FLOATS4(d, 8), CARAT_PTX_FLOATS4(d, 12),
        CARAT_PTX_FLOATS4(d, 16), CARAT_PTX_FLOATS4(d, 20), CARAT_PTX_FLOATS4(d, 24),
        CARAT_PTX_FLOATS4(d, 28), CARAT_PTX_FLOATS4(d, 32), CARAT_PTX_FLOATS4(d, 36),
        CARAT_PTX_FLOATS4(d, 40), CARAT_PTX_FLOATS4(d, 44), CARAT_PTX_FLOATS4(d, 48),
        CARAT_PTX_FLOATS4(d, 52), CARAT_PTX_FLOATS4(d, 56), CARAT_PTX_FLOATS4(d, 60)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}
#undef CARAT_PTX_FLOATS4
#endif

// ---- Words in global memory through which CTAs wait for each other.

/// What others wrote before their add_release() is visible to this thread afterwards, and to those it meets
/// at a barrier.
__device__ inline unsigned load_acquire(const unsigned* word) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline void add_release(unsigned* word, unsigned value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

/// The same without saying anything about other memory.
__device__ inline unsigned load_relaxed(const unsigned* word) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline uint64_t load_relaxed(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void add_relaxed(unsigned* word, unsigned value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

/// Two neighbouring words of 8 bytes, each of them whole.
__device__ inline ulonglong2 load_relaxed_pair(const uint64_t* words) {
  ulonglong2 pair;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.x), "=l"(pair.y)
               : "l"(words)
               : "memory");
  return pair;
}
/// Four neighbouring words of 4 bytes, each of them whole.
__device__ inline uint4 load_relaxed_four(const uint32_t* words) {
  uint4 four;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
               : "l"(words)
               : "memory");
  return four;
}
__device__ inline void store_relaxed(uint32_t* word, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ inline void store_relaxed_pair(uint64_t* words, uint64_t first, uint64_t second) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(words), "l"(first), "l"(second)
               : "memory");
}
__device__ inline void store_relaxed(uint64_t* word, uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/// A barrier of the first kThreads threads of a CTA only.
/// threadIdx.x, read anew: kept through a long kernel it would be spilled.
__device__ inline int thread_index() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

template <int kThreads>
__device__ inline void sync_first_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

// ---- Loads.

/// Weights are read once a step: past L1.
__device__ inline uint4 load_streaming(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

}  // namespace carat::cuda::ptx
