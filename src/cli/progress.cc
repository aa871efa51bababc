#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/utf8.h"

namespace carat {

Progress::Progress(std::string_view label, bool quiet)
    : label_(printable(label, 40)), enabled_(!quiet && ::isatty(STDERR_FILENO)) {}

Progress::~Progress() { end(); }

void Progress::end() {
  const std::lock_guard lock(mutex_);
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  enabled_ = drawn_ = false;
}

void Progress::update(double fraction) {
  const std::lock_guard lock(mutex_);
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_drawn_ < std::chrono::milliseconds(100)) return;
  constexpr int kWidth = 30;
  const double done = std::clamp(fraction, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(done * kWidth);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\r%s [%s] %3.0f %%", label_.c_str(), bar.c_str(), done * 100);
  std::fflush(stderr);
  drawn_ = true;
  last_drawn_ = now;
}

std::function<void(double fraction)> loading_bar(bool quiet) {
  const auto bar = std::make_shared<Progress>("loading", quiet);
  return [bar](double fraction) { bar->update(fraction); };
}

}  // namespace carat
