#include "api/sampling.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

TEST(Sampling, IsGreedyWhereTheCheckpointDoesNotSample) {
  GenerationConfig config;
  EXPECT_EQ(sampling_params({}, config).temperature, 0.f);
  config.temperature = 0.7f;
  EXPECT_EQ(sampling_params({}, config).temperature, 0.f);
  config.do_sample = true;
  EXPECT_EQ(sampling_params({}, config).temperature, 0.7f);
  config.temperature.reset();
  EXPECT_EQ(sampling_params({}, config).temperature, 1.f);
}

TEST(Sampling, WithoutAWordFromAnyoneFiltersNothing) {
  const SamplingParams params = sampling_params({}, {});
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.top_p, 1.f);
  EXPECT_EQ(params.min_p, 0.f);
  EXPECT_EQ(params.repetition_penalty, 1.f);
}

TEST(Sampling, WhatIsAskedForGoesBeforeTheCheckpoint) {
  GenerationConfig config;
  config.do_sample = true;
  config.temperature = 0.7f;
  config.top_k = 64;
  config.top_p = 0.95f;
  config.min_p = 0.05f;
  config.repetition_penalty = 1.1f;
  const SamplingParams own = sampling_params({}, config);
  EXPECT_EQ(own.top_k, 64);
  EXPECT_EQ(own.top_p, 0.95f);
  EXPECT_EQ(own.min_p, 0.05f);
  EXPECT_EQ(own.repetition_penalty, 1.1f);
  const SamplingParams asked = sampling_params(
      {.temperature = 0.f, .top_k = 0, .top_p = 1.f, .min_p = 0.f, .repetition_penalty = 1.f, .seed = 3},
      config);
  EXPECT_EQ(asked.temperature, 0.f);
  EXPECT_EQ(asked.top_k, 0);
  EXPECT_EQ(asked.top_p, 1.f);
  EXPECT_EQ(asked.min_p, 0.f);
  EXPECT_EQ(asked.repetition_penalty, 1.f);
  EXPECT_EQ(asked.seed, 3u);
}

}  // namespace
}  // namespace carat
