// How values are written: as JSON, or in the notation of Gemma's tool calls. Builds pieces of a program, from
// the end to the beginning: each function takes the node that follows and returns where its piece begins.
// Used by json_schema.h and grammar_compiler.cc.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/number_dfa.h"
#include "grammar/program.h"

namespace carat::grammar {

class Notation {
 public:
  explicit Notation(Program& program) : program_(program) {}
  virtual ~Notation() = default;

  virtual Node text(uint32_t least, uint32_t most, Node next) = 0;
  /// One of these, which are UTF-8.
  virtual Node one_text_of(const std::vector<std::string>& texts, Node next) = 0;
  /// Throws std::invalid_argument as add_pattern() does.
  virtual Node pattern(const std::string& pattern, uint32_t least, uint32_t most, Node next) = 0;
  /// The name of a member and its colon. Throws std::invalid_argument for one that can't be written.
  virtual Node key(const std::string& name, Node value) = 0;
  /// Any name but these, and a colon.
  virtual Node key_but(const std::vector<std::string>& names, Node value) = 0;

  /// One of these words, such as numbers and constants.
  Node word(const std::vector<std::string>& words, Node next) {
    return program_.match(program_.dfas().any_of(words), next);
  }
  Node number(const NumberRange& range, Node next);

  // Brackets and commas, with the blanks that may stand beside them.
  Node open(char bracket, Node next) { return punctuation(bracket, Blanks::behind, next); }
  Node close(char bracket, Node next) { return punctuation(bracket, Blanks::before, next); }
  Node comma(Node next) { return punctuation(',', Blanks::behind, next); }
  /// Both brackets and nothing between them.
  Node empty(std::string_view brackets, Node next) {
    return program_.match(program_.dfas().chain(brackets, accepting()), next);
  }

  Program& program() { return program_; }

 protected:
  enum class Blanks { before, behind };
  /// The first state of an automaton for `c` with blanks.
  virtual DfaState add_punctuation(char c, Blanks blanks) = 0;
  /// A state that accepts and leads nowhere.
  DfaState accepting();

 private:
  Node punctuation(char c, Blanks blanks, Node next);

  Program& program_;
  std::optional<DfaState> accepting_, any_number_, any_integer_;
  std::map<std::pair<char, Blanks>, DfaState> punctuation_;
};

/// Blanks are optional and bounded, so that no reply consists of them: one space, or a line end and up to 40
/// spaces, behind brackets and commas and before closing brackets; one space behind a colon.
std::unique_ptr<Notation> json_notation(Program& program);
/// {name:<|"|>text<|"|>,other:[1,true]} without any blanks. `quote` is the token <|"|>.
std::unique_ptr<Notation> gemma_notation(Program& program, int32_t quote);

}  // namespace carat::grammar
