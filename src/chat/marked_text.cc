#include "chat/marked_text.h"

#include <algorithm>

#include "base/error.h"

namespace carat {
namespace {

/// The run that holds byte `at`.
auto run_at(const std::vector<MarkedText::Run>& runs, std::size_t at) {
  return std::upper_bound(runs.begin(), runs.end(), at,
                          [](std::size_t byte, const MarkedText::Run& run) { return byte < run.end; });
}

}  // namespace

Origin MarkedText::origin_at(std::size_t at) const { return run_at(runs_, at)->origin; }

void MarkedText::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  if (bytes.size() > kMaxBytes - bytes_.size())
    fail(ErrorKind::invalid_argument, "a text grows beyond ", kMaxBytes >> 20, " MiB");
  bytes_ += bytes;
  if (runs_.empty() || runs_.back().origin != origin) runs_.push_back({0, origin});
  runs_.back().end = bytes_.size();
}

void MarkedText::append(const MarkedText& other, std::size_t begin, std::size_t end) {
  const std::string_view bytes = other.bytes_;
  for (auto run = run_at(other.runs_, begin); begin < end; ++run) {
    const std::size_t run_end = std::min(run->end, end);
    append(bytes.substr(begin, run_end - begin), run->origin);
    begin = run_end;
  }
}

MarkedText MarkedText::part(std::size_t begin, std::size_t end) const {
  MarkedText result;
  result.append(*this, begin, end);
  return result;
}

}  // namespace carat
