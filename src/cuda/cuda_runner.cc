// The CUDA runner: checks that the model fits, moves it to the GPU and executes steps on one stream. Tokens
// are drawn on the device too; logits travel back only when they are asked for.
#include "cuda/cuda_runner.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/cuda_blocks.h"
#include "cuda/cuda_drafter.h"
#include "cuda/device_sampler.h"
#include "cuda/gpu.h"
#include "cuda/graph_cache.h"
#include "cuda/persistent_row.h"
#include "cuda/single_row.h"
#include "cuda/step_upload.h"
#include "cuda/weights_upload.h"
#include "model/formats.h"
#include "model/gemma4_plan.h"
#include "model/rows.h"

namespace carat {
namespace cuda {
namespace {

int current_device() {
  int index = 0;
  check(cudaGetDevice(&index), "cudaGetDevice");
  return index;
}

void require_columns(const char* role, const Linear& w) {
  constexpr int kColumnStep = 8;  // a 16-byte load
  if (w.cols % kColumnStep != 0)
    fail(ErrorKind::unsupported, "matrix ", role, " has ", w.cols,
         " columns: the CUDA backend needs a multiple of ", kColumnStep);
}

/// What the kernels can't do, said before anything is loaded.
void require_supported(const ModelPlan& plan, const RunnerOptions& limits) {
  if (plan.d_model > kMostModelWidth)
    fail(ErrorKind::unsupported, "a width of ", plan.d_model, ": the CUDA backend takes up to ",
         kMostModelWidth);
  for (const LayerPlan& l : plan.layers) {
    constexpr int kMostPairs = 65535;  // of a token and an expert: a grid's second dimension
    if (!l.moe || limits.max_step_tokens <= kMostPairs / l.moe->experts_per_token) continue;
    fail(ErrorKind::unsupported, "steps of ", limits.max_step_tokens, " tokens with ",
         l.moe->experts_per_token, " experts each: the CUDA backend takes up to ",
         kMostPairs / l.moe->experts_per_token, " tokens");
  }
  for (const KvGroup& group : plan.kv_groups) {
    if (group.layers == 0) continue;
    const int d = group.head_dim, heads_per_kv = plan.layers.front().attention.heads / group.kv_heads;
    if (d < 16 || d > 512 || (d & (d - 1)) != 0)
      fail(ErrorKind::unsupported, "head size ", d,
           ": the CUDA backend has kernels for 16, 32, 64, 128, 256 and 512");
    if (heads_per_kv > 64)
      fail(ErrorKind::unsupported, heads_per_kv, " query heads per KV head: the CUDA backend takes up to 64");
  }
  if (plan.soft_tokens.size() > SoftTokens::kMost)
    fail(ErrorKind::unsupported, plan.soft_tokens.size(),
         " kinds of placeholder tokens: the CUDA backend takes ", SoftTokens::kMost);
  ModelPlan copy = plan;
  for_each_linear(copy, require_columns);
}

void require_kv_type(KvType type) {
  if (type != KvType::f32) return;
  fail(ErrorKind::unsupported,
       "the CUDA backend doesn't keep K and V as f32; leave --kv-type out for sums of two f16, which have "
       "22 bits, or use f16 or int8");
}

/// Small tiles of attention fit every GPU, but hold up to 16 query heads of a KV head.
void require_shared_memory(const ModelPlan& plan, KvType kv_type, const Gpu& gpu) {
  for (const KvGroup& group : plan.kv_groups) {
    if (group.layers == 0) continue;
    const int heads_per_kv = plan.layers.front().attention.heads / group.kv_heads;
    const int tile_rows = heads_per_kv <= 16 ? 16 : 64;
    if (attention_fits(group.head_dim, tile_rows, kv_type == KvType::int8, gpu.shared_bytes())) continue;
    fail(ErrorKind::unsupported, gpu.name(), " has ", gpu.shared_bytes() / 1024,
         " KB of shared memory per block, too little for ", heads_per_kv, " query heads of size ",
         group.head_dim, " per KV head with K and V in int8; use --kv-type f16");
  }
}

/// The kernels multiply q, k, v and gate, up as one matrix each.
void require_equal_formats(const ModelPlan& plan) {
  const auto require = [](const Linear& first, const Linear& second) {
    const auto stored = [](const Linear& w) { return std::max(w.format, WeightFormat::bf16); };
    if (second && stored(first) != stored(second))
      fail(ErrorKind::unsupported, "matrices that are multiplied together are stored as ",
           format_name(first.format), " and ", format_name(second.format),
           ": the CUDA backend needs one format for q, k and v, and one for gate and up");
  };
  for (const LayerPlan& l : plan.layers) {
    require(l.attention.q, l.attention.k);
    require(l.attention.q, l.attention.v);
    require(l.gate, l.up);
  }
}

/// Its other matrices have as many columns as those of the layers, or twice the model's.
void require_supported_drafter(const ModelPlan& plan, const RunnerOptions& limits) {
  if (!plan.drafter) return;
  try {
    require_supported(plan.drafter->model, limits);
    require_equal_formats(plan.drafter->model);
  } catch (const Error& error) {
    fail(error.kind(), "the drafter: ", error.what());
  }
  const int64_t clusters = plan.drafter->ordered.centroids.rows;
  if (clusters > kMostClusters)
    fail(ErrorKind::unsupported, "the drafter: ", clusters,
         " clusters of tokens: the CUDA backend takes up to ", kMostClusters);
}

std::optional<WeightFormat> wanted_format(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const WeightFormat format = parse_format(name);
  if (format == WeightFormat::f32 || format == WeightFormat::f16)
    fail(ErrorKind::unsupported, "the CUDA backend has no kernels for ", name,
         " weights; use bf16, int8 or int4");
  return format;
}

/// Of the full group.
std::size_t kv_bytes_per_token(const ModelPlan& plan, KvType type) {
  constexpr std::size_t kScaleBytes = 8;  // with padding
  if (type == KvType::int8) return carat::kv_bytes_per_token(plan, 1, kScaleBytes);
  return carat::kv_bytes_per_token(plan, type == KvType::f16 ? sizeof(float16) : 2 * sizeof(float16));
}

/// Of the model and its drafter.
std::size_t all_weight_bytes(ModelPlan& plan, std::optional<WeightFormat> wanted) {
  return weight_bytes(plan, wanted) + (plan.drafter ? CudaDrafter::weight_bytes(*plan.drafter) : 0);
}

/// Of activations, and of a step's logits and draws when every sequence has a token drawn.
std::size_t buffer_bytes(const ModelPlan& plan, const RunnerOptions& limits, const Gpu& gpu,
                         std::size_t weights) {
  // The persistent kernel's words, and its schedule: a thousandth of the weights.
  const std::size_t persistent = (std::size_t{16} << 20) + weights / 1000;
  const auto rows = static_cast<std::size_t>(limits.max_sequences);
  return persistent + graph_cache_bytes(plan.layers.size()) +
         CudaBlocks::bytes(plan, limits, gpu.sm_count()) + StepUpload::bytes(plan, limits) +
         SingleRow::bytes(plan, gpu.sm_count()) +
         rows * static_cast<std::size_t>(plan.vocab) * sizeof(float) + DeviceSampler::bytes(rows) +
         (plan.drafter ? CudaDrafter::buffer_bytes(plan, limits, gpu.sm_count()) : 0);
}

void require_memory(ModelPlan& plan, const RunnerOptions& limits, const Gpu& gpu,
                    std::optional<WeightFormat> wanted) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  constexpr double kGigabyte = 1e9;
  const std::size_t weights = all_weight_bytes(plan, wanted), kv = KvStorage::bytes(plan, limits),
                    buffers = buffer_bytes(plan, limits, gpu, weights);
  if (weights + kv + buffers <= free) return;
  fail(ErrorKind::out_of_memory, gpu.name(),
       plan.drafter ? ": the model and its drafter need " : ": the model needs ",
       static_cast<double>(weights + kv + buffers) / kGigabyte, " GB (weights ",
       static_cast<double>(weights) / kGigabyte, ", KV ", static_cast<double>(kv) / kGigabyte, ", buffers ",
       static_cast<double>(buffers) / kGigabyte, "), but ", static_cast<double>(free) / kGigabyte,
       " GB are free; use a shorter context or fewer sequences");
}

/// Whether every row's token is simply its largest logit, with the same suppressed tokens, as the step's own
/// kernels draw it.
bool draws_greedily(const StepInput& step) {
  constexpr std::size_t kMostSuppressed = 1024;
  if (step.sampling.empty() || step.return_logits) return false;
  const auto& first = step.sampling.front().suppressed;
  return first.size() <= kMostSuppressed && std::ranges::all_of(step.sampling, [&](const RowSampling& row) {
           return draws_largest_logit(row) && std::ranges::equal(row.suppressed, first);
         });
}

}  // namespace

class CudaRunner final : public Runner {
 public:
  CudaRunner(ModelPlan plan, const RunnerOptions& limits, const Gpu& gpu, const CudaOptions& options)
      : plan_(std::move(plan)),
        weights_(upload_weights(plan_, wanted_format(options.format), options.progress)),
        info_{
            gpu.name(),  limits,          bytes_per_token(plan_),  kv_bytes_per_token(plan_, limits.kv_type),
            plan_.vocab, plan_.kv_groups, plan_.drafter != nullptr},
        overlaps_launches_(gpu.overlaps_launches()),
        queue_{stream_, overlaps_launches_,   gpu.sm_count(),    cudaSuccess,
               {},      gpu.has_warpgroups(), gpu.shared_bytes()},
        kv_(plan_, limits),
        upload_(plan_, limits, queue_.shared_bytes),
        blocks_(plan_, kv_, limits, queue_, options.fast_prompts),
        sampler_(plan_.vocab),
        drawn_(static_cast<std::size_t>(limits.max_step_tokens)),
        phase_report_(options.phase_report) {
    for (Slot& slot : slots_) slot.tokens = PinnedArray<int32_t>(drawn_.size());
    if (options.fused_single_rows && SingleRow::supports(plan_, queue_))
      blocks_.finish_with(single_row_.emplace(plan_, kv_, blocks_, queue_));
    // It knows no keys and values in int8, and leaves no rows for a drafter.
    const bool takes_plan = single_row_ && !plan_.drafter && limits.kv_type != KvType::int8;
    if (takes_plan && options.persistent &&
        PersistentRow::supports(plan_, limits.page_tokens, queue_, queue_.shared_bytes))
      persistent_row_.emplace(plan_, kv_, blocks_, queue_, queue_.shared_bytes);
    if (persistent_row_ && options.phase_report) persistent_row_->record_times(true);
    if (!plan_.drafter) return;
    drafter_.emplace(plan_, blocks_, kv_, limits, queue_, options.fused_single_rows);
    plan_.drafter.reset();  // with its checkpoint
  }

  ~CudaRunner() override {
    cudaStreamSynchronize(stream_);
    if (persistent_row_ && phase_report_) persistent_row_->report(phase_report_);
  }

  const RunnerInfo& info() const override { return info_; }
  void time_phases(bool on) override;
  StepTimes phase_times() override { return std::exchange(times_, {}); }
  void enter_thread() override { check(cudaSetDevice(device_), "cudaSetDevice"); }
  void submit(const StepInput& step) override;
  StepResult collect() override;
  std::vector<int32_t> draft(const DraftRows& rows, int count) override;
  void copy_pages(std::span<const PageCopy> copies) override {
    for (const PageCopy& copy : copies) kv_.copy_page(queue_, copy);
  }

 private:
  /// One of the two steps that may be in flight.
  struct Slot {
    Event done;
    PinnedArray<int32_t> tokens;  // room for any step: captured graphs know its address
    PinnedArray<float> logits;
    std::size_t rows = 0;
    bool return_logits = false, draws = false;
    bool token_written = false;  // by the step's last kernel, without a copy
  };

  /// What sets apart steps that are the same launches.
  struct Shape {
    DeviceStep step;
    const float* logits;
    bool draw;
    int length_class;  // of a tail of one row
    bool operator==(const Shape&) const = default;
  };

  void run_blocks(const DeviceStep& device, const StepRows& rows, bool draw);
  void run(const StepInput& step, Slot& slot, int index);
  void draw_on_device(const DeviceStep& step, int rows);
  template <class T>
  void copy_back(PinnedArray<T>& to, const T* from, std::size_t size);
  void reserve_logits(std::size_t rows);

  Stream stream_;
  ModelPlan plan_;
  DeviceWeights weights_;
  RunnerInfo info_;
  const bool overlaps_launches_;
  Queue queue_;
  KvStorage kv_;
  StepUpload upload_;
  CudaBlocks blocks_;
  std::optional<SingleRow> single_row_;
  std::optional<PersistentRow> persistent_row_;
  std::optional<CudaDrafter> drafter_;
  DeviceStep last_step_;
  DeviceSampler sampler_;
  PhaseEvents phases_{stream_};
  StepTimes times_;
  DeviceArray<int32_t> drawn_;  // of the last step that drew
  DeviceArray<float> logits_, candidate_values_;
  DeviceArray<int32_t> candidate_ids_;
  std::FILE* phase_report_;
  std::array<Slot, 2> slots_;
  GraphCache<Shape> graphs_;
  std::deque<int> in_flight_;  // indices of slots, oldest first
  int next_slot_ = 0;
  const int device_ = current_device();
};

void CudaRunner::submit(const StepInput& step) {
  CHECK(in_flight_.size() < slots_.size());
  CHECK(static_cast<int>(step.tokens.size()) <= info_.limits.max_step_tokens);
  CHECK(static_cast<int>(step.segments.size()) <= info_.limits.max_sequences);
  for (int32_t token : step.tokens) CHECK(token < plan_.vocab);
  const int index = next_slot_;
  next_slot_ ^= 1;
  Slot& slot = slots_[static_cast<std::size_t>(index)];
  slot.rows = step.logit_rows.size();
  slot.return_logits = step.return_logits;
  slot.draws = !step.sampling.empty();
  reserve_logits(slot.rows);
  run(step, slot, index);
  in_flight_.push_back(index);
}

/// Logit buffers grow to the largest number of rows asked for: a scoring step needs thousands, decoding a
/// few.
void CudaRunner::reserve_logits(std::size_t rows) {
  const std::size_t size = rows * static_cast<std::size_t>(plan_.vocab);
  if (logits_.size() >= size) return;
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  graphs_.clear();  // they know the buffers
  logits_ = DeviceArray<float>();
  logits_ = DeviceArray<float>(size);
  candidate_values_ = DeviceArray<float>(rows * kGreedyChunks);
  candidate_ids_ = DeviceArray<int32_t>(rows * kGreedyChunks);
}

void CudaRunner::run(const StepInput& step, Slot& slot, int index) {
  const Rows all{step.tokens, step.segments};
  const NarrowedRows tail = narrow_rows(all, step.logit_rows);
  const StepRows rows{all, tail.rows(), step.logit_rows, step.page_tables};
  const bool greedy = draws_greedily(step), sampled = slot.draws && !greedy;
  const std::span<const int32_t> suppressed =
      greedy ? step.sampling.front().suppressed : std::span<const int32_t>{};
  const DeviceStep device = last_step_ = upload_.pack(index, rows, suppressed);
  if (sampled) sampler_.upload(queue_, index, step.sampling);
  const bool single = single_row_ && all.count() == 1 && slot.rows == 1;
  const int position = step.segments.front().past;
  slot.token_written = single && greedy;
  const bool in_one = single && persistent_row_ && persistent_row_->takes(position);
  if (in_one) {
    persistent_row_->run(device, upload_, index, logits_.data(), drawn_.data(), slot.tokens.data());
  } else if (single) {
    single_row_->run(device, position, upload_, index, logits_.data(), drawn_.data(), slot.tokens.data());
  } else {
    upload_.copy(queue_, index);
    run_blocks(device, rows, greedy);
  }
  if (slot.return_logits)
    copy_back(slot.logits, logits_.data(), slot.rows * static_cast<std::size_t>(plan_.vocab));
  if (sampled) sampler_.draw(queue_, logits_.data(), drawn_.data());
  if (slot.draws && !slot.token_written) copy_back(slot.tokens, drawn_.data(), slot.rows);
  if (blocks_.marks_phases() && in_one)
    persistent_row_->add_times(times_.of(all));
  else if (blocks_.marks_phases())
    phases_.end_step(times_.of(all));
  slot.done.record(stream_);
}

/// One kernel after the other, so that each phase has its own time; the persistent kernel has timers inside.
void CudaRunner::time_phases(bool on) {
  if (persistent_row_) persistent_row_->record_times(on);
  blocks_.mark_phases(on ? &phases_ : nullptr);
  queue_.overlap = !on && overlaps_launches_;
}

/// A step has hundreds of launches, which take the host longer than the GPU needs for few rows.
void CudaRunner::run_blocks(const DeviceStep& device, const StepRows& rows, bool draw) {
  const auto launch_all = [&] {
    blocks_.mark(Phase::embedding);
    resolve_tokens(queue_, device.tokens, device.all.count, drawn_.data(), blocks_.soft_tokens());
    blocks_.begin(device, logits_.data());
    forward(blocks_, plan_, rows);
    blocks_.mark(Phase::draw);
    if (draw) draw_on_device(device, device.tail.count);
  };
  if (blocks_.marks_phases()) return launch_all();
  const int length_class =
      rows.tail.count() == 1 ? SingleRow::length_class(rows.tail.segments.front().past) : 0;
  graphs_.run(queue_, {device, logits_.data(), draw, length_class}, launch_all);
}

void CudaRunner::draw_on_device(const DeviceStep& step, int rows) {
  GreedyArgs args{};
  args.logits = logits_.data();
  args.vocab = plan_.vocab;
  args.suppressed = step.suppressed;
  args.suppressed_count = step.suppressed_count;
  args.candidate_values = candidate_values_.data();
  args.candidate_ids = candidate_ids_.data();
  args.drawn = drawn_.data();
  greedy(queue_, args, rows);
}

template <class T>
void CudaRunner::copy_back(PinnedArray<T>& to, const T* from, std::size_t size) {
  if (to.size() < size) to = PinnedArray<T>(size);
  if (queue_.status == cudaSuccess)
    queue_.status = cudaMemcpyAsync(to.data(), from, size * sizeof(T), cudaMemcpyDeviceToHost, queue_.stream);
}

StepResult CudaRunner::collect() {
  CHECK(!in_flight_.empty());
  Slot& slot = slots_[static_cast<std::size_t>(in_flight_.front())];
  in_flight_.pop_front();
  check(queue_.status, "launching a step");
  slot.done.wait();
  StepResult result;
  if (slot.draws) result.tokens.assign(slot.tokens.data(), slot.tokens.data() + slot.rows);
  if (slot.return_logits)
    result.logits = {slot.logits.data(), slot.rows * static_cast<std::size_t>(plan_.vocab)};
  return result;
}

std::vector<int32_t> CudaRunner::draft(const DraftRows& rows, int count) {
  CHECK(in_flight_.empty());
  CHECK(rows.count() <= info_.limits.max_sequences);
  return drafter_.value().draft(rows, last_step_, count);
}

}  // namespace cuda

std::unique_ptr<Runner> make_cuda_runner(ModelPlan plan, const RunnerOptions& options,
                                         const CudaOptions& cuda) {
  cuda::require_supported(plan, options);
  cuda::require_kv_type(options.kv_type);
  cuda::require_equal_formats(plan);
  cuda::require_supported_drafter(plan, options);
  const auto wanted = cuda::wanted_format(cuda.format);
  const cuda::Gpu gpu(cuda.device, cuda.limits);
  cuda::require_shared_memory(plan, options.kv_type, gpu);
  cuda::require_memory(plan, options, gpu, wanted);
  return std::make_unique<cuda::CudaRunner>(std::move(plan), options, gpu, cuda);
}

std::size_t free_cuda_bytes_for_kv(ModelPlan plan, const RunnerOptions& limits, const CudaOptions& cuda) {
  cuda::require_kv_type(limits.kv_type);
  const cuda::Gpu gpu(cuda.device, cuda.limits);
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const std::size_t weights = cuda::all_weight_bytes(plan, cuda::wanted_format(cuda.format));
  const std::size_t taken = weights + cuda::buffer_bytes(plan, limits, gpu, weights);
  return free > taken ? free - taken : 0;
}

}  // namespace carat
