// What `carat bench` has measured, and how it is told.
#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "engine/phase_times.h"

namespace carat {

struct MemoryUse {
  std::size_t resident_bytes = 0;   // pages of the checkpoint included, which the system can take back
  std::size_t anonymous_bytes = 0;  // what is the process's own
};

struct Measurement {
  double load_s = 0;
  double first_token_s = 0;  // of the first sequence to have one, from the start of the prompt
  double prefill_s = 0;      // of all sequences together
  double median_step_ms = 0, mean_step_ms = 0;  // 0: no step has been timed
  std::size_t bytes_per_token = 0;
  double prompt_operations = 0;  // of one sequence
  /// Median of passes before and after generating; absent when it can't be measured from here.
  std::optional<double> read_bandwidth_bytes_s;
  double best_read_bandwidth_bytes_s = 0;
  std::optional<double> matrix_rate;  // operations per second
  std::size_t cache_bytes = 0;        // 0: unknown
  std::optional<StepTimes> phases;
  MemoryUse memory;
  std::string device, format;
  int threads = 0;

  /// Bytes of weights per second.
  double decode_bytes_s() const { return static_cast<double>(bytes_per_token) / (median_step_ms / 1000); }
  /// Whether weights come out of a cache, for which memory is no measure. Where the cache is unknown, a rate
  /// far above the best plain read tells of one.
  bool weights_in_cache() const;
  /// Of the read bandwidth that decoding achieves, median against median; a step reads the weights once for
  /// all sequences.
  std::optional<double> bandwidth_fraction() const;
  /// Of the matrix rate that reading `batch` prompts achieves.
  std::optional<double> matrix_fraction(int batch) const;
};

std::string json_report(const BenchOptions& options, const Measurement& m);
std::string text_report(const BenchOptions& options, const Measurement& m);

}  // namespace carat
