#include "model/operations.h"

#include <algorithm>

namespace carat {
namespace {

/// Of one vector.
double product(const Linear& w) { return w ? 2. * static_cast<double>(w.rows * w.cols) : 0.; }

/// Pairs of query and key of `tokens` tokens from the first one on, or of the last one alone.
double pairs(int tokens, int window, bool last_only) {
  const double keys = window > 0 ? std::min(tokens, window) : tokens;
  if (last_only) return keys;
  return keys * (keys + 1) / 2 + (tokens - keys) * keys;
}

double qkv(const LayerPlan& l) {
  return product(l.attention.q) + product(l.attention.k) + product(l.attention.v);
}

/// What follows attention, of one token.
double rest(const LayerPlan& l) {
  double sum = product(l.attention.o) + product(l.gate) + product(l.up) + product(l.down);
  if (l.per_layer) sum += product(l.per_layer->gate) + product(l.per_layer->proj);
  if (!l.moe) return sum;
  const double chosen = static_cast<double>(l.moe->experts_per_token) / l.moe->experts;
  return sum + product(l.moe->router) + chosen * (product(l.moe->gate_up) + product(l.moe->down));
}

}  // namespace

double prompt_operations(const ModelPlan& plan, int tokens) {
  const double layers = static_cast<double>(plan.layers.size()), kv_layers = plan.last_kv_layer;
  const double inputs = product(plan.ple_project) / layers;
  double sum = inputs * (kv_layers * tokens + layers - kv_layers) + product(plan.head);
  for (const LayerPlan& l : plan.layers) {
    const AttentionPlan& a = l.attention;
    const bool last_only = l.index >= plan.last_kv_layer;
    const int projected = l.index <= plan.last_kv_layer ? tokens : 1, others = last_only ? 1 : tokens;
    sum += qkv(l) * projected + rest(l) * others +
           4. * a.heads * a.head_dim * pairs(tokens, a.window, last_only);
  }
  return sum;
}

}  // namespace carat
