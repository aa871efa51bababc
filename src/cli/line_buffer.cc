#include "cli/line_buffer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/utf8.h"

namespace carat {
namespace {

struct Characters {
  uint32_t first, last;
};
// By hand from Unicode's tables, to the precision that a cursor needs.
constexpr std::array kCombining{Characters{0x300, 0x36F}, Characters{0x200B, 0x200F},
                                Characters{0x20D0, 0x20FF}, Characters{0xFE00, 0xFE0F}};
constexpr std::array kWide{
    Characters{0x1100, 0x115F}, Characters{0x2E80, 0xA4CF},   Characters{0xAC00, 0xD7A3},
    Characters{0xF900, 0xFAFF}, Characters{0xFE30, 0xFE6F},   Characters{0xFF00, 0xFF60},
    Characters{0xFFE0, 0xFFE6}, Characters{0x1F300, 0x1FAFF}, Characters{0x20000, 0x3FFFD}};

uint32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t value = byte(0) & (0x7Fu >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) value = value << 6 | (byte(i) & 0x3F);
  return value;
}

int width_of(std::string_view character) {
  const uint32_t c = code_point(character);
  const auto contains = [c](const Characters& range) { return range.first <= c && c <= range.last; };
  if (std::ranges::any_of(kCombining, contains)) return 0;
  return std::ranges::any_of(kWide, contains) ? 2 : 1;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = scan_utf8(text, at).bytes;
    width += width_of(text.substr(at, bytes));
    at += bytes;
  }
  return width;
}

std::size_t LineBuffer::before(std::size_t at) const {
  while (at > 0 && (static_cast<unsigned char>(text_[--at]) & 0xC0) == 0x80) {
  }
  return at;
}

std::size_t LineBuffer::after(std::size_t at) const {
  return at < text_.size() ? at + scan_utf8(text_, at).bytes : at;
}

std::size_t LineBuffer::word_before() const {
  std::size_t at = cursor_;
  while (at > 0 && is_blank(text_[at - 1])) --at;
  while (at > 0 && !is_blank(text_[at - 1])) --at;
  return at;
}

void LineBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void LineBuffer::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineBuffer::erase_before() {
  const std::size_t from = before(cursor_);
  text_.erase(from, cursor_ - from);
  cursor_ = from;
}

void LineBuffer::erase_after() { text_.erase(cursor_, after(cursor_) - cursor_); }

void LineBuffer::erase_word_before() {
  const std::size_t from = word_before();
  text_.erase(from, cursor_ - from);
  cursor_ = from;
}

void LineBuffer::erase_to_start() {
  text_.erase(0, cursor_);
  cursor_ = 0;
}

void LineBuffer::erase_to_end() { text_.erase(cursor_); }
void LineBuffer::move_left() { cursor_ = before(cursor_); }
void LineBuffer::move_right() { cursor_ = after(cursor_); }
void LineBuffer::move_word_left() { cursor_ = word_before(); }

void LineBuffer::move_word_right() {
  while (cursor_ < text_.size() && is_blank(text_[cursor_])) ++cursor_;
  while (cursor_ < text_.size() && !is_blank(text_[cursor_])) ++cursor_;
}

LineBuffer::View LineBuffer::view(int columns) const {
  const int most = std::max(columns, 2) - 1;  // the cursor behind the last character needs a column too
  std::size_t first = 0;
  int cursor = display_width(std::string_view(text_).substr(0, cursor_));
  for (; cursor > most; first = after(first))
    cursor -= width_of(std::string_view(text_).substr(first, after(first) - first));
  View view{{}, cursor};
  int width = 0;
  for (std::size_t at = first; at < text_.size();) {
    const std::string_view character = std::string_view(text_).substr(at, after(at) - at);
    width += width_of(character);
    if (width > most) break;
    view.text += character == "\n" ? "\u21b5" : character;
    at += character.size();
  }
  return view;
}

}  // namespace carat
