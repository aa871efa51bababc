#include "text/tokenizer_pipeline.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace carat {
namespace {

using nlohmann::json;

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
    fail(ErrorKind::unsupported, source_, ": ", part, " is ",
         in_quotes(value.dump(-1, ' ', false, kReplaceInvalid)),
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
      if (const json& affix = field(model, key); !affix.is_null() && affix != "") unsupported(key, affix);
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
      if (!content.is_string() || content == "") corrupt(where, ".content is not a string or is empty");
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

}  // namespace

TokenizerFile read_pipeline(const nlohmann::json& root, const std::string& source) {
  return PipelineReader(root, source).read();
}

}  // namespace carat
