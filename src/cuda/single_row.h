// Steps of one row past forward(): the same mathematics in seven kernels a layer, captured once and replayed.
// Steps of many rows that go on with one, as prompts do, end here too, and a drafter's rounds take its
// layers.
#pragma once
#include <array>

#include "cuda/cuda_blocks.h"
#include "cuda/decode.h"
#include "cuda/device.h"
#include "cuda/step_upload.h"

namespace carat::cuda {

class SingleRow {
 public:
  /// The vector `in` as it is.
  static VectorInput plain(const float* in);
  /// Whether the kernels can run this model on this GPU; otherwise single rows take the general path.
  static bool supports(const ModelPlan& plan, const Queue& queue);
  /// Of its buffers.
  static std::size_t bytes(const ModelPlan& plan, int sm_count);

  /// All arguments outlive the object; `plan` points to device memory. Queries stand `lead` positions behind
  /// the row.
  SingleRow(const ModelPlan& plan, const KvStorage& kv, const CudaBlocks& blocks, Queue& queue, int lead = 0);

  /// Enqueues the step that `upload` has packed into `slot`: its logits [vocab] and the id of the largest of
  /// them, suppressed ids apart, for the next step (`drawn`) and for the host (`host_token`, pinned).
  void run(const DeviceStep& step, int position, const StepUpload& upload, int slot, float* logits,
           int32_t* drawn, int32_t* host_token);

  /// The only row of a step's tail, right after the last layer that writes K/V has written them.
  struct TailRow {
    const float* x;    // [d_model]
    const float16* q;  // of that layer, ready for attention: [heads, head_dim]
    const float* ple;  // per-layer inputs from that layer on, [its number of layers * ple_dim]
  };
  /// Enqueues the rest of the step, up to the logits. Long contexts take other kernels.
  void finish(const DeviceStep& step, int position, const TailRow& row, float* logits);
  /// What the last layer has added up, [d_model]: the head multiplies its norm.
  const float* final_residual() const { return final_x_.data(); }
  /// Steps whose positions have the same class take the same kernels.
  static int length_class(int position);

  /// Of a step that doesn't begin with an embedding. start(): x [d_model] and its norm, the first layer's
  /// input; layer(): one layer's input -> the next one's, or the head's; draw(): the id of the largest of the
  /// head's logits.
  VectorInput start(const float* x);
  VectorInput layer(const LayerPlan& l, const DeviceStep& step, int position, const VectorInput& input) {
    return layer(l, step, length_of(position), input);
  }
  void head(const DeviceStep& step, VectorInput input, float* logits);
  void draw(int32_t* drawn, int32_t* host_token);

 private:
  /// What a captured graph has burnt in.
  struct Key {
    const int32_t* tokens = nullptr;
    const int32_t* suppressed = nullptr;
    const int32_t* pages = nullptr;
    int suppressed_count = 0;
    const float* logits = nullptr;
    bool operator==(const Key&) const = default;
  };
  struct Captured {
    Key key;
    Graph graph;
  };

  /// Full attention has other kernels for other lengths.
  enum ContextLength { kShort, kMiddle, kLong, kContextLengths };

  static ContextLength length_of(int position);
  /// With q ready for attention, or raw.
  void attend_widely(const LayerPlan& l, const DeviceStep& step, const float16* q, const RopeKvArgs* raw);
  void attend(const LayerPlan& l, const DeviceStep& step, ContextLength length);
  VectorInput layer(const LayerPlan& l, const DeviceStep& step, ContextLength length,
                    const VectorInput& input);
  void enqueue_layers(const DeviceStep& step, ContextLength length, float* logits);
  void multiply(const Linear& w, int64_t rows, const VectorInput& input, const VectorOutput& output,
                bool late = false);
  VectorInput residual(const float* gain, float scalar, const float* next);
  VectorInput embedding(const DeviceStep& step, const float* norm, float* x_out) const;
  PerLayerFactor per_layer_factor(int layer) const;
  VectorInput finish_layer(const LayerPlan& l, const DeviceStep& step, bool late);

  const ModelPlan& plan_;
  const KvStorage& kv_;
  const CudaBlocks& blocks_;
  Queue& queue_;
  const int lead_;
  std::array<DeviceArray<float>, 2> x_;  // residual stream; each kernel that moves it on writes the other one
  const float* x_now_ = nullptr;
  const float* ready_ple_ = nullptr;  // per-layer inputs, or null: ple_ has their raw projections
  DeviceArray<float> qkv_, context_, branch_, hidden_, ple_, parts_, candidate_values_, final_x_, zeros_;
  DeviceArray<int32_t> candidate_ids_;
  DeviceArray<float16> q_;  // of long contexts where attention can't take it raw
  std::array<std::array<Captured, 2>, kContextLengths> graphs_;  // by slot
};

}  // namespace carat::cuda
