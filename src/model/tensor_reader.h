// Typed, shape-checked access to a checkpoint's tensors for the makers of plans.
#pragma once
#include <array>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/model_config.h"
#include "io/safetensors.h"
#include "model/weights.h"

namespace carat {

/// What a plan's views point into.
struct PlanStorage {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::vector<std::unique_ptr<float[]>> vectors;
};

/// Every error is Error{corrupt} that names file and tensor, or Error{unsupported} for a dtype.
class TensorReader {
 public:
  /// Finds the prefix under which the text model lies. Both must outlive this.
  TensorReader(const Checkpoint& checkpoint, PlanStorage& storage);

  // Names are without that prefix.
  Linear matrix(const std::string& name, int64_t rows, int64_t cols);
  /// Experts are stored [experts, rows, cols]; seen here as one matrix of experts * rows rows.
  Linear stacked_matrix(const std::string& name, int64_t experts, int64_t rows, int64_t cols);
  Vec vector(const std::string& name, int64_t size);

  /// Null when the checkpoint has no output head of its own.
  const Tensor* find_head() const;
  Linear head(const Tensor& tensor, int64_t rows, int64_t cols) const;
  /// A matrix outside the text model, under its whole name.
  Linear whole_name(const std::string& name, int64_t rows, int64_t cols) const;

  /// A tensor of the text model that was never read means that config.json describes another model, which
  /// would run and answer wrongly. K and V of sharing layers are the exception: Google's files keep them,
  /// nobody reads them.
  void expect_all_read(const ModelConfig& config) const;

 private:
  const Tensor* find(const std::string& name) const;
  const Tensor& require(const std::string& name, std::span<const int64_t> shape) const;
  const Tensor& get(const std::string& name, std::span<const int64_t> shape);
  void expect_shape(const Tensor& tensor, std::span<const int64_t> weights) const;
  Linear view(const Tensor& tensor, int64_t rows, int64_t cols) const;

  const Checkpoint& checkpoint_;
  PlanStorage& storage_;
  std::string prefix_;
  std::set<std::string_view> read_;  // whole names, which the checkpoint owns
};

}  // namespace carat
