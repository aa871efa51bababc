#include "cuda/weights_upload.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/float16.h"
#include "cuda/packed_rows.h"
#include "model/formats.h"
#include "model/gemma4_plan.h"
#include "model/quantized_checkpoint.h"

namespace carat::cuda {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{8} << 20;
constexpr unsigned kMostThreads = 16;

/// Rows of one matrix that go to the device in one copy, and what they are there.
struct Chunk {
  Linear rows;
  WeightFormat format;
  std::byte* to;

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(packed_row_bytes(format, static_cast<int>(rows.cols)));
  }
  std::size_t bytes() const { return row_bytes() * static_cast<std::size_t>(rows.rows); }
};

bool is_quantized(WeightFormat format) {
  return format == WeightFormat::int8 || format == WeightFormat::int4;
}

/// The format of a matrix on the device.
WeightFormat device_format(std::string_view role, const Linear& linear, std::optional<WeightFormat> wanted) {
  WeightFormat format = linear.format;
  const bool table = role == "embed" || role == "ple_table";
  if (wanted && is_quantized(format))
    fail(ErrorKind::invalid_argument, "the checkpoint's weights are already quantised (", format_name(format),
         "); load it without a format");
  if (wanted && !table) format = format_of_role(role, format, *wanted);
  return is_quantized(format) ? format : WeightFormat::bf16;
}

/// Matrices are told apart by where their bytes are and what becomes of them: a tied embedding may stay as
/// stored beside an int8 head.
using MatrixKey = std::pair<const std::byte*, WeightFormat>;

using VisitMatrix = std::function<void(const char* role, Linear& linear)>;

void for_each_matrix(ModelPlan& plan, const VisitMatrix& visit) { for_each_linear(plan, visit); }

void for_each_matrix(DrafterPlan& plan, const VisitMatrix& visit) {
  visit("pre", plan.pre);
  for_each_linear(plan.model, visit);
  if (plan.ordered.centroids) {
    visit("centroids", plan.ordered.centroids);
    visit("head", plan.ordered.embed);
  }
  visit("post", plan.post);
}

/// Calls `visit(chunk)` once for every matrix as a whole, in step order; tied matrices of one format count
/// once.
template <class Plan, class Visit>
void for_each_distinct(Plan& plan, std::optional<WeightFormat> wanted, Visit&& visit) {
  std::map<MatrixKey, bool> seen;
  for_each_matrix(plan, [&](const char* role, Linear& linear) {
    const WeightFormat format = device_format(role, linear, wanted);
    if (seen.emplace(MatrixKey{linear.data, format}, true).second) visit(Chunk{linear, format, nullptr});
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

void round_row(const std::vector<float>& row, std::byte* to) {
  for (float value : row) {
    const bf16 rounded = to_bf16(value);
    std::memcpy(to, &rounded, sizeof rounded);
    to += sizeof rounded;
  }
}

/// Writes the rows as the device wants them.
void encode(const Chunk& chunk, std::byte* to) {
  const Linear& rows = chunk.rows;
  const int cols = static_cast<int>(rows.cols);
  if (rows.format == WeightFormat::bf16 && chunk.format == WeightFormat::bf16) {
    std::memcpy(to, rows.data, size_bytes(rows));
    return;
  }
  std::vector<float> row(static_cast<std::size_t>(cols));
  std::vector<std::byte> blocks(row_bytes(chunk.format, cols));
  for (int64_t r = 0; r < rows.rows; ++r, to += chunk.row_bytes()) {
    if (rows.format == chunk.format) {
      pack_row(chunk.format, slice_rows(rows, r, 1).data, cols, to);
      continue;
    }
    decode_row(rows, r, row.data());
    if (!is_quantized(chunk.format)) {
      round_row(row, to);
      continue;
    }
    encode_row(chunk.format, row.data(), cols, blocks.data());
    pack_row(chunk.format, blocks.data(), cols, to);
  }
}

/// What the threads of an upload share.
struct Upload {
  const std::vector<Chunk>& chunks;
  int device = 0;
  std::atomic<std::size_t> next{0}, sent_bytes{0};
  std::mutex lock{};
  std::condition_variable ended{};
  std::size_t running = 0;
  std::exception_ptr error{};
};

/// One thread's share: takes chunks until none is left, through two pinned buffers, so that it reads the next
/// chunk while the last one travels.
void upload_chunks(Upload& upload) {
  check(cudaSetDevice(upload.device), "cudaSetDevice");
  const std::vector<Chunk>& chunks = upload.chunks;
  Stream stream;
  std::array<PinnedArray<std::byte>, 2> buffers{PinnedArray<std::byte>(kChunkBytes),
                                                PinnedArray<std::byte>(kChunkBytes)};
  std::array<Event, 2> sent;
  std::size_t buffer = 0;
  for (std::size_t i = upload.next++; i < chunks.size(); i = upload.next++, buffer ^= 1) {
    sent[buffer].wait();
    encode(chunks[i], buffers[buffer].data());
    check(cudaMemcpyAsync(chunks[i].to, buffers[buffer].data(), chunks[i].bytes(), cudaMemcpyHostToDevice,
                          stream),
          "upload");
    sent[buffer].record(stream);
    upload.sent_bytes += chunks[i].bytes();
  }
  check(cudaStreamSynchronize(stream), "upload");
}

/// Of `total` bytes; this thread reports progress while others work.
void run_upload(const std::vector<Chunk>& chunks, std::size_t total, const LoadingProgress& progress) {
  constexpr std::chrono::milliseconds kReportEvery{50};
  Upload upload{chunks};
  check(cudaGetDevice(&upload.device), "cudaGetDevice");
  upload.running =
      std::min<std::size_t>(chunks.size(), std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads));
  const auto share = [&] {
    std::exception_ptr error;
    try {
      upload_chunks(upload);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(upload.lock);
    if (error) upload.error = error;
    --upload.running;
    upload.ended.notify_all();
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0, count = upload.running; i < count; ++i) threads.emplace_back(share);
  std::unique_lock lock(upload.lock);
  while (!upload.ended.wait_for(lock, kReportEvery, [&] { return upload.running == 0; })) {
    lock.unlock();
    if (progress) progress(static_cast<double>(upload.sent_bytes) / static_cast<double>(total));
    lock.lock();
  }
  if (upload.error) std::rethrow_exception(upload.error);
  if (progress) progress(1.0);
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

ModelPlan& layers_of(ModelPlan& plan) { return plan; }
ModelPlan& layers_of(DrafterPlan& plan) { return plan.model; }

template <class Plan>
std::size_t bytes_of(Plan& plan, std::optional<WeightFormat> wanted) {
  std::size_t total = 0;
  for_each_distinct(plan, wanted, [&](const Chunk& matrix) { total += matrix.bytes(); });
  for_each_vector(layers_of(plan), [&](Vec& v) { total += v.size_bytes(); });
  return total;
}

template <class Plan>
DeviceWeights upload(Plan& plan, std::optional<WeightFormat> wanted, const LoadingProgress& progress) {
  std::size_t total = 0;
  for_each_distinct(plan, wanted, [&](const Chunk& matrix) { total += matrix.bytes(); });
  DeviceWeights weights;
  weights.matrices = DeviceArray<std::byte>(total);
  std::map<MatrixKey, std::byte*> moved;
  std::vector<Chunk> chunks;
  std::byte* to = weights.matrices.data();
  for_each_distinct(plan, wanted, [&](const Chunk& matrix) {
    moved[{matrix.rows.data, matrix.format}] = to;
    const std::size_t row = matrix.row_bytes();
    const auto step = static_cast<int64_t>(std::max<std::size_t>(1, kChunkBytes / row));
    for (int64_t first = 0; first < matrix.rows.rows; first += step) {
      chunks.push_back({slice_rows(matrix.rows, first, std::min(step, matrix.rows.rows - first)),
                        matrix.format, to + static_cast<std::size_t>(first) * row});
    }
    to += matrix.bytes();
  });
  run_upload(chunks, total, progress);
  for_each_matrix(plan, [&](const char* role, Linear& linear) {
    linear.format = device_format(role, linear, wanted);
    linear.data = moved.at({linear.data, linear.format});
  });
  weights.vectors = upload_vectors(layers_of(plan));
  layers_of(plan).storage.reset();
  return weights;
}

}  // namespace

std::size_t weight_bytes(ModelPlan& plan, std::optional<WeightFormat> wanted) {
  return bytes_of(plan, wanted);
}
std::size_t weight_bytes(DrafterPlan& plan) { return bytes_of(plan, std::nullopt); }

DeviceWeights upload_weights(ModelPlan& plan, std::optional<WeightFormat> wanted,
                             const LoadingProgress& progress) {
  return upload(plan, wanted, progress);
}
DeviceWeights upload_weights(DrafterPlan& plan) { return upload(plan, std::nullopt, {}); }

}  // namespace carat::cuda
