// Rates of the CPU kernels beside the limits of the machine, measured in the same run: how fast the threads
// can read 2 MiB pages, and how many float32 operations they can do. Every figure is the best of several
// repetitions, since what disturbs a measurement only ever makes it slower.
//
//   bench_kernels [--isa NAME] [--threads N] [--only SUBSTRING]
#include "cpu/kernels.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "model/formats.h"

namespace carat {
namespace {

struct Bench {
  const Kernels& kernels;
  ThreadPool pool;
  std::string only;

  /// Seconds of the fastest call; at least `repetitions` and half a second of them.
  template <class Work>
  double best(const Work& work, int repetitions = 5) {
    using Clock = std::chrono::steady_clock;
    double least = 1e9, total = 0.;
    for (int i = 0; i < repetitions || (total < 0.5 && i < 1000); ++i) {
      const auto start = Clock::now();
      pool.run(work);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      least = std::min(least, seconds);
      total += seconds;
    }
    return least;
  }
  bool wants(const std::string& name) const { return name.find(only) != std::string::npos; }
};

void report(const std::string& name, double seconds, double bytes, double operations) {
  std::printf("%-34s %9.3f ms", name.c_str(), seconds * 1e3);
  if (bytes > 0.) std::printf(" %8.2f GB/s", bytes / seconds / 1e9);
  if (operations > 0.) std::printf(" %9.1f GFLOP/s", operations / seconds / 1e9);
  std::printf("\n");
  std::fflush(stdout);
}

std::vector<float> random_floats(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = random_uniform(1, i) - 0.5f;
  return values;
}

/// Panels of a [rows, cols] matrix: one random panel, repeated. The bytes don't matter, only that there are
/// as many.
struct Panels {
  Panels(Bench& bench, WeightFormat format, int64_t rows, int64_t cols)
      : memory(panel_bytes(format, cols) * static_cast<size_t>(rows / kPanelRows),
               "the benchmark's weights") {
    weights.linear = {format, rows, cols, memory.data()};
    const std::size_t panel = panel_bytes(format, cols), row = row_bytes(format, cols);
    std::vector<std::byte> stored(row * kPanelRows);
    for (int r = 0; r < kPanelRows; ++r) {
      const std::vector<float> values = random_floats(cols);
      std::byte* at = stored.data() + row * static_cast<size_t>(r);
      if (weights.quantized()) {
        encode_row(format, values.data(), cols, at);
      } else {
        for (int64_t c = 0; c < cols; ++c) {
          const bf16 w = to_bf16(values[static_cast<size_t>(c)]);
          std::memcpy(at + 2 * c, &w, 2);
        }
      }
    }
    std::vector<std::byte> packed(panel + 64);
    std::byte* aligned = packed.data() + (64 - reinterpret_cast<uintptr_t>(packed.data()) % 64) % 64;
    bench.kernels.pack_panels({format, kPanelRows, cols, stored.data()}, 0, 1, aligned);
    bench.pool.run([&](int thread) {
      const IndexRange mine = share_of(weights.panels(), thread, bench.pool.size());
      for (int64_t i = mine.first; i < mine.last; ++i) {
        std::memcpy(memory.data() + panel * static_cast<size_t>(i), aligned, panel);
      }
    });
  }
  double bytes() const {
    return static_cast<double>(panel_bytes(weights.linear.format, weights.linear.cols)) *
           static_cast<double>(weights.panels());
  }
  HugePages memory;
  MatmulWeights weights;
};

struct Inputs {
  Inputs(const Kernels& kernels, WeightFormat format, int tokens, int64_t cols)
      : stride(cols + 16),
        values(random_floats(tokens * stride)),
        quantized(static_cast<size_t>(tokens * (cols + 64))),
        blocks(static_cast<size_t>(tokens * block_count(cols, kInt4Block))) {
    const int64_t blocks_stride = block_count(cols, kInt4Block);
    activations = {values.data(), stride, quantized.data(), cols + 64, blocks.data(), blocks_stride};
    if (format == WeightFormat::bf16) return;
    for (int t = 0; t < tokens; ++t) {
      kernels.quantize(format, values.data() + t * stride, cols, quantized.data() + t * (cols + 64),
                       blocks.data() + t * blocks_stride);
    }
  }
  int64_t stride;
  std::vector<float> values;
  std::vector<int8_t> quantized;
  std::vector<ActivationBlock> blocks;
  Activations activations;
};

double matmul_seconds(Bench& bench, const Panels& panels, const Inputs& inputs, int tokens,
                      std::vector<float>& y) {
  const MatmulWeights& w = panels.weights;
  const int64_t y_stride = w.linear.rows + 16;
  y.resize(static_cast<size_t>(tokens * y_stride));
  return bench.best([&](int thread) {
    const IndexRange mine = share_of(w.panels(), thread, bench.pool.size());
    bench.kernels.matmul(w, mine.first, mine.count(), inputs.activations, tokens, y.data(), y_stride);
  });
}

void measure_limits(Bench& bench) {
  const HugePages memory(std::size_t{512} << 20, "the bandwidth measurement");
  const int64_t floats = static_cast<int64_t>(memory.size() / 4);
  float* data = reinterpret_cast<float*>(memory.data());
  bench.pool.run([&](int thread) {
    const IndexRange mine = share_of(floats, thread, bench.pool.size(), 64);
    std::memset(data + mine.first, 0, static_cast<size_t>(mine.count()) * 4);
  });
  std::vector<int64_t> found(static_cast<size_t>(bench.pool.size()) * 8);
  // The larger half of argmax is a plain read of everything.
  const double seconds = bench.best(
      [&](int thread) {
        const IndexRange mine = share_of(floats, thread, bench.pool.size(), 64);
        found[static_cast<size_t>(thread) * 8] = bench.kernels.argmax(data + mine.first, mine.count());
      },
      10);
  report("limit: reading 2 MiB pages", seconds, static_cast<double>(floats) * 4, 0.);
}

void measure_matmul(Bench& bench) {
  constexpr int64_t kCols = 1536;
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    const std::string name = std::string("matmul ") + format_name(format);
    if (!bench.wants(name)) continue;
    std::vector<float> y;
    {
      // About 400 MB in every format: more than the last-level cache holds.
      const int64_t rows = format == WeightFormat::bf16   ? 131072
                           : format == WeightFormat::int8 ? 262144
                                                          : 524288;
      const Panels large(bench, format, rows, kCols);
      for (const int tokens : {1, 2, 4, 8, 12, 16}) {
        const Inputs inputs(bench.kernels, format, tokens, kCols);
        const double seconds = matmul_seconds(bench, large, inputs, tokens, y);
        report(name + " tokens " + std::to_string(tokens), seconds, large.bytes(),
               2. * static_cast<double>(rows * kCols) * tokens);
      }
    }
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{6144, 1536}, {1536, 6144}, {1536, 12288}}) {
      const Panels layer(bench, format, rows, cols);
      for (const int tokens : {64, 512}) {
        const Inputs inputs(bench.kernels, format, tokens, cols);
        const double seconds = matmul_seconds(bench, layer, inputs, tokens, y);
        report(name + " " + std::to_string(rows) + "x" + std::to_string(cols) + " tokens " +
                   std::to_string(tokens),
               seconds, 0., 2. * static_cast<double>(rows * cols) * tokens);
      }
    }
  }
}

void measure_attention(Bench& bench) {
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16}) {
    for (const int head_dim : {256, 512}) {
      constexpr int kPage = 32, kContext = 16384, kHeads = 8;
      const std::string name =
          std::string("attention ") + (format == KvFormat::f32 ? "f32 " : "f16 ") + std::to_string(head_dim);
      if (!bench.wants(name)) continue;
      const int64_t page = kv_page_bytes(format, kPage, head_dim), bytes = page * (kContext / kPage);
      const HugePages memory(static_cast<size_t>(2 * bytes), "the benchmark's K and V");
      std::vector<int32_t> pages(kContext / kPage);
      for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
      const KvView kv{format, head_dim, kPage, memory.data(), memory.data() + bytes, page, pages.data()};
      const std::vector<float> row = random_floats(head_dim);
      for (int p = 0; p < kContext; ++p) bench.kernels.store_kv(kv, p, row.data(), row.data());
      const std::vector<float> q = random_floats(int64_t{kMaxQueries} * head_dim);
      std::vector<float> scratch(static_cast<size_t>(attention_scratch_floats() * bench.pool.size()));
      std::vector<float> out(static_cast<size_t>(kMaxQueries * head_dim * bench.pool.size()));
      for (const int tokens : {1, 8}) {
        const AttentionQueries queries{q.data(), kHeads * head_dim, tokens, kHeads, kContext - tokens, 0};
        const double seconds = bench.best([&](int thread) {
          float* mine = scratch.data() + attention_scratch_floats() * thread;
          std::vector<float> stats(2 * kMaxQueries);
          const AttentionPartial partial{out.data() + kMaxQueries * head_dim * thread, stats.data(),
                                         stats.data() + kMaxQueries};
          for (int chunk = thread; chunk < kContext / kAttentionChunk; chunk += bench.pool.size()) {
            bench.kernels.attend_chunk(kv, queries, chunk, partial, mine);
          }
        });
        report(name + " queries " + std::to_string(tokens * kHeads), seconds, 2. * static_cast<double>(bytes),
               4. * kContext * head_dim * kHeads * tokens);
      }
    }
  }
}

void measure_packing(Bench& bench) {
  constexpr int64_t kRows = 6144, kCols = 1536;
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    const std::string name = std::string("pack ") + format_name(format);
    if (!bench.wants(name)) continue;
    const std::vector<std::byte> stored(row_bytes(format, kCols) * kRows);
    const HugePages packed(panel_bytes(format, kCols) * kRows / kPanelRows, "the benchmark's panels");
    const double seconds = bench.best([&](int thread) {
      const IndexRange mine = share_of(kRows / kPanelRows, thread, bench.pool.size());
      bench.kernels.pack_panels({format, kRows, kCols, stored.data()}, mine.first, mine.count(),
                                packed.data() + panel_bytes(format, kCols) * static_cast<size_t>(mine.first));
    });
    report(name, seconds, static_cast<double>(stored.size()), 0.);
    if (format == WeightFormat::bf16) continue;
    const std::vector<float> row = random_floats(kCols);
    const double encoding = bench.best([&](int) {
      std::vector<std::byte> out(row_bytes(format, kCols));
      for (int i = 0; i < 100; ++i) encode_row(format, row.data(), kCols, out.data());
    });
    report(name + " (encoding, as bf16 bytes)", encoding, 200. * kCols * bench.pool.size(), 0.);
  }
}

int run(int argc, char** argv) {
  std::string isa, only;
  int threads = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--isa")
      isa = argv[i + 1];
    else if (option == "--threads")
      threads = std::atoi(argv[i + 1]);
    else if (option == "--only")
      only = argv[i + 1];
    else
      fail(ErrorKind::invalid_argument, "unknown option ", option);
  }
  Bench bench{kernels_for(choose_isa(isa)), ThreadPool(threads), only};
  std::printf("%s, %d threads\n", isa_name(bench.kernels.isa), bench.pool.size());
  measure_limits(bench);
  measure_matmul(bench);
  measure_attention(bench);
  measure_packing(bench);
  return 0;
}

}  // namespace
}  // namespace carat

int main(int argc, char** argv) {
  try {
    return carat::run(argc, argv);
  } catch (const carat::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
