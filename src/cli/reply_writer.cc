#include "cli/reply_writer.h"

#include <unistd.h>

#include <cstdio>

#include "cli/streams.h"

namespace carat {

bool ReplyWriter::write(const TokenEvent& event) {
  if (parser_)
    show(parser_->push(event.token));
  else
    write_answer(event.text);
  return reading_ && !(parser_ && parser_->stopped());
}

bool ReplyWriter::finish() {
  if (parser_) show(parser_->finish());
  end_thought();
  if (reading_ && last_ != '\n') reading_ = write_stdout("\n");
  return reading_;
}

void ReplyWriter::show(const OutputDelta& delta) {
  write_thought(delta.reasoning);
  write_answer(delta.content);
}

void ReplyWriter::write_answer(const std::string& text) {
  if (text.empty() || !reading_) return;
  end_thought();
  reading_ = write_stdout(text);
  last_ = text.back();
}

void ReplyWriter::write_thought(const std::string& text) {
  if (text.empty() || quiet_) return;
  if (!in_thought_ && ::isatty(STDERR_FILENO)) std::fputs("\x1b[2m", stderr);
  in_thought_ = true;
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

void ReplyWriter::end_thought() {
  if (!in_thought_) return;
  in_thought_ = false;
  std::fputs(::isatty(STDERR_FILENO) ? "\x1b[0m\n\n" : "\n\n", stderr);
  std::fflush(stderr);
}

}  // namespace carat
