// The plan's matrices as the kernels read them: repacked into panels in 2 MiB pages, one matrix after another
// in the order of a decode step, quantised on the way if asked for; or views of the checkpoint, to start at
// once.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "base/huge_pages.h"
#include "base/thread_pool.h"
#include "cpu/kernels.h"
#include "model/gemma4.h"

namespace carat {

struct PackedExpert {
  MatmulWeights gate, up, down;
};

/// The matrices of one LayerPlan under the same names; absent ones are empty.
struct PackedLayer {
  MatmulWeights q, k, v, o, gate, up, down;
  MatmulWeights router;
  std::vector<PackedExpert> experts;
  MatmulWeights ple_gate, ple_proj;
};

struct PackOptions {
  std::optional<WeightFormat> format;  // none: as stored
  bool in_place = false;               // views of the checkpoint
  std::function<void(double fraction)> progress;
};

class PackedWeights {
 public:
  /// Uses all threads of `pool`; progress is reported from the calling thread. Throws Error{invalid_argument}
  /// for options that exclude each other, Error{out_of_memory} before anything is copied.
  PackedWeights(const ModelPlan& plan, const PackOptions& options, const Kernels& kernels, ThreadPool& pool);

  MatmulWeights ple_project, head;
  std::vector<PackedLayer> layers;

  /// Bytes of matrices that a decode step of one sequence reads.
  std::size_t bytes_per_token() const { return bytes_per_token_; }
  /// Whether any matrix has fewer than 16 bits per weight.
  bool quantized() const { return quantized_; }

 private:
  HugePages memory_;
  std::size_t bytes_per_token_ = 0;
  bool quantized_ = false;
};

/// Panels [first, first + count) of w as a matrix of their own.
MatmulWeights slice_panels(const MatmulWeights& w, int64_t first, int64_t count);

}  // namespace carat
