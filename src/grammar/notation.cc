#include "grammar/notation.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "chat/python_text.h"
#include "grammar/regex_dfa.h"

namespace carat::grammar {
namespace {

constexpr int kMostIndent = 40;
constexpr std::string_view kGemmaQuote = "<|\"|>";

/// The only spelling that ByteDfas::json_key() knows.
std::string json_spelling(std::string_view text) {
  static constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt",
                                    kHex = "0123456789abcdef";
  std::string spelled;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t at = kShort.find(c); at != kShort.npos)
      spelled += {'\\', kLetters[at]};
    else if (byte < 0x20)
      spelled += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
    else
      spelled += c;
  }
  return spelled;
}

class JsonNotation final : public Notation {
 public:
  using Notation::Notation;

  Node text(uint32_t least, uint32_t most, Node next) override {
    return quote(dfas().json_text(), least, most, next);
  }
  Node one_text_of(const std::vector<std::string>& texts, Node next) override {
    std::vector<std::string> words;
    for (const std::string& text : texts) words.push_back('"' + json_spelling(text) + '"');
    return word(words, next);
  }
  Node pattern(const std::string& pattern, uint32_t least, uint32_t most, Node next) override {
    const auto start = add_pattern(dfas(), pattern, Spelling::json, least, most);
    return start ? quote(*start, 0, kUnlimited, next) : program().choice();
  }
  Node key(const std::string& name, Node value) override {
    return program().match(dfas().chain('"' + json_spelling(name) + "\":", space()), value);
  }
  Node key_but(const std::vector<std::string>& names, Node value) override {
    std::vector<std::string> spelled;
    for (const std::string& name : names) spelled.push_back(json_spelling(name) + '"');
    const Node colon = program().match(dfas().chain(":", space()), value);
    return quote(dfas().key_but(spelled), 0, kUnlimited, colon);
  }

 private:
  ByteDfas& dfas() { return program().dfas(); }

  Node quote(DfaState text, uint32_t least, uint32_t most, Node next) {
    if (!quote_) quote_ = dfas().chain("\"", accepting());
    return program().match(*quote_, program().match_counted(text, least, most, next));
  }

  /// A space or nothing.
  DfaState space() {
    if (!space_) {
      space_ = dfas().add(true);
      dfas().add_edge(*space_, ' ', accepting());
    }
    return *space_;
  }

  DfaState add_punctuation(char c, Blanks blanks) override {
    // Blanks, and then `c` or the end.
    const bool before = blanks == Blanks::before;
    const DfaState end = accepting();
    const auto blank_state = [&] {
      const DfaState state = dfas().add(!before);
      if (before) dfas().add_edge(state, c, end);
      return state;
    };
    const DfaState start = blank_state();
    dfas().add_edge(start, ' ', blank_state());
    DfaState line = blank_state();
    dfas().add_edge(start, '\n', line);
    for (int i = 0; i < kMostIndent; ++i) {
      const DfaState next = blank_state();
      dfas().add_edge(line, ' ', next);
      line = next;
    }
    return before ? start : dfas().chain(std::string_view(&c, 1), start);
  }

  std::optional<DfaState> quote_, space_;
};

bool is_bare_key(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
  };
  return !name.empty() && std::ranges::all_of(name, is_plain) && strip(name).size() == name.size();
}

class GemmaNotation final : public Notation {
 public:
  GemmaNotation(Program& program, int32_t quote) : Notation(program), quote_(quote) {}

  Node text(uint32_t least, uint32_t most, Node next) override {
    return quoted(program().match_counted(dfas().gemma_text(), least, most, last_quote(next)));
  }
  Node one_text_of(const std::vector<std::string>& texts, Node next) override {
    std::vector<std::string> words;
    bool or_empty = false;
    for (const std::string& text : texts) {
      require_writable(text);
      if (text.empty())
        or_empty = true;
      else
        words.push_back(text);
    }
    const Node end = last_quote(next), inside = program().choice();
    if (or_empty) program().add_target(inside, end);
    if (!words.empty()) program().add_target(inside, word(words, end));
    return quoted(inside);
  }
  Node pattern(const std::string& pattern, uint32_t least, uint32_t most, Node next) override {
    const auto start = add_pattern(dfas(), pattern, Spelling::plain, least, most);
    return start ? quoted(program().match(*start, last_quote(next))) : program().choice();
  }

  /// Bare where whoever reads the call takes it as a key: see begins_with_key() of chat/tool_call_text.cc.
  Node key(const std::string& name, Node value) override {
    constexpr std::size_t kMostBytes = 200;
    if (name.size() > kMostBytes)
      throw std::invalid_argument("is a name of more than 200 bytes, too long for a tool call");
    require_writable(name);
    const Node colon = program().match(dfas().chain(":", accepting()), value);
    if (name.empty()) return quoted(last_quote(colon));
    if (is_bare_key(name)) return program().match(dfas().chain(name, accepting()), colon);
    return quoted(program().match(dfas().chain(name, accepting()), last_quote(colon)));
  }

  /// Bare names of up to 64 letters, digits and _.
  Node key_but(const std::vector<std::string>& names, Node value) override {
    constexpr int kMostCharacters = 64;
    const auto first = static_cast<DfaState>(dfas().size());
    std::vector<DfaState> lengths{dfas().add(false)};
    for (int i = 0; i < kMostCharacters; ++i) lengths.push_back(dfas().add(true));
    const auto next_of = [&](std::size_t length, DfaState from, const std::map<char, DfaState>& taken) {
      for (const char c : kNameCharacters) {
        const bool may_begin = c > '9';
        if (length + 1 < lengths.size() && !taken.contains(c) && (length > 0 || may_begin))
          dfas().add_edge(from, c, lengths[length + 1]);
      }
      for (const auto& [c, to] : taken) dfas().add_edge(from, c, to);
    };
    for (std::size_t i = 1; i < lengths.size(); ++i) next_of(i, lengths[i], {});
    const DfaState start = add_branch(names, "", next_of);
    if (!dfas().prune(first, start)) return program().choice();
    return program().match(start, program().match(dfas().chain(":", accepting()), value));
  }

 private:
  static constexpr std::string_view kNameCharacters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

  ByteDfas& dfas() { return program().dfas(); }
  Node quoted(Node inside) { return program().token(quote_, inside); }
  Node last_quote(Node next) { return program().token(quote_, next); }

  static void require_writable(std::string_view text) {
    if (text.find(kGemmaQuote) != text.npos)
      throw std::invalid_argument("contains <|\"|>, which no tool call can");
  }

  /// The state behind `prefix`, with which some of `names` begin: it accepts unless it is one of them.
  DfaState add_branch(const std::vector<std::string>& names, const std::string& prefix, const auto& next_of) {
    const bool is_name = std::ranges::find(names, prefix) != names.end();
    const DfaState state = dfas().add(!is_name && !prefix.empty());
    std::map<char, DfaState> children;
    for (const std::string& name : names) {
      if (name.size() <= prefix.size() || !name.starts_with(prefix)) continue;
      const char c = name[prefix.size()];
      const bool fits = kNameCharacters.find(c) != kNameCharacters.npos && (!prefix.empty() || c > '9');
      if (fits && !children.contains(c)) children[c] = add_branch(names, prefix + c, next_of);
    }
    next_of(prefix.size(), state, children);
    return state;
  }

  DfaState add_punctuation(char c, Blanks) override {
    return dfas().chain(std::string_view(&c, 1), accepting());
  }

  int32_t quote_;
};

}  // namespace

DfaState Notation::accepting() {
  if (!accepting_) accepting_ = program_.dfas().add(true);
  return *accepting_;
}

Node Notation::number(const NumberRange& range, Node next) {
  const bool is_any = !range.least && !range.most && range.multiple_of == 1;
  std::optional<DfaState>& known = range.whole ? any_integer_ : any_number_;
  const std::optional<DfaState> start = is_any && known ? known : add_numbers(program_.dfas(), range);
  if (is_any) known = start;
  return start ? program_.match(*start, next) : program_.choice();
}

Node Notation::punctuation(char c, Blanks blanks, Node next) {
  const auto [found, is_new] = punctuation_.try_emplace({c, blanks});
  if (is_new) found->second = add_punctuation(c, blanks);
  return program_.match(found->second, next);
}

std::unique_ptr<Notation> json_notation(Program& program) { return std::make_unique<JsonNotation>(program); }

std::unique_ptr<Notation> gemma_notation(Program& program, int32_t quote) {
  return std::make_unique<GemmaNotation>(program, quote);
}

}  // namespace carat::grammar
