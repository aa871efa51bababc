// The kernels of a drafter beyond those of its layers (guess.cu). As those of kernels.h they only enqueue.
#pragma once
#include "cuda/kernels.h"

namespace carat::cuda {

/// Row r of `joined` = [table[tokens[r]] * scale, norm(states[r], norm)], what a drafter's first product
/// reads.
struct JoinArgs {
  const int32_t* tokens;  // [rows]; -1, a failed guess, counts as 0
  SoftTokens soft;
  Matrix table;
  float scale;
  const float* states;        // [, d_model]
  const int32_t* state_rows;  // which of the states; null: all in order
  const float* norm;          // null: the states are taken as they are
  float eps;
  int d_model;
  Split joined;     // [rows, 2 * d_model]
  float* joined32;  // instead, for a single row
};
void join(Queue& queue, const JoinArgs& args, int rows);

/// x = sums;  xn = norm(x, norm)
struct StartRowsArgs {
  PartialSums sums;
  const float* norm;
  float eps;
  int d_model;
  float* x;
  Split xn;
};
void start_rows(Queue& queue, const StartRowsArgs& args, int rows);

/// How many clusters fit the shared memory of any GPU.
inline constexpr int kMostClusters = 16384;
/// The clusters with the largest logits, the best first, the lower one of equals.
struct ClusterArgs {
  const float* logits;  // [rows, clusters]
  int clusters, searched;
  int32_t* found;  // [rows, searched]
};
void best_clusters(Queue& queue, const ClusterArgs& args, int rows);

/// The logits of the tokens of the clusters found; of each of kGreedyChunks shares of them the best one, as
/// greedy() leaves them for pick_greedy().
struct ClusterTokenArgs {
  const float* x;  // [rows, cols of head]; the head multiplies norm(x, norm)
  const float* norm;
  float eps;
  Matrix head;            // [vocab, cols]
  const int32_t* tokens;  // [vocab], by cluster
  const int32_t* found;   // [rows, searched]
  int searched, cluster_size;
  float* candidate_values;  // [rows, kGreedyChunks]
  int32_t* candidate_ids;
};
void best_cluster_tokens(Queue& queue, const ClusterTokenArgs& args, int rows);

/// The second half of greedy(): drawn[r] from the row's candidates.
void pick_greedy(Queue& queue, const GreedyArgs& args, int rows);

}  // namespace carat::cuda
