#include "cli/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/huge_pages.h"
#include "base/thread_pool.h"

namespace carat {
namespace {

/// One word of every cache line: memory delivers whole lines, and this loop outruns it with any compiler and
/// instruction set. Lines are asked for as far ahead as the kernels do it.
uint64_t read_lines(const std::byte* data, int64_t bytes) {
  constexpr int64_t kLine = 64, kAhead = 8192;
  constexpr int kStreams = 8;  // independent sums, so that no load waits for an addition
  uint64_t sums[kStreams] = {};
  for (int64_t at = 0; at < bytes; at += kStreams * kLine) {
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* line = data + at + s * kLine;
      __builtin_prefetch(line + kAhead, 0, 2);
      uint64_t word;
      std::memcpy(&word, line, sizeof word);
      sums[s] += word;
    }
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

std::vector<double> sample_read_bandwidth(int threads) {
  constexpr std::size_t kWantedBytes = std::size_t{512} << 20, kLeastBytes = std::size_t{128} << 20;
  constexpr int kPasses = 12;
  const std::size_t available = available_memory_bytes();
  std::size_t bytes = available == 0 ? kWantedBytes : std::min(kWantedBytes, available / 4);
  bytes = bytes / HugePages::kPageBytes * HugePages::kPageBytes;
  if (bytes < kLeastBytes) return {};

  const HugePages pages(bytes, "measuring the read bandwidth");
  ThreadPool pool(threads);
  const auto share = [&](int thread) {
    return share_of(static_cast<int64_t>(bytes), thread, pool.size(), int64_t{HugePages::kPageBytes});
  };
  pool.run([&](int thread) {
    const IndexRange range = share(thread);
    std::memset(pages.data() + range.first, 1, static_cast<std::size_t>(range.count()));
  });
  std::vector<double> rates;
  std::atomic<uint64_t> checksum{0};  // keeps the reads from being optimised away
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int thread) {
      const IndexRange range = share(thread);
      checksum += read_lines(pages.data() + range.first, range.count());
    });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    rates.push_back(static_cast<double>(bytes) / elapsed.count());
  }
  return rates;
}

}  // namespace carat
