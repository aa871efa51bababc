#include "model/tensor_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace carat {
namespace {

// Prefixes in use: multimodal checkpoints, older multimodal exports, text-only ones, bare state dicts.
constexpr std::array<std::string_view, 4> kPrefixes{"model.language_model.", "language_model.model.",
                                                    "model.", ""};
// What write_quantized_checkpoint() appends to the name of a matrix.
constexpr std::array<std::pair<std::string_view, WeightFormat>, 2> kQuantized{
    {{".int8", WeightFormat::int8}, {".int4", WeightFormat::int4}}};
constexpr std::array<std::string_view, 4> kHeadNames{"lm_head.weight", "language_model.lm_head.weight",
                                                     "model.lm_head.weight",
                                                     "model.language_model.lm_head.weight"};

WeightFormat weight_format(const Tensor& tensor, const Checkpoint& checkpoint) {
  for (const auto& [suffix, format] : kQuantized) {
    if (tensor.dtype == DType::u8 && tensor.name.ends_with(suffix)) return format;
  }
  switch (tensor.dtype) {
    case DType::f32:
      return WeightFormat::f32;
    case DType::f16:
      return WeightFormat::f16;
    case DType::bf16:
      return WeightFormat::bf16;
    default:
      fail(ErrorKind::unsupported, checkpoint.path(tensor), ": tensor ", in_quotes(tensor.name),
           " has dtype ", in_quotes(tensor.dtype_name), "; weights may be BF16, F16 or F32");
  }
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// `name` is without the prefix. Other towers of multimodal checkpoints lie beside the text model when the
/// prefix is short.
bool belongs_to_text_model(std::string_view name) {
  constexpr std::array<std::string_view, 5> kRoots{"layers.", "embed_tokens.", "embed_tokens_per_layer.",
                                                   "per_layer_", "norm."};
  return std::any_of(kRoots.begin(), kRoots.end(),
                     [&](std::string_view root) { return name.starts_with(root); });
}

bool is_unused_kv(std::string_view name, const ModelConfig& config) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].kv_donor == static_cast<int>(i)) continue;
    const std::string at = "layers." + std::to_string(i) + ".self_attn.";
    if (!name.starts_with(at)) continue;
    const std::string_view part = name.substr(at.size());
    return part.starts_with("k_proj.") || part.starts_with("v_proj.") || part.starts_with("k_norm.");
  }
  return false;
}

}  // namespace

TensorReader::TensorReader(const Checkpoint& checkpoint, PlanStorage& storage)
    : checkpoint_(checkpoint), storage_(storage) {
  for (std::string_view prefix : kPrefixes) {
    prefix_ = prefix;
    if (find(prefix_ + "embed_tokens.weight")) return;
  }
  fail(ErrorKind::corrupt, checkpoint.directory().string(),
       ": no tensor named embed_tokens.weight under any of ",
       "the prefixes model.language_model., language_model.model., model. or none; this is not a Gemma 4 "
       "text model");
}

Linear TensorReader::matrix(const std::string& name, int64_t rows, int64_t cols) {
  return view(get(name, std::array{rows, cols}), rows, cols);
}

Linear TensorReader::stacked_matrix(const std::string& name, int64_t experts, int64_t rows, int64_t cols) {
  return view(get(name, std::array{experts, rows, cols}), experts * rows, cols);
}

Vec TensorReader::vector(const std::string& name, int64_t size) {
  const Linear row = view(get(name, std::array{size}), 1, size);
  auto& values = storage_.vectors.emplace_back(std::make_unique<float[]>(static_cast<std::size_t>(size)));
  decode_row(row, 0, values.get());
  for (int64_t i = 0; i < size; ++i) {
    if (std::isfinite(values[static_cast<std::size_t>(i)])) continue;
    const Tensor& tensor = get(name, std::array{size});
    fail(ErrorKind::corrupt, checkpoint_.path(tensor), ": tensor ", in_quotes(tensor.name), " holds ",
         values[static_cast<std::size_t>(i)], " at ", i, "; weights must be finite numbers");
  }
  return {values.get(), static_cast<std::size_t>(size)};
}

const Tensor* TensorReader::find_head() const {
  for (std::string_view head : kHeadNames) {
    if (const Tensor* tensor = find(std::string(head))) return tensor;
  }
  return nullptr;
}

Linear TensorReader::head(const Tensor& tensor, int64_t rows, int64_t cols) const {
  expect_shape(tensor, std::array<int64_t, 2>{rows, cols});
  return view(tensor, rows, cols);
}

Linear TensorReader::whole_name(const std::string& name, int64_t rows, int64_t cols) const {
  return view(require(name, std::array{rows, cols}), rows, cols);
}

void TensorReader::expect_all_read(const ModelConfig& config) const {
  const Tensor* first = nullptr;
  int unread = 0;
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (!std::string_view(name).starts_with(prefix_) || read_.contains(name)) continue;
    const std::string_view rest = std::string_view(name).substr(prefix_.size());
    if (!belongs_to_text_model(rest) || is_unused_kv(rest, config)) continue;
    if (unread++ == 0) first = &tensor;
  }
  if (!first) return;
  const std::string more = unread == 1 ? "" : " and of " + std::to_string(unread - 1) + " more";
  fail(ErrorKind::corrupt, checkpoint_.path(*first),
       ": the model that config.json describes has no use for tensor ", in_quotes(first->name), more,
       "; config.json belongs to another checkpoint or was edited");
}

/// The tensor of this name, or its quantised form.
const Tensor* TensorReader::find(const std::string& name) const {
  const Tensor* tensor = checkpoint_.find(name);
  for (const auto& [suffix, format] : kQuantized) {
    if (!tensor) tensor = checkpoint_.find(name + std::string(suffix));
  }
  return tensor;
}

const Tensor& TensorReader::require(const std::string& name, std::span<const int64_t> shape) const {
  const Tensor* tensor = find(name);
  if (!tensor) {
    fail(ErrorKind::corrupt, checkpoint_.directory().string(), ": tensor ", in_quotes(name), " of shape ",
         shape_text(shape), " is missing");
  }
  expect_shape(*tensor, shape);
  return *tensor;
}

const Tensor& TensorReader::get(const std::string& name, std::span<const int64_t> shape) {
  const Tensor& tensor = require(prefix_ + name, shape);
  read_.insert(tensor.name);
  return tensor;
}

void TensorReader::expect_shape(const Tensor& tensor, std::span<const int64_t> weights) const {
  std::vector<int64_t> shape(weights.begin(), weights.end());
  const WeightFormat format = weight_format(tensor, checkpoint_);
  if (format == WeightFormat::int8 || format == WeightFormat::int4) {
    shape.back() = static_cast<int64_t>(row_bytes(format, shape.back()));
  }
  if (std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) return;
  fail(ErrorKind::corrupt, checkpoint_.path(tensor), ": tensor ", in_quotes(tensor.name), " has shape ",
       shape_text(tensor.shape), ", but config.json calls for ", shape_text(shape));
}

Linear TensorReader::view(const Tensor& tensor, int64_t rows, int64_t cols) const {
  return {weight_format(tensor, checkpoint_), rows, cols, tensor.bytes.data()};
}

}  // namespace carat
