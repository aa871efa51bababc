#include "text/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_pipeline.h"
#include "text/unicode.h"

namespace carat {
namespace {

using nlohmann::json;

/// Receives the parser's events. The two big tables, model.vocab and model.merges, go straight into string
/// lists; the rest is small and becomes an ordinary JSON value.
class FileReader : public json::json_sax_t {
 public:
  explicit FileReader(const std::string& source) : source_(source) {}

  json rest;
  StringList vocab_pieces;
  std::vector<int32_t> vocab_ids;
  StringList merge_parts;
  bool has_vocab = false, has_merges = false;

  bool null() override { return value(nullptr); }
  bool boolean(bool x) override { return value(x); }
  bool number_integer(number_integer_t x) override { return value(x); }
  bool number_float(number_float_t x, const string_t&) override { return value(x); }
  bool binary(binary_t&) override { return false; }
  bool number_unsigned(number_unsigned_t x) override {
    if (section_ != Section::vocab) return value(x);
    if (x > std::numeric_limits<int32_t>::max()) corrupt("model.vocab: id ", x, " is too large");
    vocab_ids.push_back(static_cast<int32_t>(x));
    return true;
  }
  bool string(string_t& x) override {
    if (section_ != Section::merges) return value(x);
    if (in_pair_) {
      merge_parts.push_back(x);
    } else {
      const std::size_t space = x.find(' ');
      if (space == std::string::npos || x.find(' ', space + 1) != std::string::npos)
        corrupt("model.merges[", merges(), "]: ", in_quotes(x),
                " is not two pieces with a space between them");
      merge_parts.push_back(std::string_view(x).substr(0, space));
      merge_parts.push_back(std::string_view(x).substr(space + 1));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (is_at("vocab")) {
      insert(nullptr);
      has_vocab = true;
      section_ = Section::vocab;
      return true;
    }
    return open(json::object());
  }
  bool key(string_t& x) override {
    if (section_ == Section::vocab) {
      vocab_pieces.push_back(x);
    } else {
      if (open_.back()->contains(x)) corrupt("key ", in_quotes(x), " appears twice");
      key_ = x;
    }
    return true;
  }
  bool end_object() override {
    if (section_ == Section::vocab) {
      section_ = Section::rest;
    } else {
      open_.pop_back();
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (section_ == Section::merges && !in_pair_) {
      in_pair_ = true;
      pair_begin_ = merge_parts.size();
      return true;
    }
    if (is_at("merges")) {
      insert(nullptr);
      has_merges = true;
      section_ = Section::merges;
      return true;
    }
    return open(json::array());
  }
  bool end_array() override {
    if (section_ == Section::rest) {
      open_.pop_back();
    } else if (!in_pair_) {
      section_ = Section::rest;
    } else {
      in_pair_ = false;
      if (merge_parts.size() != pair_begin_ + 2)
        corrupt("model.merges[", pair_begin_ / 2, "]: not a pair of pieces");
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    corrupt("not valid JSON at byte ", position, " (cut short or damaged; download it again)");
  }

 private:
  enum class Section { rest, vocab, merges };
  static constexpr std::size_t kMaxDepth = 32;

  template <class... Parts>
  [[noreturn]] void corrupt(const Parts&... parts) const {
    fail(ErrorKind::corrupt, source_, ": ", parts...);
  }
  std::size_t merges() const { return merge_parts.size() / 2; }

  /// Whether the value that begins now is model.`name`.
  bool is_at(std::string_view name) const {
    return section_ == Section::rest && open_.size() == 2 && key_ == name && open_[0]->contains("model") &&
           open_[1] == &open_[0]->at("model");
  }
  json* insert(json x) {
    if (section_ == Section::vocab)
      corrupt("model.vocab: the id of ", in_quotes(last_piece()), " is not a number >= 0");
    if (section_ == Section::merges)
      corrupt("model.merges[", merges(), "]: neither a string nor a pair of strings");
    if (open_.empty()) return &(rest = std::move(x));
    json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(x));
    parent.push_back(std::move(x));
    return &parent.back();
  }
  bool value(json x) {
    insert(std::move(x));
    return true;
  }
  bool open(json container) {
    if (open_.size() == kMaxDepth) corrupt("nested deeper than ", kMaxDepth, " levels");
    open_.push_back(insert(std::move(container)));
    return true;
  }
  std::string_view last_piece() const { return vocab_pieces[vocab_pieces.size() - 1]; }

  const std::string& source_;
  std::vector<json*> open_;  // the containers around the current position, outside the two tables
  std::string key_;
  Section section_ = Section::rest;
  bool in_pair_ = false;
  std::size_t pair_begin_ = 0;
};

/// The vocabulary in the order of its ids.
StringList by_id(const FileReader& file, const std::string& source) {
  const std::size_t count = file.vocab_ids.size();
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> entry_of_id(count, kNone);
  for (std::size_t entry = 0; entry < count; ++entry) {
    const auto id = static_cast<std::size_t>(file.vocab_ids[entry]);
    if (id >= count)
      fail(ErrorKind::corrupt, source, ": model.vocab: ", in_quotes(file.vocab_pieces[entry]), " has id ", id,
           ", but ", count, " pieces need the ids 0 to ", count - 1, " without gaps");
    if (entry_of_id[id] != kNone)
      fail(ErrorKind::corrupt, source, ": model.vocab: ", in_quotes(file.vocab_pieces[entry_of_id[id]]),
           " and ", in_quotes(file.vocab_pieces[entry]), " have the same id ", id);
    entry_of_id[id] = entry;
  }
  StringList pieces;
  pieces.reserve(count, file.vocab_pieces.total_bytes());
  for (const std::size_t entry : entry_of_id) pieces.push_back(file.vocab_pieces[entry]);
  return pieces;
}

}  // namespace

TokenizerFile read_tokenizer_json(std::string_view text, const std::string& source) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 31;
  if (text.size() > kMaxBytes)
    fail(ErrorKind::corrupt, source, ": ", text.size(), " bytes are too many for a tokenizer");
  FileReader reader(source);
  json::sax_parse(text.data(), text.data() + text.size(), &reader);
  TokenizerFile file = read_pipeline(reader.rest, source);
  if (!reader.has_vocab) fail(ErrorKind::corrupt, source, ": model.vocab is not an object or is missing");
  if (!reader.has_merges) fail(ErrorKind::corrupt, source, ": model.merges is not an array or is missing");
  if (reader.vocab_ids.empty()) fail(ErrorKind::corrupt, source, ": model.vocab is empty");
  file.pieces = by_id(reader, source);
  file.merge_parts = std::move(reader.merge_parts);
  return file;
}

}  // namespace carat
