#include "chat/jinja_texts.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "chat/jinja_operators.h"
#include "chat/python_text.h"
#include "text/unicode.h"

namespace carat::jinja {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
char to_upper(char c) { return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c; }
char to_lower(char c) { return ascii_lower(c); }  // one of the overloads

/// The same text with every byte replaced by change(byte), in order.
template <class Change>
MarkedText changed(const MarkedText& text, Change change) {
  std::string bytes = text.bytes();
  std::ranges::transform(bytes, bytes.begin(), change);
  MarkedText result;
  std::size_t begin = 0;
  for (const MarkedText::Run& run : text.runs()) {
    result.append(std::string_view(bytes).substr(begin, run.end - begin), run.origin);
    begin = run.end;
  }
  return result;
}

std::string_view strip_characters(std::string_view text, std::string_view characters, Ends ends) {
  const auto listed = [&](std::size_t at) {
    return characters.find(text.substr(at, character_bytes(text, at))) != characters.npos;
  };
  while (ends != Ends::right && !text.empty() && listed(0)) text.remove_prefix(character_bytes(text, 0));
  while (ends != Ends::left && !text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!listed(last)) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

/// The part of `text` that `view`, a view of its bytes, covers.
MarkedText part_of(const MarkedText& text, std::string_view view) {
  const auto begin = static_cast<std::size_t>(view.data() - text.bytes().data());
  return text.part(begin, begin + view.size());
}

std::vector<Value> split_at_white_space(Runtime& runtime, const MarkedText& text, int64_t most) {
  runtime.spend_scan(text.size());
  std::vector<Value> parts;
  std::string_view rest = strip_left(text.bytes());
  while (!rest.empty()) {
    std::size_t end = 0;
    while (end < rest.size() && strip_left(rest.substr(end)).size() == rest.size() - end)
      end += character_bytes(rest, end);
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) end = rest.size();
    parts.push_back(runtime.text(part_of(text, rest.substr(0, end))));
    rest = strip_left(rest.substr(end));
  }
  return parts;
}

}  // namespace

MarkedText upper(const MarkedText& text) { return changed(text, to_upper); }
MarkedText lower(const MarkedText& text) { return changed(text, to_lower); }

MarkedText capitalized(const MarkedText& text) {
  bool first = true;
  return changed(text, [&](char c) { return std::exchange(first, false) ? to_upper(c) : to_lower(c); });
}

MarkedText titled(const MarkedText& text) {
  bool inside = false;
  return changed(text, [&](char c) {
    const bool letter = is_lower(c) || is_upper(c) || static_cast<signed char>(c) < 0;
    const bool first = letter && !inside;
    inside = letter;
    return first ? to_upper(c) : to_lower(c);
  });
}

MarkedText title_words(const MarkedText& text) {
  bool inside = false;
  return changed(text, [&](char c) {
    const bool first = !inside;
    inside = std::string_view(" \t\n\v\f\r-({[<").find(c) == std::string_view::npos;
    return first ? to_upper(c) : to_lower(c);
  });
}

MarkedText stripped(Runtime& runtime, const MarkedText& text, const Value& characters, Ends ends) {
  std::string_view view = text.bytes();
  runtime.spend_scan(text.size());
  if (!characters.is_none() && !characters.is_undefined()) {
    const std::string& listed = text_argument(characters, "the characters to strip").bytes();
    runtime.spend_search(text.size(), listed.size());
    view = strip_characters(view, listed, ends);
  } else {
    if (ends != Ends::right) view = strip_left(view);
    if (ends != Ends::left) view = strip_right(view);
  }
  return part_of(text, view);
}

MarkedText replaced(Runtime& runtime, const MarkedText& text, const MarkedText& part, const MarkedText& by,
                    int64_t most) {
  if (part.empty()) fail(ErrorKind::unsupported, "replacing an empty string is not supported");
  runtime.spend_search(text.size(), part.size());
  MarkedText result;
  std::size_t begin = 0;
  for (; most != 0; --most) {
    const std::size_t found = text.bytes().find(part.bytes(), begin);
    if (found == std::string::npos) break;
    runtime.spend_bytes(by.size());
    result.append(text, begin, found);
    result.append(by);
    begin = found + part.size();
  }
  result.append(text, begin, text.size());
  return result;
}

std::vector<Value> split(Runtime& runtime, const MarkedText& text, const Value& separator, int64_t most) {
  if (separator.is_none() || separator.is_undefined()) return split_at_white_space(runtime, text, most);
  const std::string& between = text_argument(separator, "the separator").bytes();
  if (between.empty()) fail(ErrorKind::invalid_argument, "split at an empty string");
  runtime.spend_search(text.size(), between.size());
  std::vector<Value> parts;
  std::size_t begin = 0;
  for (; most != 0; --most) {
    const std::size_t found = text.bytes().find(between, begin);
    if (found == std::string::npos) break;
    parts.push_back(runtime.text(text.part(begin, found)));
    begin = found + between.size();
  }
  parts.push_back(runtime.text(text.part(begin, text.size())));
  return parts;
}

std::vector<Value> split_lines(Runtime& runtime, const MarkedText& text) {
  std::vector<Value> lines = split(runtime, text, Value::text("\n", Origin::chat_template), -1);
  if (lines.back().as_text()->empty()) lines.pop_back();
  return lines;
}

MarkedText joined(Runtime& runtime, const std::vector<Value>& items, const MarkedText& separator) {
  MarkedText result;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const MarkedText item = to_text(items[i]);
    runtime.spend_steps(1);
    runtime.spend_bytes(item.size() + separator.size());
    if (i > 0) result.append(separator);
    result.append(item);
  }
  return result;
}

}  // namespace carat::jinja
