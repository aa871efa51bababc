// Speed of the tokenizer on one thread; bench/compare_tokenizers.py sets it beside Hugging Face tokenizers.
// Usage: bench_tokenizer TOKENIZER.json TEXT_FILE
#include "text/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <limits>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace carat {
namespace {

/// Processor time of the fastest of a few calls: other programs on the machine disturb it less than the
/// clock.
template <class Action>
double best_seconds(Action&& action) {
  constexpr int kRepeats = 5;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    const std::clock_t begin = std::clock();
    action();
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

void measure(const char* tokenizer_json, const char* text_file) {
  const double load_s = best_seconds([&] { Tokenizer::load(tokenizer_json); });
  const auto tokenizer = Tokenizer::load(tokenizer_json);
  const MappedFile file(text_file);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());

  std::vector<int32_t> ids;
  const double whole_s = best_seconds([&] {
    ids.clear();
    tokenizer->encode(text, SpecialTokens::recognise, ids);
  });
  const double decode_s = best_seconds([&] { tokenizer->decode(ids, false); });
  const std::size_t tokens = ids.size();
  std::size_t line_tokens = 0;
  const double lines_s = best_seconds([&] {
    line_tokens = 0;
    for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      ids.clear();
      tokenizer->encode(text.substr(begin, end - begin), SpecialTokens::recognise, ids);
      line_tokens += ids.size();
    }
  });
  std::printf("{\"load_s\": %.3f, \"whole_s\": %.4f, \"lines_s\": %.4f, \"decode_s\": %.4f, ", load_s,
              whole_s, lines_s, decode_s);
  std::printf("\"tokens\": %zu, \"line_tokens\": %zu}\n", tokens, line_tokens);
}

}  // namespace
}  // namespace carat

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TOKENIZER.json TEXT_FILE\n", argv[0]);
    return 2;
  }
  try {
    carat::measure(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
