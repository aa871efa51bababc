// Attention over paged K and V for the queries that share a KV head. Compiled once per ISA.
//
// Positions are taken in chunks of kAttentionChunk. For each chunk: scores of all queries (a float tile whose
// rows are positions), softmax over the visible ones, then the context (a float tile whose rows are the
// head's dimensions). Chunks are merged in ascending order. A position outside a query's window has
// probability zero, and adding zero changes no bit, so a query's result doesn't depend on which other queries
// share the call.
#pragma once
#include "cpu/kernels_elementwise.h"
#include "cpu/kernels_tile.h"

namespace carat::CARAT_ISA {

/// Positions [first, last).
struct Positions {
  int32_t first, last;
};

inline Positions visible(const AttentionQueries& queries, int token) {
  const int32_t last = queries.first_position + token + 1;
  return {queries.window > 0 && last > queries.window ? last - queries.window : 0, last};
}

/// What any of the queries sees of a chunk.
inline Positions visible_part(const AttentionQueries& queries, int chunk) {
  const int32_t begin = chunk * kAttentionChunk, end = begin + kAttentionChunk;
  const int32_t first = visible(queries, 0).first, last = visible(queries, queries.tokens - 1).last;
  return {first > begin ? first : begin, last < end ? last : end};
}

/// The page of the K or V at `base` that holds `position`.
inline const std::byte* page_at(const KvView& kv, const std::byte* base, int32_t position) {
  return base + kv.pages[position / kv.page_tokens] * kv.page_stride;
}

/// Calls run(page, first, last, ahead) for the pieces of `range` that lie in one page of the K or V at
/// `base`; first and last count from the page's beginning. `ahead` bytes behind the page is what will be read
/// after it: the next one, or `after` (null: nothing).
template <class Run>
void for_each_page(const KvView& kv, const std::byte* base, Positions range, const std::byte* after,
                   const Run& run) {
  for (int32_t position = range.first; position < range.last;) {
    const int32_t index = position / kv.page_tokens, begin = index * kv.page_tokens;
    const int32_t end = range.last < begin + kv.page_tokens ? range.last : begin + kv.page_tokens;
    const std::byte* page = page_at(kv, base, begin);
    const std::byte* next = end < range.last ? page_at(kv, base, end) : after;
    run(page, position - begin, end - begin, next ? next - page : 0);
    position = end;
  }
}

/// Multiplies the columns [0, count) of `rows`, kAttentionChunk apart, by `scales`.
inline void scale_columns(float* rows, int queries, const float* scales, int64_t count) {
  for (int i = 0; i < queries; ++i, rows += kAttentionChunk) {
    for_each_vector(count, [&](int64_t at, int lanes) {
      store_first(rows + at, mul(load_first(rows + at, lanes), load_first(scales + at, lanes)), lanes);
    });
  }
}

/// Scales of the page whose K or V begin at `page`.
inline const float* scales_of(const KvView& kv, const std::byte* page) {
  return reinterpret_cast<const float*>(page + kv_scales_offset(kv.format, kv.page_tokens, kv.head_dim));
}

/// scores[query, position - chunk begin] for whole key blocks around `range`; the surplus is never looked at.
template <class T>
void chunk_scores(const KvView& kv, Positions range, int32_t chunk_begin, const float* q, int queries,
                  float* scores) {
  const Positions blocks{range.first / kKeyBlock * kKeyBlock, range.last};
  float* out = scores + (blocks.first - chunk_begin);
  const std::byte* values = page_at(kv, kv.values, blocks.first);
  const auto multiply = [&](const std::byte* page, int32_t first, int32_t last, int64_t ahead) {
    const T* keys = reinterpret_cast<const T*>(page);
    for (int32_t at = first; at < last; at += kKeyBlock, out += kKeyBlock) {
      const StridedColumns<T> left{keys + int64_t{at} * kv.head_dim, kKeyBlock, 16, ahead};
      float_panel(left, kv.head_dim, q, kv.head_dim, queries, {out, kAttentionChunk, kKeyBlock, false});
      if constexpr (sizeof(T) == 1) scale_columns(out, queries, scales_of(kv, page) + at, kKeyBlock);
    }
  };
  for_each_page(kv, kv.keys, blocks, values, multiply);
}

/// The largest of scores [seen.first, seen.last). With nothing but NaNs this is a NaN, not -infinity, which
/// means that the query sees no key.
inline float largest_score(const float* scores, Positions seen) {
  float largest = -__builtin_inff();
  const auto visit = [&](float score) { largest = score <= largest ? largest : score; };
  int32_t i = seen.first;
  for (; i % 16 != 0 && i < seen.last; ++i) visit(scores[i]);
  if (i + 16 <= seen.last) {
    Floats lanes = load(scores + i);
    for (i += 16; i + 16 <= seen.last; i += 16) lanes = max(lanes, load(scores + i));
    visit(reduce_max(lanes));
  }
  for (; i < seen.last; ++i) visit(scores[i]);
  return largest;
}

/// Turns the scores of one query into exp(score - max), zero outside `seen`; all within [0, kAttentionChunk).
inline void chunk_softmax(float* scores, Positions seen, Positions all, float* max_score, float* sum) {
  const auto count_in = [&](int32_t at) { return static_cast<int>(min_of(seen.last - at, 16)); };
  const int32_t begin = all.first / 16 * 16, end = (all.last + 15) / 16 * 16;
  const float largest = largest_score(scores, seen);
  *max_score = largest;
  Floats total = broadcast(0.f);
  for (int32_t i = begin; i < end; i += 16) {
    Floats weights = broadcast(0.f);
    if (i < seen.last && i + 16 > seen.first) {
      weights = keep_first(exp(sub(load(scores + i), broadcast(largest))), count_in(i));
    }
    store(scores + i, weights);
    for (int32_t j = i; j < seen.first && j < i + 16; ++j) scores[j] = 0.f;
    total = add(total, load(scores + i));
  }
  *sum = reduce_add(total);
}

template <class T>
void chunk_context(const KvView& kv, Positions range, int32_t chunk_begin, float* weights, int queries,
                   const std::byte* after, float* context) {
  const int32_t stride = padded_head_dim(kv.head_dim);
  bool accumulate = false;
  float* x = weights + (range.first - chunk_begin);
  const auto multiply = [&](const std::byte* page, int32_t first, int32_t last, int64_t ahead) {
    const T* values = reinterpret_cast<const T*>(page) + int64_t{first} * stride;
    if constexpr (sizeof(T) == 1) scale_columns(x, queries, scales_of(kv, page) + first, last - first);
    for (int d = 0; d < kv.head_dim; d += kPanelRows) {
      const StridedColumns<T> left{values + d, stride, 16, ahead};
      const TileOutput out{context + d, kv.head_dim, static_cast<int>(min_of(kv.head_dim - d, kPanelRows)),
                           accumulate};
      float_panel(left, last - first, x, kAttentionChunk, queries, out);
    }
    x += last - first;
    accumulate = true;
  };
  for_each_page(kv, kv.values, range, after, multiply);
}

/// The queries as rows of head_dim without gaps: in place where they lie so, else copied.
inline const float* contiguous(const AttentionQueries& queries, int head_dim, float* copy) {
  const int64_t row = int64_t{queries.heads} * head_dim;
  if (queries.tokens == 1 || queries.token_stride == row) return queries.q;
  for (int t = 0; t < queries.tokens; ++t) {
    __builtin_memcpy(copy + t * row, queries.q + t * queries.token_stride,
                     static_cast<size_t>(row) * sizeof(float));
  }
  return copy;
}

template <class T>
void chunk_partial(const KvView& kv, const AttentionQueries& queries, const float* q, int chunk,
                   const std::byte* after, const AttentionPartial& partial, float* scores) {
  const int32_t begin = chunk * kAttentionChunk;
  const Positions range = visible_part(queries, chunk);
  if (range.first >= range.last) {
    for (int i = 0; i < queries.count(); ++i) partial.max[i] = -__builtin_inff();
    return;
  }
  chunk_scores<T>(kv, range, begin, q, queries.count(), scores);
  const Positions all{range.first - begin, range.last - begin};
  for (int i = 0; i < queries.count(); ++i) {
    const Positions mine = visible(queries, i / queries.heads);
    const Positions seen{static_cast<int32_t>(mine.first > begin ? mine.first - begin : 0),
                         static_cast<int32_t>(min_of(mine.last - begin, kAttentionChunk))};
    chunk_softmax(scores + i * kAttentionChunk, seen, all, partial.max + i, partial.sum + i);
  }
  chunk_context<T>(kv, range, begin, scores, queries.count(), after, partial.context);
}

/// Floats of scratch: the queries' copy, a partial's context, scores, then max and sum.
struct AttentionScratch {
  float *q, *context, *scores, *stats;
  explicit AttentionScratch(float* scratch)
      : q(scratch),
        context(q + kMaxQueries * kMaxHeadDim),
        scores(context + kMaxQueries * kMaxHeadDim),
        stats(scores + kMaxQueries * kAttentionChunk) {}
};

inline void partial_of(const KvView& kv, const AttentionQueries& queries, const float* q, int chunk,
                       const std::byte* after, const AttentionPartial& partial, float* scores) {
  if (kv.format == KvFormat::f32) return chunk_partial<float>(kv, queries, q, chunk, after, partial, scores);
  if (kv.format == KvFormat::int8)
    return chunk_partial<int8_t>(kv, queries, q, chunk, after, partial, scores);
  chunk_partial<uint16_t>(kv, queries, q, chunk, after, partial, scores);
}

inline void attend_chunk(const KvView& kv, const AttentionQueries& queries, int chunk,
                         const AttentionPartial& partial, float* scratch) {
  const AttentionScratch space(scratch);
  const float* q = contiguous(queries, kv.head_dim, space.q);
  partial_of(kv, queries, q, chunk, queries.after, partial, space.scores);
}

/// The state of one query's merge: exp(s - max) sums, and the context that belongs to them.
struct Merge {
  float max = -__builtin_inff(), sum = 0.f;

  /// Adds a partial's row to `context`, which is written, not read, the first time.
  void add_row(const float* row, float row_max, float row_sum, int head_dim, float* context) {
    if (row_max == -__builtin_inff()) return;
    const bool first = !(max > -__builtin_inff());
    const float merged = row_max > max ? row_max : max;
    const float kept = first ? 0.f : exp_of(max - merged), added = exp_of(row_max - merged);
    for_each_vector(head_dim, [&](int64_t d, int count) {
      const Floats part = mul(load_first(row + d, count), broadcast(added));
      const Floats old = first ? broadcast(0.f) : load_first(context + d, count);
      store_first(context + d, fma(old, broadcast(kept), part), count);
    });
    sum = sum * kept + row_sum * added;
    max = merged;
  }
  void normalise(int head_dim, float* context) const {
    const Floats inverse = broadcast(1.f / sum);
    for_each_vector(head_dim, [&](int64_t d, int count) {
      store_first(context + d, mul(load_first(context + d, count), inverse), count);
    });
  }
  static float exp_of(float x) { return reduce_max(exp(broadcast(x))); }
};

inline void merge_attention(const AttentionPartial* partials, int count, int first_query, int heads,
                            int head_dim, float* out) {
  for (int h = 0; h < heads; ++h) {
    const int query = first_query + h;
    float* context = out + int64_t{h} * head_dim;
    Merge merge;
    for (int i = 0; i < count; ++i) {
      const AttentionPartial& part = partials[i];
      merge.add_row(part.context + int64_t{query} * head_dim, part.max[query], part.sum[query], head_dim,
                    context);
    }
    merge.normalise(head_dim, context);
  }
}

inline void attend(const KvView& kv, const AttentionQueries& queries, float* out, int64_t out_stride,
                   float* scratch) {
  const AttentionScratch space(scratch);
  const AttentionPartial partial{space.context, space.stats, space.stats + kMaxQueries};
  const float* q = contiguous(queries, kv.head_dim, space.q);
  Merge merges[kMaxQueries];
  const auto row = [&](int i) {
    return out + i / queries.heads * out_stride + int64_t{i % queries.heads} * kv.head_dim;
  };
  const ChunkRange chunks = visible_chunks(queries);
  for (int chunk = chunks.first; chunk < chunks.last; ++chunk) {
    const std::byte* next =
        chunk + 1 < chunks.last ? page_at(kv, kv.keys, (chunk + 1) * kAttentionChunk) : queries.after;
    partial_of(kv, queries, q, chunk, next, partial, space.scores);
    for (int i = 0; i < queries.count(); ++i) {
      const float* context = partial.context + int64_t{i} * kv.head_dim;
      merges[i].add_row(context, partial.max[i], partial.sum[i], kv.head_dim, row(i));
    }
  }
  for (int i = 0; i < queries.count(); ++i) merges[i].normalise(kv.head_dim, row(i));
}

template <class T, class Convert>
void store_position(const KvView& kv, int32_t position, const float* k, const float* v, Convert&& convert) {
  const int64_t page = kv.pages[position / kv.page_tokens], in_page = position % kv.page_tokens;
  T* keys =
      reinterpret_cast<T*>(kv.keys + page * kv.page_stride) + in_page / kKeyBlock * kKeyBlock * kv.head_dim;
  T* values =
      reinterpret_cast<T*>(kv.values + page * kv.page_stride) + in_page * padded_head_dim(kv.head_dim);
  T* key = keys + in_page % kKeyBlock;
  T converted[16];
  for (int d = 0; d < kv.head_dim; d += 16) {
    const int count = static_cast<int>(min_of(kv.head_dim - d, 16));
    convert(converted, load_first(k + d, count));
    for (int i = 0; i < count; ++i) key[(d + i) * kKeyBlock] = converted[i];
    convert(values + d, load_first(v + d, count));
  }
}

/// x ~ scale * q. What is not finite gives a scale that is not either, so that it shows.
inline float quantize_head(const float* x, int head_dim, int8_t* q) {
  float largest = 0.f, broken = 0.f;
  for (int d = 0; d < head_dim; ++d) {
    const float magnitude = x[d] < 0.f ? -x[d] : x[d];
    if (magnitude > largest) largest = magnitude;
    broken += x[d] * 0.f;
  }
  const bool usable = largest > 0.f && broken == 0.f;
  const float inverse = usable ? 127.f / largest : 0.f;
  for (int d = 0; d < head_dim; ++d)
    q[d] = usable ? static_cast<int8_t>(__builtin_rintf(x[d] * inverse)) : int8_t{0};
  return largest / 127.f + broken;
}

inline void store_int8_position(const KvView& kv, int32_t position, const float* k, const float* v) {
  const int64_t page = kv.pages[position / kv.page_tokens] * kv.page_stride;
  const int64_t in_page = position % kv.page_tokens;
  int8_t* key = reinterpret_cast<int8_t*>(kv.keys + page) + in_page / kKeyBlock * kKeyBlock * kv.head_dim +
                in_page % kKeyBlock;
  int8_t* value = reinterpret_cast<int8_t*>(kv.values + page) + in_page * padded_head_dim(kv.head_dim);
  const int64_t scales = kv_scales_offset(kv.format, kv.page_tokens, kv.head_dim);
  int8_t quantized[kMaxHeadDim];
  reinterpret_cast<float*>(kv.keys + page + scales)[in_page] = quantize_head(k, kv.head_dim, quantized);
  for (int d = 0; d < kv.head_dim; ++d) key[d * kKeyBlock] = quantized[d];
  reinterpret_cast<float*>(kv.values + page + scales)[in_page] = quantize_head(v, kv.head_dim, value);
}

inline void store_kv(const KvView& kv, int32_t position, const float* k, const float* v) {
  if (kv.format == KvFormat::int8) return store_int8_position(kv, position, k, v);
  if (kv.format == KvFormat::f32) {
    store_position<float>(kv, position, k, v, [](float* to, Floats a) { store(to, a); });
  } else {
    store_position<uint16_t>(kv, position, k, v, [](uint16_t* to, Floats a) { store_f16(to, a); });
  }
}

}  // namespace carat::CARAT_ISA
