#include "cli/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "base/huge_pages.h"
#include "base/thread_pool.h"

namespace carat {
namespace {

// A vector wide enough that the loads outrun memory with every instruction set; compilers split it as needed.
typedef uint64_t Wide __attribute__((vector_size(64)));

uint64_t read_all(const std::byte* data, int64_t bytes) {
  constexpr int kStreams = 4;  // independent sums, so that no load waits for an addition
  Wide sums[kStreams] = {};
  for (int64_t at = 0; at < bytes; at += kStreams * static_cast<int64_t>(sizeof(Wide))) {
    for (int s = 0; s < kStreams; ++s) {
      Wide value;
      std::memcpy(&value, data + at + s * static_cast<int64_t>(sizeof value), sizeof value);
      sums[s] += value;
    }
  }
  uint64_t total = 0;
  for (const Wide& sum : sums)
    for (int i = 0; i < 8; ++i) total += sum[i];
  return total;
}

}  // namespace

double measure_read_bandwidth(int threads) {
  constexpr std::size_t kWantedBytes = std::size_t{1} << 30, kLeastBytes = std::size_t{128} << 20;
  constexpr int kPasses = 5;
  const std::size_t available = available_memory_bytes();
  std::size_t bytes = available == 0 ? kWantedBytes : std::min(kWantedBytes, available / 4);
  bytes = bytes / HugePages::kPageBytes * HugePages::kPageBytes;
  if (bytes < kLeastBytes) return 0;

  const HugePages pages(bytes, "measuring the read bandwidth");
  ThreadPool pool(threads);
  const auto share = [&](int thread) {
    return share_of(static_cast<int64_t>(bytes), thread, pool.size(), int64_t{HugePages::kPageBytes});
  };
  pool.run([&](int thread) {
    const IndexRange range = share(thread);
    std::memset(pages.data() + range.first, 1, static_cast<std::size_t>(range.count()));
  });

  double best_s = 0;
  std::atomic<uint64_t> checksum{0};  // keeps the reads from being optimised away
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int thread) {
      const IndexRange range = share(thread);
      checksum += read_all(pages.data() + range.first, range.count());
    });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (pass == 0 || elapsed.count() < best_s) best_s = elapsed.count();
  }
  return best_s > 0 ? static_cast<double>(bytes) / best_s : 0;
}

}  // namespace carat
