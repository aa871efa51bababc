// Any text as config.json and as generation_config.json: an Error of one line, or a configuration that keeps
// the promises of model_config.h.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "io/model_config.h"

namespace carat {
namespace {

void check_promises(const ModelConfig& config) {
  CHECK(!config.layers.empty() && config.layers.back().attention == AttentionKind::full);
  const int count = static_cast<int>(config.layers.size());
  for (int i = 0; i < count; ++i) {
    const LayerConfig& layer = config.layers[static_cast<std::size_t>(i)];
    CHECK(layer.kv_donor >= 0 && layer.kv_donor <= i);
    const LayerConfig& donor = config.layers[static_cast<std::size_t>(layer.kv_donor)];
    CHECK(donor.kv_donor == layer.kv_donor && donor.attention == layer.attention);
    CHECK(donor.head_dim == layer.head_dim && donor.kv_heads == layer.kv_heads);
    CHECK(layer.head_dim > 0 && layer.head_dim % 2 == 0 && layer.intermediate_size > 0);
    CHECK(layer.kv_heads > 0 && config.heads % layer.kv_heads == 0);
  }
  for (const RopeConfig& rope : {config.full_rope, config.sliding_rope}) {
    CHECK(std::isfinite(rope.theta) && rope.theta > 0 && rope.rotary_fraction >= 0 &&
          rope.rotary_fraction <= 1);
  }
  CHECK(config.rms_norm_eps > 0 && std::isfinite(config.final_logit_softcapping));
  CHECK(config.sliding_window > 0 && config.experts_per_token <= config.experts);
  for (const int id : config.eos_token_ids) CHECK(id >= 0 && id < config.vocab_size);
}

template <class Parse>
void expect_value_or_error(Parse&& parse) {
  try {
    parse();
  } catch (const Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace
}  // namespace carat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  carat::expect_value_or_error([&] { carat::check_promises(carat::parse_model_config(text, "fuzz")); });
  carat::expect_value_or_error([&] { carat::parse_generation_config(text, "fuzz", 262144); });
  return 0;
}
