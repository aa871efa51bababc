#include "grammar/byte_dfa.h"

#include <array>
#include <map>
#include <utility>

#include "base/error.h"

namespace carat::grammar {
namespace {

constexpr std::size_t kMostStates = 300'000;
constexpr std::string_view kHex[] = {"09", "af", "AF"};

}  // namespace

ByteDfas::ByteDfas()
    : json_text_(add_json_text(false)), json_key_(add_json_text(true)), gemma_text_(add_gemma_text()) {}

std::size_t ByteDfas::shared_states() {
  static const std::size_t count = ByteDfas().size();
  return count;
}

DfaState ByteDfas::add(bool accepts) {
  if (states_.size() >= kMostStates)
    fail(ErrorKind::unsupported, "the schema's patterns, names and numbers take more than ", kMostStates,
         " states; make it smaller");
  states_.push_back({.edges = {}, .accepts = accepts});
  return static_cast<DfaState>(states_.size() - 1);
}

void ByteDfas::add_edge(DfaState from, uint8_t first, uint8_t last, DfaState to) {
  std::vector<Edge>& edges = states_[from].edges;
  if (!edges.empty() && edges.back().to == to && edges.back().last + 1 == first)
    edges.back().last = last;
  else
    edges.push_back({first, last, to});
}

DfaState ByteDfas::add_text() {
  const DfaState text = add(false);
  states_[text].begins_character = true;
  return text;
}

/// The characters of two to four bytes; table 3-7 of the Unicode standard.
void ByteDfas::add_multibyte(DfaState from, DfaState to) {
  const DfaState one = add(false), two = add(false), three = add(false);
  add_edge(one, 0x80, 0xBF, to);
  add_edge(two, 0x80, 0xBF, one);
  add_edge(three, 0x80, 0xBF, two);
  const auto second = [&](uint8_t first, uint8_t last, DfaState next) {
    const DfaState state = add(false);
    add_edge(state, first, last, next);
    return state;
  };
  add_edge(from, 0xC2, 0xDF, one);
  add_edge(from, 0xE0, 0xE0, second(0xA0, 0xBF, one));
  add_edge(from, 0xE1, 0xEC, two);
  add_edge(from, 0xED, 0xED, second(0x80, 0x9F, one));
  add_edge(from, 0xEE, 0xEF, two);
  add_edge(from, 0xF0, 0xF0, second(0x90, 0xBF, two));
  add_edge(from, 0xF1, 0xF3, three);
  add_edge(from, 0xF4, 0xF4, second(0x80, 0x8F, two));
}

/// Four hexadecimal digits of a character, or of a whole pair of surrogates.
void ByteDfas::add_unicode_escapes(DfaState from, DfaState to) {
  const auto hex = [&](DfaState next) {
    const DfaState state = add(false);
    for (const std::string_view range : kHex)
      add_edge(state, static_cast<uint8_t>(range[0]), static_cast<uint8_t>(range[1]), next);
    return state;
  };
  const DfaState last = hex(to), third = hex(last), second = hex(third);
  const DfaState low_second = add(false), low_first = add(false), behind_d = add(false);
  for (const auto& [first, end] : {std::pair{'c', 'f'}, std::pair{'C', 'F'}})
    add_edge(low_second, static_cast<uint8_t>(first), static_cast<uint8_t>(end), third);
  add_edge(low_first, 'd', low_second), add_edge(low_first, 'D', low_second);
  const DfaState pair = hex(hex(chain("\\u", low_first)));
  add_edge(behind_d, '0', '7', third);
  add_edge(behind_d, '8', '9', pair);
  add_edge(behind_d, 'a', 'b', pair), add_edge(behind_d, 'A', 'B', pair);
  add_edge(from, '0', '9', second);
  for (const auto& [first, d, end] : {std::array{'a', 'd', 'f'}, std::array{'A', 'D', 'F'}}) {
    add_edge(from, static_cast<uint8_t>(first), static_cast<uint8_t>(d - 1), second);
    add_edge(from, d, behind_d);
    add_edge(from, static_cast<uint8_t>(d + 1), static_cast<uint8_t>(end), second);
  }
}

DfaState ByteDfas::add_json_text(bool one_spelling) {
  const DfaState text = add_text(), end = add(true), escape = add(false), unicode = add(false);
  add_edge(text, 0x20, 0x21, text);
  add_edge(text, '"', end);
  add_edge(text, 0x23, 0x5B, text);
  add_edge(text, '\\', escape);
  add_edge(text, 0x5D, 0x7F, text);
  add_multibyte(text, text);
  for (const char c : std::string_view("\"\\bfnrt")) add_edge(escape, c, text);
  add_edge(escape, 'u', unicode);
  if (!one_spelling) {
    add_edge(escape, '/', text);
    add_unicode_escapes(unicode, text);
    return text;
  }
  const DfaState low = add(false), high = add(false), tens = add(false);
  add_edge(unicode, '0', chain("0", tens));
  add_edge(tens, '0', low), add_edge(tens, '1', high);
  for (const char c : std::string_view("01234567bef")) add_edge(low, c, text);
  add_edge(high, '0', '9', text), add_edge(high, 'a', 'f', text);
  return text;
}

DfaState ByteDfas::add_gemma_text() {
  constexpr std::string_view kQuote = "<|\"|>";
  std::vector<DfaState> seen;  // bytes of the quote
  for (std::size_t i = 0; i < kQuote.size(); ++i) {
    seen.push_back(add_text());
    states_.back().accepts = true;
  }
  for (std::size_t i = 0; i < kQuote.size(); ++i) {
    for (int byte = 0; byte < 0x80; ++byte) {
      const bool goes_on = byte == kQuote[i];
      if (goes_on && i + 1 == kQuote.size()) continue;
      const DfaState to = goes_on ? seen[i + 1] : byte == kQuote[0] ? seen[1] : seen[0];
      add_edge(seen[i], static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to);
    }
    add_multibyte(seen[i], seen[0]);
  }
  return seen[0];
}

DfaState ByteDfas::chain(std::string_view bytes, DfaState end) {
  for (; !bytes.empty(); bytes.remove_suffix(1)) {
    const DfaState state = add(false);
    add_edge(state, bytes.back(), end);
    end = state;
  }
  return end;
}

DfaState ByteDfas::any_of(std::span<const std::string> words) {
  const DfaState root = add(false);
  for (const std::string& word : words) {
    CHECK(!word.empty());
    DfaState at = root;
    for (const char c : word) {
      DfaState to = step(at, static_cast<uint8_t>(c));
      if (to == kNoState) {
        to = add(false);
        states_[at].edges.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c), to});
      }
      at = to;
    }
    states_[at].accepts = true;
  }
  return root;
}

/// A tree of the forbidden keys; whatever leaves it goes on in the automaton of all keys. `model` is the
/// state there of each node.
DfaState ByteDfas::key_but(std::span<const std::string> keys) {
  if (keys.empty()) return json_key_;
  struct Branch {
    DfaState model;
    std::map<uint8_t, std::size_t> children;
  };
  std::vector<Branch> tree{{json_key_, {}}};
  for (const std::string& key : keys) {
    std::size_t at = 0;
    for (const char c : key) {
      const auto byte = static_cast<uint8_t>(c);
      const DfaState to = step(tree[at].model, byte);
      CHECK(to != kNoState);
      const auto [child, is_new] = tree[at].children.try_emplace(byte, tree.size());
      at = child->second;
      if (is_new) tree.push_back({to, {}});
    }
  }
  const auto first = static_cast<DfaState>(states_.size());
  for (const Branch& branch : tree) {
    const DfaState state = add(false);
    states_[state].base = branch.model;
    for (int byte = 0; byte < 256; ++byte) {
      const auto child = branch.children.find(static_cast<uint8_t>(byte));
      const DfaState to = step(branch.model, static_cast<uint8_t>(byte));
      if (child == branch.children.end() && to != kNoState)
        add_edge(state, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to);
      else if (child != branch.children.end() && !accepts(tree[child->second].model))
        add_edge(state, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte),
                 first + static_cast<DfaState>(child->second));
    }
  }
  return first;
}

bool ByteDfas::prune(DfaState first, DfaState start) {
  std::vector<std::vector<DfaState>> sources(states_.size() - first);
  std::vector<char> alive(states_.size() - first, 0);
  std::vector<DfaState> open;
  const auto revive = [&](DfaState state) {
    if (!alive[state - first]) open.push_back(state);
    alive[state - first] = 1;
  };
  for (DfaState state = first; state < states_.size(); ++state) {
    if (states_[state].accepts) revive(state);
    for (const Edge& edge : states_[state].edges)
      edge.to >= first ? sources[edge.to - first].push_back(state) : revive(state);
  }
  while (!open.empty()) {
    const DfaState state = open.back();
    open.pop_back();
    for (const DfaState source : sources[state - first]) revive(source);
  }
  for (DfaState state = first; state < states_.size(); ++state)
    std::erase_if(states_[state].edges,
                  [&](const Edge& edge) { return edge.to >= first && !alive[edge.to - first]; });
  return start < first || alive[start - first];
}

}  // namespace carat::grammar
