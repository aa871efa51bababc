#include "text/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
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

/// The small parts: everything but the vocabulary and the merges.
class PipelineReader {
 public:
  PipelineReader(const json& root, const std::string& source) : root_(root), source_(source) {}

  TokenizerFile read() const {
    if (!root_.is_object()) corrupt("not a JSON object");
    TokenizerFile file;
    read_model(file);
    check_normalizer();
    check_pre_tokenizer();
    check_decoder();
    check_lengths();
    file.adds_bos = read_post_processor();
    file.added_tokens = read_added_tokens();
    return file;
  }

 private:
  template <class... Parts>
  [[noreturn]] void corrupt(const Parts&... parts) const {
    fail(ErrorKind::corrupt, source_, ": ", parts...);
  }
  [[noreturn]] void unsupported(std::string_view part, const json& value) const {
    const std::string shown = value.is_string() ? in_quotes(value.get_ref<const std::string&>())
                                                : printable(value.dump(-1, ' ', false, kReplaceInvalid), 120);
    fail(ErrorKind::unsupported, source_, ": ", part, " is ", shown,
         ", which Gemma's tokenizer does not use and Carat can't reproduce exactly");
  }

  /// null when there is no such key.
  static const json& field(const json& object, const char* key) {
    static const json null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
  }
  bool flag(const json& object, const char* key, std::string_view where, bool when_missing = false) const {
    const json& value = field(object, key);
    if (value.is_null()) return when_missing;
    if (!value.is_boolean()) corrupt(where, ".", key, " is not true or false");
    return value.get<bool>();
  }
  static bool is_empty_string(const json& value) {
    return value.is_string() && value.get_ref<const std::string&>().empty();
  }
  static bool has_type(const json& part, std::string_view type) {
    return part.is_object() && field(part, "type") == type;
  }
  /// The members of a part that may be null, one step, or a Sequence of steps under `list_key`.
  std::vector<json> steps(const char* part_name, const char* list_key) const {
    const json& part = field(root_, part_name);
    if (part.is_null()) return {};
    if (!has_type(part, "Sequence")) return {part};
    const json& list = field(part, list_key);
    if (!list.is_array()) corrupt(part_name, ".", list_key, " is not an array");
    return list.get<std::vector<json>>();
  }
  static bool is_replace(const json& step, std::string_view from, std::string_view to) {
    return has_type(step, "Replace") && field(step, "pattern") == json{{"String", from}} &&
           field(step, "content") == to;
  }

  void read_model(TokenizerFile& file) const {
    const json& model = field(root_, "model");
    if (!model.is_object()) corrupt("model is not an object or is missing");
    if (field(model, "type") != "BPE") unsupported("model.type", field(model, "type"));
    if (const json& dropout = field(model, "dropout"); !dropout.is_null() && dropout != 0.0)
      unsupported("model.dropout", dropout);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const json& affix = field(model, key); !affix.is_null() && !is_empty_string(affix))
        unsupported(key, affix);
    if (const json& unk = field(model, "unk_token"); !unk.is_null()) {
      if (!unk.is_string()) corrupt("model.unk_token is not a string");
      file.has_unk_token = true;
      file.unk_token = unk.get<std::string>();
    }
    file.fuse_unk = flag(model, "fuse_unk", "model");
    file.byte_fallback = flag(model, "byte_fallback", "model");
    file.ignore_merges = flag(model, "ignore_merges", "model");
    if (!file.byte_fallback) unsupported("model.byte_fallback", field(model, "byte_fallback"));
  }

  void check_normalizer() const {
    const std::vector<json> normalizers = steps("normalizer", "normalizers");
    if (normalizers.size() != 1 || !is_replace(normalizers[0], " ", kSpaceMarker))
      unsupported("normalizer", field(root_, "normalizer"));
  }

  /// Splitting at spaces never happens, as the normalizer has left none.
  void check_pre_tokenizer() const {
    for (const json& step : steps("pre_tokenizer", "pretokenizers"))
      if (!has_type(step, "Split") || field(step, "pattern") != json{{"String", " "}} ||
          flag(step, "invert", "pre_tokenizer"))
        unsupported("pre_tokenizer", step);
  }

  void check_decoder() const {
    std::vector<json> decoders = steps("decoder", "decoders");
    if (!decoders.empty() && has_type(decoders.back(), "Fuse")) decoders.pop_back();
    if (decoders.size() != 2 || !is_replace(decoders[0], kSpaceMarker, " ") ||
        !has_type(decoders[1], "ByteFallback"))
      unsupported("decoder", field(root_, "decoder"));
  }

  /// Hugging Face would cut or fill up every text. Filling up to the longest of a batch changes no text.
  void check_lengths() const {
    if (const json& truncation = field(root_, "truncation"); !truncation.is_null())
      unsupported("truncation", truncation);
    const json& padding = field(root_, "padding");
    if (!padding.is_null() && !(padding.is_object() && field(padding, "strategy") == "BatchLongest"))
      unsupported("padding", padding);
  }

  /// Whether a bos is put first; nothing else may be added.
  bool read_post_processor() const {
    bool adds_bos = false;
    for (const json& step : steps("post_processor", "processors")) {
      if (!has_type(step, "TemplateProcessing")) unsupported("post_processor", step);
      const json& single = field(step, "single");
      if (!single.is_array() || single.empty()) corrupt("post_processor.single is not an array or is empty");
      const bool begins_with_bos = single.size() == 2 && is_template_item(single[0], "SpecialToken", "<bos>");
      if (!is_template_item(single.back(), "Sequence", "A") || single.size() != (begins_with_bos ? 2 : 1))
        unsupported("post_processor.single", single);
      adds_bos = adds_bos || begins_with_bos;
    }
    return adds_bos;
  }
  static bool is_template_item(const json& item, const char* kind, std::string_view id) {
    return item.is_object() && item.contains(kind) && item[kind].is_object() && field(item[kind], "id") == id;
  }

  std::vector<AddedToken> read_added_tokens() const {
    const json& list = field(root_, "added_tokens");
    if (list.is_null()) return {};
    if (!list.is_array()) corrupt("added_tokens is not an array");
    std::vector<AddedToken> tokens;
    for (const json& entry : list) {
      const std::string where = "added_tokens[" + std::to_string(tokens.size()) + "]";
      if (!entry.is_object()) corrupt(where, " is not an object");
      const json &id = field(entry, "id"), &content = field(entry, "content");
      if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) corrupt(where, ".id is not a token id");
      if (!content.is_string() || is_empty_string(content))
        corrupt(where, ".content is not a string or is empty");
      AddedToken token{.content = content.get<std::string>(), .id = id.get<int32_t>()};
      token.single_word = flag(entry, "single_word", where);
      token.lstrip = flag(entry, "lstrip", where);
      token.rstrip = flag(entry, "rstrip", where);
      token.special = flag(entry, "special", where);
      token.normalized = flag(entry, "normalized", where, !token.special);
      tokens.push_back(std::move(token));
    }
    return tokens;
  }

  static constexpr auto kReplaceInvalid = json::error_handler_t::replace;
  const json& root_;
  const std::string& source_;
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
  if (text.size() > kMostTokenizerBytes)
    fail(ErrorKind::corrupt, source, ": ", text.size(), " bytes; a tokenizer has at most ",
         kMostTokenizerBytes);
  if (text.empty()) fail(ErrorKind::corrupt, source, ": not valid JSON: the file is empty");
  if (const std::size_t nul = text.find('\0'); nul != text.npos)  // the library takes it for the end
    fail(ErrorKind::corrupt, source, ": not valid JSON: byte ", nul, " is 0");
  FileReader reader(source);
  json::sax_parse(text.data(), text.data() + text.size(), &reader);
  TokenizerFile file = PipelineReader(reader.rest, source).read();
  if (!reader.has_vocab) fail(ErrorKind::corrupt, source, ": model.vocab is not an object or is missing");
  if (!reader.has_merges) fail(ErrorKind::corrupt, source, ": model.merges is not an array or is missing");
  if (reader.vocab_ids.empty()) fail(ErrorKind::corrupt, source, ": model.vocab is empty");
  file.pieces = by_id(reader, source);
  file.merge_parts = std::move(reader.merge_parts);
  return file;
}

}  // namespace carat
