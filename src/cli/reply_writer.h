// Shows a reply while it is drawn: the answer on standard output, what the model thinks before it on standard
// error. Used by `carat run`, with a prompt and in a chat.
#pragma once
#include <chrono>
#include <string_view>

namespace carat {

enum class Thoughts {
  hidden,
  folded,  // a line that says that the model thinks, and then how long it did
  shown    // dimmed
};

class ReplyWriter {
 public:
  explicit ReplyWriter(Thoughts thoughts) : thoughts_(thoughts) {}

  /// What has come of the reply. False when the reader of standard output is gone.
  bool write(std::string_view answer, std::string_view thought);
  /// A newline at the end. False when the reader of standard output is gone.
  bool finish();

 private:
  void write_thought(std::string_view text);
  void end_thought();

  Thoughts thoughts_;
  bool reading_ = true;
  bool in_thought_ = false;
  std::chrono::steady_clock::time_point thought_began_{};
  char last_ = '\n';  // of the answer
};

}  // namespace carat
