#include "cli/reply_writer.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "cli/streams.h"

namespace carat {

bool ReplyWriter::write(std::string_view answer, std::string_view thought) {
  write_thought(thought);
  if (answer.empty() || !reading_) return reading_;
  end_thought();
  reading_ = write_stdout(answer);
  last_ = answer.back();
  return reading_;
}

bool ReplyWriter::finish() {
  end_thought();
  if (reading_ && last_ != '\n') reading_ = write_stdout("\n");
  return reading_;
}

void ReplyWriter::write_thought(std::string_view text) {
  if (text.empty() || thoughts_ == Thoughts::hidden) return;
  const bool terminal = ::isatty(STDERR_FILENO);
  if (!in_thought_) {
    thought_began_ = std::chrono::steady_clock::now();
    if (terminal) std::fputs("\x1b[2m", stderr);
    if (thoughts_ == Thoughts::folded && terminal) std::fputs("thinking ...", stderr);
  }
  in_thought_ = true;
  if (thoughts_ == Thoughts::shown) std::fputs(std::string(text).c_str(), stderr);
  std::fflush(stderr);
}

void ReplyWriter::end_thought() {
  if (!in_thought_) return;
  in_thought_ = false;
  const bool terminal = ::isatty(STDERR_FILENO);
  if (thoughts_ == Thoughts::folded) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - thought_began_;
    std::fprintf(stderr, "%s(thought for %.1f s)", terminal ? "\r\x1b[K" : "", took.count());
  }
  std::fputs(terminal ? "\x1b[0m\n\n" : "\n\n", stderr);
  std::fflush(stderr);
}

}  // namespace carat
