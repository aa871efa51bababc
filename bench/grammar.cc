// What constrained output costs: compiling a grammar, and the mask of each token of a reply, on one thread.
// Usage: bench_grammar TOKENIZER.json
#include "grammar/grammar.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/random.h"
#include "text/tokenizer.h"

namespace carat {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Sixteen lists of objects with sixteen properties of all types.
std::string large_schema() {
  std::string schema = R"({"type":"object","additionalProperties":false,"properties":{)";
  for (int i = 0; i < 16; ++i) {
    schema += (i > 0 ? "," : "") + ("\"section_" + std::to_string(i)) +
              R"(":{"type":"array","items":{"type":"object","properties":{)";
    for (int j = 0; j < 16; ++j) {
      static const char* const kTypes[] = {R"({"type":"string"})",
                                           R"({"type":"integer","minimum":0,"maximum":5000})",
                                           R"({"type":"number"})",
                                           R"({"type":"string","maxLength":40})",
                                           R"({"enum":["low","middle","high"]})",
                                           R"({"type":"boolean"})",
                                           R"({"type":["string","null"],"format":"date-time"})",
                                           R"({"type":"array","items":{"type":"string"}})"};
      schema += (j > 0 ? "," : "") + ("\"field_" + std::to_string(j)) + "\":" + kTypes[j % 8];
    }
    schema += "}}}";
  }
  return schema + "}}";
}

std::string enum_schema() {
  std::string schema = R"({"type":"array","items":{"enum":[)";
  for (uint64_t i = 0; i < 1000; ++i) {
    std::string word;
    for (uint64_t letter = 0; letter < 4 + i % 12; ++letter)
      word += static_cast<char>('a' + random_bits(i, letter) % 26);
    schema += (i > 0 ? ",\"" : "\"") + word + '"';
  }
  return schema + "]}}";
}

/// An allowed token at random, one time in three one that ends a text where there is such a token.
int32_t draw(const Tokenizer& tokenizer, const std::vector<uint32_t>& words, uint64_t bits) {
  const auto vocab = static_cast<uint64_t>(tokenizer.vocab_size());
  int32_t found = -1;
  for (uint64_t i = 0; i < vocab; ++i) {
    const auto token = static_cast<int32_t>((bits / 3 + i) % vocab);
    if ((words[static_cast<std::size_t>(token) / 32] >> token % 32 & 1) == 0) continue;
    if (found < 0) found = token;
    if (bits % 3 > 0 || tokenizer.token_bytes(token).ends_with('"')) return token;
  }
  return found;
}

/// Random replies, until enough masks were made.
void measure(const char* name, const Tokenizer& tokenizer, const std::shared_ptr<const Grammar>& grammar,
             double compile_us) {
  constexpr std::size_t kMasks = 20'000, kLongestReply = 400;
  std::vector<uint32_t> words(static_cast<std::size_t>(tokenizer.vocab_size()) / 32 + 1);
  std::vector<double> times;
  for (uint64_t seed = 0; times.size() < kMasks; ++seed) {
    const auto mask = make_mask(grammar);
    std::vector<int32_t> reply;
    while (reply.size() < kLongestReply && times.size() < kMasks) {
      std::ranges::fill(words, 0);
      const auto begin = Clock::now();
      mask->allow_after(reply, words);
      times.push_back(microseconds_since(begin));
      reply.push_back(draw(tokenizer, words, random_bits(seed, reply.size())));
      if (tokenizer.is_special(reply.back())) break;
    }
  }
  std::ranges::sort(times);
  const auto quantile = [&](double q) {
    return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))];
  };
  std::printf("%-12s compile %8.1f ms  mask p50 %6.1f us  p90 %6.1f us  p99 %7.1f us  most %7.1f us\n", name,
              compile_us / 1e3, quantile(0.5), quantile(0.9), quantile(0.99), times.back());
}

void run(const char* tokenizer_json) {
  const auto tokenizer = Tokenizer::load(tokenizer_json);
  auto begin = Clock::now();
  GrammarCompiler compiler(tokenizer, {tokenizer->find("<eos>")});
  std::printf("%d tokens, vocabulary prepared in %.1f ms\n", tokenizer->vocab_size(),
              microseconds_since(begin) / 1e3);
  begin = Clock::now();
  const auto any = compiler.json_object(Thinking::off);
  measure("json_object", *tokenizer, any, microseconds_since(begin));
  begin = Clock::now();
  const auto large = compiler.json_schema(large_schema(), Thinking::off);
  measure("large schema", *tokenizer, large, microseconds_since(begin));
  begin = Clock::now();
  const auto words = compiler.json_schema(enum_schema(), Thinking::off);
  measure("enum of 1000", *tokenizer, words, microseconds_since(begin));
}

}  // namespace
}  // namespace carat

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TOKENIZER.json\n", argv[0]);
    return 2;
  }
  try {
    carat::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
