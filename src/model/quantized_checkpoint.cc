#include "model/quantized_checkpoint.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "io/part_directory.h"
#include "io/safetensors_writer.h"
#include "model/formats.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace fs = std::filesystem;
namespace {

/// Rows are encoded in pieces of about this much output: enough for all threads, little enough to hold.
constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

bool is_quantized(WeightFormat format) {
  return format == WeightFormat::int8 || format == WeightFormat::int4;
}

/// One tensor of the copy: rows of weights in `format`, or the bytes as they are when that is the stored
/// format.
struct Output {
  const Tensor* tensor;
  Linear source;
  WeightFormat format;

  bool encoded() const { return format != source.format; }
};

/// The tensors of the text model: what the plan's matrices view, and all vectors beside them.
std::vector<Output> list_outputs(ModelPlan& plan, const Checkpoint& checkpoint, WeightFormat wanted) {
  std::map<const std::byte*, const Tensor*> by_data;
  for (const auto& [name, tensor] : checkpoint.tensors()) {  // an empty tensor lies where the next one begins
    if (!tensor.bytes.empty()) by_data.emplace(tensor.bytes.data(), &tensor);
  }
  std::vector<Output> outputs;
  std::set<const Tensor*> listed;  // a tied embedding is visited twice
  std::string prefix;
  for_each_linear(plan, [&](const char* role, Linear& linear) {
    const Tensor* tensor = by_data.at(linear.data);
    if (std::string_view(role) == "embed") prefix = tensor->name.substr(0, tensor->name.find("embed_tokens"));
    if (is_quantized(linear.format)) {
      fail(ErrorKind::invalid_argument, checkpoint.path(*tensor), ": tensor ", in_quotes(tensor->name),
           " is already ", format_name(linear.format));
    }
    if (listed.insert(tensor).second) {
      outputs.push_back({tensor, linear, format_of_role(role, linear.format, wanted)});
    }
  });
  const auto matrices = static_cast<std::ptrdiff_t>(outputs.size());
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor.shape.size() <= 1 && name.starts_with(prefix))
      outputs.push_back({&tensor, {}, WeightFormat::bf16});
  }
  std::rotate(outputs.begin(), outputs.begin() + matrices,
              outputs.end());  // vectors first: they stay aligned
  return outputs;
}

TensorHeader header_of(const Output& output) {
  const Tensor& tensor = *output.tensor;
  if (!output.source || !output.encoded()) return {tensor.name, tensor.dtype, tensor.shape};
  std::vector<int64_t> shape = tensor.shape;  // experts keep their leading dimension
  shape.back() = static_cast<int64_t>(row_bytes(output.format, output.source.cols));
  return {tensor.name + "." + format_name(output.format), DType::u8, std::move(shape)};
}

/// Rows [first, first + count) of w in `format`, on all threads.
void encode_rows(const ModelPlan& plan, const Linear& w, int64_t first, int64_t count, WeightFormat format,
                 ThreadPool& pool, std::vector<std::byte>& out) {
  const std::size_t bytes = row_bytes(format, w.cols);
  out.resize(bytes * static_cast<std::size_t>(count));
  pool.run_throwing([&](int thread) {
    std::vector<float> row(static_cast<std::size_t>(w.cols));
    const IndexRange share = share_of(count, thread, pool.size());
    for (int64_t r = share.first; r < share.last; ++r) {
      decode_row(w, first + r, row.data());
      encode_row_of(plan, w, first + r, format, row.data(), out.data() + bytes * static_cast<std::size_t>(r));
    }
  });
}

/// Everything beside the weights: configuration, tokenizer, templates.
void copy_other_files(const fs::path& from, const fs::path& to) {
  constexpr std::array<std::string_view, 3> kCopied{".json", ".jinja", ".model"};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    const fs::path& path = entry.path();
    std::error_code failure;  // a dangling link is no directory: copying it says what is wrong
    if (std::ranges::count(kCopied, path.extension().string()) == 0 || entry.is_directory(failure)) continue;
    if (path.filename().string().ends_with(".index.json")) continue;
    fs::copy_file(path, to / path.filename(), failure);
    if (failure) fail(ErrorKind::unavailable, path.string(), ": can't be copied: ", failure.message());
  }
  if (error) fail(ErrorKind::unavailable, from.string(), ": can't be listed: ", error.message());
}

void write_outputs(const ModelPlan& plan, const std::vector<Output>& outputs, const fs::path& path,
                   WeightFormat format, ThreadPool& pool, const std::function<void(double)>& progress) {
  std::vector<TensorHeader> headers;
  std::size_t total = 0, done = 0;
  for (const Output& output : outputs) {
    headers.push_back(header_of(output));
    total += output.tensor->bytes.size();
  }
  SafetensorsWriter writer(path, headers, {{"carat_format", format_name(format)}});
  std::vector<std::byte> piece;
  for (const Output& output : outputs) {
    if (!output.source || !output.encoded()) {
      writer.write(output.tensor->bytes);
      progress(static_cast<double>(done += output.tensor->bytes.size()) / static_cast<double>(total));
      continue;
    }
    const auto rows = static_cast<int64_t>(kPieceBytes / row_bytes(output.format, output.source.cols) + 1);
    for (int64_t first = 0; first < output.source.rows; first += rows) {
      const int64_t count = std::min(rows, output.source.rows - first);
      encode_rows(plan, output.source, first, count, output.format, pool, piece);
      writer.write(piece);
      done += static_cast<std::size_t>(count) * row_bytes(output.source.format, output.source.cols);
      progress(static_cast<double>(done) / static_cast<double>(total));
    }
  }
  writer.finish();
}

}  // namespace

WeightFormat format_of_role(std::string_view role, WeightFormat stored, WeightFormat wanted) {
  constexpr std::array<std::string_view, 6> kEightBitRoles{"head",     "embed",    "ple_project",
                                                           "ple_gate", "ple_proj", "ple_table"};
  if (role == "router") return stored;
  if (wanted == WeightFormat::int4 && std::ranges::count(kEightBitRoles, role) > 0) return WeightFormat::int8;
  return wanted;
}

void write_quantized_checkpoint(const ModelConfig& config, std::shared_ptr<const Checkpoint> checkpoint,
                                WeightFormat format, const fs::path& directory, ThreadPool& pool,
                                const std::function<void(double fraction)>& progress) {
  CHECK(is_quantized(format));
  ModelPlan plan = make_plan(config, checkpoint);
  const std::vector<Output> outputs = list_outputs(plan, *checkpoint, format);
  PartDirectory part(directory);
  copy_other_files(checkpoint->directory(), part.path());
  write_outputs(plan, outputs, part.path() / "model.safetensors", format, pool, progress);
  part.commit();
}

void encode_row_of(const ModelPlan& plan, const Linear& w, int64_t row, WeightFormat format,
                   const float* values, std::byte* out) {
  try {
    encode_row(format, values, w.cols, out);
  } catch (const Error& error) {
    fail(error.kind(), describe_row(plan, w, row), ", ", error.what());
  }
}

}  // namespace carat
