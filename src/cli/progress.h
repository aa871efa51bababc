// A progress bar on stderr, for work that takes long enough to wonder about.
#pragma once
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace carat {

/// Draws nothing when stderr is not a terminal or when told to be quiet; erases itself at the end. Any thread
/// may call it.
class Progress {
 public:
  Progress(std::string_view label, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `fraction` of the work is done, in [0, 1].
  void update(double fraction);
  /// Erases it for good.
  void end();

 private:
  std::mutex mutex_;
  std::string label_;
  bool enabled_, drawn_ = false;
  std::chrono::steady_clock::time_point last_drawn_{};
};

/// Shows how far the model is loaded; for make_runner() and whoever calls it.
std::function<void(double fraction)> loading_bar(bool quiet);

}  // namespace carat
