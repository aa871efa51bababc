// Lines of text from a terminal, with editing and history, as shells have it. Shown on standard error, so
// that standard output is the model's alone. Used by the chat of `carat run`.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/line_buffer.h"

namespace carat {

class LineEditor {
 public:
  /// `history`: a file to remember lines in, from one run to the next; empty for none.
  explicit LineEditor(std::filesystem::path history);

  enum class End {
    line,
    interrupted,  // Ctrl-C: the line is dropped
    closed        // Ctrl-D on an empty line, or the terminal is gone
  };
  /// Reads a line; what is pasted may have newlines in it. Typed ahead text is not lost. Throws
  /// Error{unavailable} when standard input or standard error is no terminal.
  End read(const std::string& prompt, std::string& line);
  /// Makes `line` the newest of the history.
  void remember(const std::string& line);

 private:
  class RawTerminal;

  int next_byte();  // -1 at the end
  std::optional<End> press(int byte);
  void press_escape();
  void press_sequence(const std::string& parameters, char final_byte);
  void insert_character(int first);
  void paste();
  void recall(int step);
  void draw();

  std::filesystem::path file_;
  std::vector<std::string> history_;  // the oldest first
  std::string prompt_, unread_;       // of standard input
  std::size_t read_at_ = 0;           // in unread_
  LineBuffer line_;
  std::size_t recalled_ = 0;  // index into history_; its size: the new line
  std::string new_line_;      // while an old one is shown
};

}  // namespace carat
