// Shows a reply while it is drawn: the answer on standard output, what the model thinks before it dimmed on
// standard error. Used by `carat run`.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "chat/output_parser.h"
#include "engine/engine.h"

namespace carat {

class ReplyWriter {
 public:
  /// Without a parser the reply is text as the engine decodes it. `quiet` hides thoughts.
  ReplyWriter(std::optional<OutputParser> parser, bool quiet) : parser_(std::move(parser)), quiet_(quiet) {}

  /// False when nothing more is wanted: the reader of standard output is gone, or a stop string was found.
  bool write(const TokenEvent& event);
  /// What is held back, and a newline at the end. False when the reader of standard output is gone.
  bool finish();

 private:
  void show(const OutputDelta& delta);
  void write_answer(const std::string& text);
  void write_thought(const std::string& text);
  void end_thought();

  std::optional<OutputParser> parser_;
  bool quiet_;
  bool reading_ = true;
  bool in_thought_ = false;
  char last_ = '\n';  // of the answer
};

}  // namespace carat
