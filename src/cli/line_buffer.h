// A line of text that is being edited: what each key does to it. Used by LineEditor, which knows the
// terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace carat {

/// Columns that a text takes on a terminal: two for wide characters, none for combining ones. A newline is
/// shown as one character.
int display_width(std::string_view text);

/// The cursor stands between whole characters. Valid UTF-8.
class LineBuffer {
 public:
  const std::string& text() const { return text_; }
  std::size_t cursor() const { return cursor_; }  // bytes before it
  /// Replaces everything; the cursor goes to the end.
  void set(std::string text);

  void insert(std::string_view text);
  void erase_before();  // the character, as Backspace does
  void erase_after();   // as Delete
  void erase_word_before();
  void erase_to_start();
  void erase_to_end();
  void move_left();
  void move_right();
  void move_word_left();
  void move_word_right();
  void move_home() { cursor_ = 0; }
  void move_end() { cursor_ = text_.size(); }

  /// The part of the line around the cursor that fits into `columns`, newlines as U+21B5, and the cursor's
  /// column in it.
  struct View {
    std::string text;
    int cursor;
  };
  View view(int columns) const;

 private:
  std::size_t before(std::size_t at) const;  // the beginning of the character that ends at `at`
  std::size_t after(std::size_t at) const;
  std::size_t word_before() const;

  std::string text_;
  std::size_t cursor_ = 0;
};

}  // namespace carat
