// The blocks of model/gemma4.h for the CPU: each divides its work over the thread pool and calls the kernels.
// Matrices are divided by rows, everything else by tokens, attention by AttentionSchedule; since the kernels
// give an output the same bits whatever is computed beside it, results depend neither on the number of
// threads nor on the batch.
#pragma once
#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/attention_schedule.h"
#include "cpu/cpu_kv.h"
#include "cpu/expert_routing.h"
#include "cpu/kernels.h"
#include "cpu/matrix.h"
#include "cpu/packed_weights.h"
#include "cpu/work_shares.h"
#include "model/gemma4.h"

namespace carat {

class CpuBlocks {
 public:
  /// Allocates all buffers for steps within `limits`. The arguments must outlive this.
  CpuBlocks(const ModelPlan& plan, const PackedWeights& weights, const RunnerOptions& limits, CpuKv& kv,
            const Kernels& kernels, ThreadPool& pool);

  /// Prepares what all layers of a step share: positions, rotations, the division of attention.
  void begin(const StepRows& step);

  /// The same for one round of a drafter: rows stand at the positions of `at` and see those of `seen`.
  void begin_draft(std::span<const Segment> at, std::span<const Segment> seen);
  /// In place of embed(): x = w input.
  void start(const MatmulWeights& w, const Matrix<float>& input, int count);
  /// out = w xn, of what logits() multiplied with the head.
  void project_final(const MatmulWeights& w, int count, Matrix<float>& out) {
    multiply({{&w, &out}}, xn_, count);
  }
  const float* final_state(int row) const { return xn_.row(row); }

  void embed(const ModelPlan& m, const Rows& rows);
  void per_layer_inputs(const ModelPlan& m, const Rows& rows);
  void qkv(const LayerPlan& l, const Rows& rows, const StepRows& step);
  void narrow(const ModelPlan& m, const StepRows& step);
  void attend(const LayerPlan& l, const Rows& rows, const StepRows& step);
  void attention_out(const LayerPlan& l, const Rows& rows);
  void ffn(const LayerPlan& l, const Rows& rows);
  void moe_ffn(const LayerPlan& l, const Rows& rows);
  void per_layer_mix(const LayerPlan& l, const Rows& rows);
  void logits(const ModelPlan& m, const Rows& rows);

  /// [rows, vocab] of the step just run.
  std::span<float> logits() { return {logits_.row(0), logit_count_}; }

 private:
  /// Cosines and sines of the step's positions, [rows, rotary_pairs], for the layers of one KV group.
  struct Rotation {
    Rope rope{};
    std::vector<float> frequencies;
    Matrix<float> cosines, sines;
  };
  struct Product {
    const MatmulWeights* weights;
    Matrix<float>* out;
  };
  /// Memory that one thread needs for itself.
  struct Scratch {
    Matrix<float> attention;  // one row
    Matrix<float> tile;       // a part of the MLP's up projection
    Matrix<float> row;        // one row of the per-layer-embedding table
  };

  /// Fewer rows than this are not worth waking the other threads for: norms take about a microsecond a row.
  static constexpr int kSerialRows = 4;
  /// Up to so many rows a product is a stream of weights.
  static constexpr int kStreamedRows = 16;
  /// Activations that stay in half of a 2 MiB L2 cache while panel after panel goes by.
  static constexpr int64_t kCachedFloats = int64_t{1} << 18;

  void set_up_attention(const RunnerOptions& limits);
  void set_positions(std::span<const Segment> segments);
  void divide_attention(std::span<const Segment> segments);
  /// Calls work(row, thread) for every row.
  template <class Work>
  void for_rows(int count, const Work& work) {
    if (count < kSerialRows || pool_.size() == 1) {
      for (int row = 0; row < count; ++row) work(row, 0);
      return;
    }
    pool_.run([&](int thread) {
      const IndexRange rows = share_of(count, thread, pool_.size());
      for (int64_t row = rows.first; row < rows.last; ++row) work(static_cast<int>(row), thread);
    });
  }
  /// Calls work(panels, thread) for ranges that together are [0, panels), for `count` rows of `cols`
  /// activations. Where these don't stay in cache each thread's share remains whole: its panels take turns
  /// with a block of them.
  template <class Work>
  void run_shares(int64_t panels, int count, int64_t cols, const Work& work) {
    shares_.divide(panels, count <= kStreamedRows || count * cols <= kCachedFloats);
    pool_.run([&](int thread) {
      for (IndexRange range = shares_.take(thread); range.count() > 0; range = shares_.take(thread)) {
        work(range, thread);
      }
    });
  }
  Activations activations(const Matrix<float>& x, const MatmulWeights& w, int count);
  int row_blocks(int64_t panels, int count) const;
  void multiply(std::initializer_list<Product> products, const Matrix<float>& x, int count);
  void multiply_panels(std::initializer_list<Product> products, IndexRange share, const Activations& input,
                       IndexRange rows);
  void rotate_and_store(const LayerPlan& l, const PageTable& table, int row);
  void gated_panels(const MatmulWeights& gate, const MatmulWeights& up, IndexRange panels,
                    const Activations& x, int count, Matrix<float>& hidden, int64_t first_row,
                    Matrix<float>& tile);
  void dense_mlp(const LayerPlan& l, int count);
  void add_ffn_branch(const LayerPlan& l, int count);
  void finish_layer(const LayerPlan& l, Vec gain, int count);

  void route(const LayerPlan& l, int count);
  void run_experts(const LayerPlan& l, int count);
  template <class Work>
  void for_expert_shares(int64_t panels, const Work& work);
  float* sum_experts(int row);

  const ModelPlan& plan_;
  const PackedWeights& weights_;
  CpuKv& kv_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  WorkShares shares_;  // of the region that runs

  std::vector<int32_t> positions_, sequences_;  // of the rows being computed
  std::array<Rotation, kKvGroups> rotations_;
  std::array<AttentionSchedule, kKvGroups> schedules_;
  ExpertRouting routing_;

  Matrix<float> x_, xn_;       // [rows, d_model]: residual stream, and its norm for the next block
  Matrix<float> q_, context_;  // [rows, heads, head_dim]
  Matrix<float> k_, v_;        // [rows, kv_heads, head_dim]
  Matrix<float> branch_;       // [rows, d_model]
  Matrix<float> hidden_;       // [rows, intermediate_size]
  Matrix<float> ple_;          // [rows, layers, ple_dim]
  Matrix<float> router_, expert_in_, expert_hidden_, expert_out_;  // MoE, see run_experts
  Matrix<float> logits_;                                           // one row: [rows, vocab]
  Matrix<int8_t> quantized_;        // one row: the activations of the current matmul
  Matrix<ActivationBlock> blocks_;  // one row: their blocks
  Matrix<float> partials_;          // one row: attention partials of the current layer
  std::vector<Scratch> scratch_;
  std::size_t logit_count_ = 0;
};

}  // namespace carat
