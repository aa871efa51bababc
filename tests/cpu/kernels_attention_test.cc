// Attention over pages against a float64 softmax, and its independence of how queries and positions are
// divided.
#include <cmath>
#include <limits>
#include <span>

#include "kernels_support.h"

namespace carat {
namespace {

// K and V of one head in pages whose order is shuffled and whose unwritten parts are NaN.
struct Cache {
  Cache(const Kernels& kernels, KvFormat format, int head_dim, int page_tokens, int positions)
      : k(random_floats(int64_t{positions} * head_dim, 31, 0.4f)),
        v(random_floats(int64_t{positions} * head_dim, 32)) {
    const int page_count = (positions + page_tokens - 1) / page_tokens;
    for (int i = 0; i < page_count; ++i)
      pages.push_back((i * 5 + 3) % (page_count + 4) == 0 ? page_count + 4 : i + 1);
    std::reverse(pages.begin(), pages.end());
    const int64_t bytes = kv_page_bytes(format, page_tokens, head_dim);
    // All bits set is NaN in the floating formats, and in the scales of int8.
    key_bytes.assign(static_cast<size_t>(bytes) * static_cast<size_t>(page_count + 5), std::byte{0xff});
    value_bytes = key_bytes;
    view = {format, head_dim, page_tokens, key_bytes.data(), value_bytes.data(), bytes, pages.data()};
    for (int p = 0; p < positions; ++p)
      kernels.store_kv(view, p, k.data() + p * head_dim, v.data() + p * head_dim);
    if (format != KvFormat::int8) return;
    for (std::vector<float>* values : {&k, &v}) {
      for (int p = 0; p < positions; ++p) round_to_int8(std::span(*values).subspan(p * head_dim, head_dim));
    }
  }
  /// What int8 makes of one head.
  static void round_to_int8(std::span<float> head) {
    float largest = 0.f;
    for (const float x : head) largest = std::max(largest, std::abs(x));
    for (float& x : head) x = std::nearbyint(x * (127.f / largest)) * (largest / 127.f);
  }

  std::vector<float> k, v;
  std::vector<int32_t> pages;
  std::vector<std::byte> key_bytes, value_bytes;
  KvView view;
};

std::vector<double> plain_attention(const Cache& cache, const AttentionQueries& queries, int token,
                                    int head) {
  const int head_dim = cache.view.head_dim, last = queries.first_position + token;
  const int first = queries.window > 0 ? std::max(0, last - queries.window + 1) : 0;
  const float* q = queries.q + token * queries.token_stride + head * head_dim;
  std::vector<double> scores, context(static_cast<size_t>(head_dim));
  double largest = -1e300, sum = 0.;
  for (int p = first; p <= last; ++p) {
    double score = 0.;
    for (int d = 0; d < head_dim; ++d) score += double{q[d]} * cache.k[static_cast<size_t>(p * head_dim + d)];
    scores.push_back(score);
    largest = std::max(largest, score);
  }
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (int p = first; p <= last; ++p) {
    for (int d = 0; d < head_dim; ++d) {
      context[static_cast<size_t>(d)] +=
          scores[static_cast<size_t>(p - first)] / sum * cache.v[static_cast<size_t>(p * head_dim + d)];
    }
  }
  return context;
}

struct Case {
  KvFormat format;
  int head_dim, page_tokens, first_position, tokens, heads, window;
};

constexpr Case kCases[] = {
    {KvFormat::f32, 16, 32, 0, 1, 1, 0},       {KvFormat::f32, 64, 32, 40, 1, 8, 0},
    {KvFormat::f32, 256, 32, 300, 1, 8, 64},   {KvFormat::f32, 512, 32, 530, 1, 8, 0},
    {KvFormat::f32, 512, 96, 250, 7, 8, 0},    {KvFormat::f32, 32, 32, 0, 21, 3, 5},
    {KvFormat::f32, 128, 64, 700, 16, 4, 512}, {KvFormat::f32, 8, 32, 17, 2, 2, 1},
    {KvFormat::f32, 24, 32, 100, 3, 5, 33},    {KvFormat::f32, 50, 32, 255, 2, 1, 0},
    {KvFormat::f16, 256, 32, 600, 1, 8, 512},  {KvFormat::f16, 64, 32, 33, 9, 2, 0},
    {KvFormat::f16, 24, 32, 290, 4, 1, 20},    {KvFormat::f16, 512, 32, 257, 8, 8, 0},
    {KvFormat::int8, 256, 32, 600, 1, 8, 512}, {KvFormat::int8, 64, 32, 33, 9, 2, 0},
    {KvFormat::int8, 24, 96, 290, 4, 1, 20},   {KvFormat::int8, 512, 32, 257, 8, 8, 0}};

class AttentionTest : public KernelTest {
 protected:
  // Queries of a case; the rows of a token are followed by a gap.
  AttentionQueries queries_of(const Case& c) {
    stride = c.heads * c.head_dim + 4;
    q = random_floats(int64_t{c.tokens} * stride, 77, 0.5f);
    return {q.data(), stride, c.tokens, c.heads, c.first_position, c.window};
  }
  std::vector<float> attend(const Cache& cache, const AttentionQueries& queries) {
    const int64_t out_stride = queries.heads * cache.view.head_dim;
    std::vector<float> out(static_cast<size_t>(queries.tokens * out_stride),
                           std::numeric_limits<float>::quiet_NaN());
    kernels.attend(cache.view, queries, out.data(), out_stride, scratch.data());
    return out;
  }
  int64_t stride = 0;
  std::vector<float> q;
  std::vector<float> scratch = std::vector<float>(static_cast<size_t>(attention_scratch_floats()),
                                                  std::numeric_limits<float>::quiet_NaN());
};

TEST_P(AttentionTest, AgreesWithAPlainSoftmax) {
  for (const Case& c : kCases) {
    const Cache cache(kernels, c.format, c.head_dim, c.page_tokens, c.first_position + c.tokens);
    const AttentionQueries queries = queries_of(c);
    const auto out = attend(cache, queries);
    const double tolerance = c.format == KvFormat::f16 ? 3e-3 : 3e-5;
    for (int t = 0; t < c.tokens; ++t) {
      for (int h = 0; h < c.heads; ++h) {
        const auto wanted = plain_attention(cache, queries, t, h);
        for (int d = 0; d < c.head_dim; ++d) {
          const float got = out[static_cast<size_t>((t * c.heads + h) * c.head_dim + d)];
          ASSERT_NEAR(got, wanted[static_cast<size_t>(d)], tolerance)
              << "head_dim " << c.head_dim << " first " << c.first_position << " token " << t << " head "
              << h;
        }
      }
    }
  }
}

TEST_P(AttentionTest, AQueryThatIsNotANumberHasNoContext) {
  for (const Case& c : kCases) {
    const Cache cache(kernels, c.format, c.head_dim, c.page_tokens, c.first_position + c.tokens);
    const AttentionQueries queries = queries_of(c);
    q[0] = std::numeric_limits<float>::quiet_NaN();
    const auto out = attend(cache, queries);
    for (int d = 0; d < c.head_dim; ++d) ASSERT_TRUE(std::isnan(out[static_cast<size_t>(d)])) << d;
    ASSERT_TRUE(c.heads == 1 || std::isfinite(out[static_cast<size_t>(c.head_dim)]));
  }
}

TEST_P(AttentionTest, ATokenAloneGivesTheSameBitsAsInAPrompt) {
  for (const Case& c : kCases) {
    const Cache cache(kernels, c.format, c.head_dim, c.page_tokens, c.first_position + c.tokens);
    const AttentionQueries queries = queries_of(c);
    const auto together = attend(cache, queries);
    const int64_t row = c.heads * c.head_dim;
    for (int t = 0; t < c.tokens; ++t) {
      const AttentionQueries one{queries.q + t * stride, stride, 1, c.heads, c.first_position + t, c.window};
      const auto alone = attend(cache, one);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + t * row))
          << "head_dim " << c.head_dim << " token " << t;
    }
  }
}

TEST_P(AttentionTest, ChunksMergedGiveTheSameBits) {
  for (const Case& c : kCases) {
    const Cache cache(kernels, c.format, c.head_dim, c.page_tokens, c.first_position + c.tokens);
    const AttentionQueries queries = queries_of(c);
    const ChunkRange chunks = visible_chunks(queries);
    const size_t count = static_cast<size_t>(chunks.last - chunks.first),
                 rows = static_cast<size_t>(queries.count());
    std::vector<float> contexts(count * rows * static_cast<size_t>(c.head_dim)), stats(count * rows * 2);
    std::vector<AttentionPartial> partials;
    for (size_t i = 0; i < count; ++i) {
      partials.push_back({contexts.data() + i * rows * static_cast<size_t>(c.head_dim),
                          stats.data() + 2 * i * rows, stats.data() + (2 * i + 1) * rows});
      kernels.attend_chunk(cache.view, queries, chunks.first + static_cast<int>(i), partials[i],
                           scratch.data());
    }
    std::vector<float> merged(rows * static_cast<size_t>(c.head_dim));
    for (int t = 0; t < c.tokens; ++t) {
      kernels.merge_attention(partials.data(), static_cast<int>(count), t * c.heads, c.heads, c.head_dim,
                              merged.data() + t * c.heads * c.head_dim);
    }
    EXPECT_EQ(merged, attend(cache, queries)) << "head_dim " << c.head_dim;
  }
}

TEST_P(AttentionTest, PagesBehindTheWindowAreNotRead) {
  Cache cache(kernels, KvFormat::f32, 64, 32, 401);
  const Case c{KvFormat::f32, 64, 32, 400, 1, 2, 40};
  const AttentionQueries queries = queries_of(c);
  const auto before = attend(cache, queries);
  for (int page = 0; page < 361 / 32; ++page) cache.pages[static_cast<size_t>(page)] = -1000000;
  EXPECT_EQ(attend(cache, queries), before);
}

TEST_P(AttentionTest, InInt8WhatIsNotFiniteStaysSo) {
  Cache cache(kernels, KvFormat::int8, 64, 32, 40);
  const Case c{KvFormat::int8, 64, 32, 39, 1, 1, 8};
  const AttentionQueries queries = queries_of(c);
  std::vector<float> broken(64, 1.f);
  broken[5] = std::numeric_limits<float>::infinity();
  kernels.store_kv(cache.view, 20, broken.data(), broken.data());  // behind the window
  for (const float value : attend(cache, queries)) ASSERT_TRUE(std::isfinite(value));
  kernels.store_kv(cache.view, 38, broken.data(), broken.data());
  for (const float value : attend(cache, queries)) ASSERT_TRUE(std::isnan(value));
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionTest, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace carat
