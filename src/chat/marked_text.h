// Text that knows, byte by byte, whether the template or somebody outside wrote it. Used by templates and
// their rendered prompts: only what a template wrote may become control tokens.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace carat {

enum class Origin : unsigned char {
  chat_template,  // the template, or whoever is trusted like it
  user            // messages, tools, documents, template arguments
};

class MarkedText {
 public:
  /// Neighbouring runs differ in origin and none is empty.
  struct Run {
    std::size_t end;  // the first byte after the run
    Origin origin;
  };

  MarkedText() = default;
  MarkedText(std::string_view bytes, Origin origin) { append(bytes, origin); }

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }
  /// Of text[at]; at < size().
  Origin origin_at(std::size_t at) const;

  /// Throws Error{invalid_argument} above kMaxBytes: templates may double a text with every line.
  void append(std::string_view bytes, Origin origin);
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  /// Appends other[begin, end).
  void append(const MarkedText& other, std::size_t begin, std::size_t end);
  /// Bytes [begin, end).
  MarkedText part(std::size_t begin, std::size_t end) const;

  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace carat
