#include "cuda/weights_upload.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/float16.h"
#include "model/gemma4_plan.h"

namespace carat::cuda {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{8} << 20;
constexpr int64_t kElementBytes = 2;
constexpr unsigned kMostThreads = 16;

/// Rows of one matrix that go to the device in one copy.
struct Chunk {
  Linear rows;
  std::byte* to;
};

/// Calls `visit(linear, bytes on the device)` once for every matrix, in step order; tied matrices count once.
template <class Visit>
void for_each_distinct(ModelPlan& plan, Visit&& visit) {
  std::map<const std::byte*, bool> seen;
  for_each_linear(plan, [&](const char*, Linear& linear) {
    if (seen.emplace(linear.data, true).second)
      visit(linear, static_cast<std::size_t>(linear.rows * linear.cols * kElementBytes));
  });
}

template <class Visit>
void for_each_vector(ModelPlan& plan, Visit&& visit) {
  visit(plan.ple_norm);
  visit(plan.first_norm);
  for (LayerPlan& l : plan.layers) {
    for (Vec* v : {&l.attention.q_norm, &l.attention.k_norm, &l.post_attention, &l.pre_ffn, &l.post_ffn,
                   &l.tail.next_norm})
      visit(*v);
    if (l.per_layer) visit(l.per_layer->post);
    if (!l.moe) continue;
    for (Vec* v : {&l.moe->router_scale, &l.moe->expert_scale, &l.moe->post_dense, &l.moe->pre_experts,
                   &l.moe->post_experts})
      visit(*v);
  }
}

/// Writes the rows as bfloat16.
void encode(const Linear& rows, std::byte* to) {
  const std::size_t cols = static_cast<std::size_t>(rows.cols);
  if (rows.format == WeightFormat::bf16) {
    std::memcpy(to, rows.data, size_bytes(rows));
    return;
  }
  std::vector<float> row(cols);
  for (int64_t r = 0; r < rows.rows; ++r) {
    decode_row(rows, r, row.data());
    for (float value : row) {
      const bf16 rounded = to_bf16(value);
      std::memcpy(to, &rounded, sizeof rounded);
      to += sizeof rounded;
    }
  }
}

/// One thread's share: takes chunks until none is left, through two pinned buffers, so that it reads the next
/// chunk while the last one travels.
void upload_chunks(const std::vector<Chunk>& chunks, std::atomic<std::size_t>& next, int device) {
  check(cudaSetDevice(device), "cudaSetDevice");
  Stream stream;
  std::array<PinnedArray<std::byte>, 2> buffers{PinnedArray<std::byte>(kChunkBytes),
                                                PinnedArray<std::byte>(kChunkBytes)};
  std::array<Event, 2> sent;
  std::size_t buffer = 0;
  for (std::size_t i = next++; i < chunks.size(); i = next++, buffer ^= 1) {
    sent[buffer].wait();
    encode(chunks[i].rows, buffers[buffer].data());
    const std::size_t bytes =
        static_cast<std::size_t>(chunks[i].rows.rows * chunks[i].rows.cols * kElementBytes);
    check(cudaMemcpyAsync(chunks[i].to, buffers[buffer].data(), bytes, cudaMemcpyHostToDevice, stream),
          "upload");
    sent[buffer].record(stream);
  }
  check(cudaStreamSynchronize(stream), "upload");
}

void run_upload(const std::vector<Chunk>& chunks) {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  std::atomic<std::size_t> next{0};
  std::exception_ptr error;
  std::mutex error_lock;
  const auto share = [&] {
    try {
      upload_chunks(chunks, next, device);
    } catch (...) {
      const std::lock_guard lock(error_lock);
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::size_t count = std::min<std::size_t>(
        chunks.size(), std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads));
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back(share);
  }
  if (error) std::rethrow_exception(error);
}

DeviceArray<float> upload_vectors(ModelPlan& plan) {
  std::vector<float> values;
  for_each_vector(plan, [&](Vec& v) { values.insert(values.end(), v.begin(), v.end()); });
  DeviceArray<float> device(values.size());
  check(cudaMemcpy(device.data(), values.data(), device.bytes(), cudaMemcpyHostToDevice), "upload");
  std::size_t at = 0;
  for_each_vector(plan, [&](Vec& v) {
    v = Vec(device.data() + at, v.size());
    at += v.size();
  });
  return device;
}

}  // namespace

std::size_t weight_bytes(ModelPlan& plan) {
  std::size_t total = 0;
  for_each_distinct(plan, [&](Linear&, std::size_t bytes) { total += bytes; });
  for_each_vector(plan, [&](Vec& v) { total += v.size_bytes(); });
  return total;
}

DeviceWeights upload_weights(ModelPlan& plan) {
  std::size_t total = 0;
  for_each_distinct(plan, [&](Linear&, std::size_t bytes) { total += bytes; });
  DeviceWeights weights;
  weights.matrices = DeviceArray<std::byte>(total);
  std::map<const std::byte*, std::byte*> moved;
  std::vector<Chunk> chunks;
  std::byte* to = weights.matrices.data();
  for_each_distinct(plan, [&](Linear& linear, std::size_t bytes) {
    moved[linear.data] = to;
    const std::size_t row = static_cast<std::size_t>(linear.cols * kElementBytes);
    const auto step = static_cast<int64_t>(std::max<std::size_t>(1, kChunkBytes / row));
    for (int64_t first = 0; first < linear.rows; first += step) {
      chunks.push_back({slice_rows(linear, first, std::min(step, linear.rows - first)),
                        to + static_cast<std::size_t>(first) * row});
    }
    to += bytes;
  });
  run_upload(chunks);
  for_each_linear(plan, [&](const char*, Linear& linear) {
    linear.data = moved.at(linear.data);
    linear.format = WeightFormat::bf16;
  });
  weights.vectors = upload_vectors(plan);
  plan.storage.reset();
  return weights;
}

}  // namespace carat::cuda
