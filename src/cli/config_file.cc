#include "cli/config_file.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/streams.h"

namespace carat {
namespace {

class ConfigParser {
 public:
  ConfigParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  std::vector<ConfigOption> parse() {
    std::vector<ConfigOption> options;
    for (skip_lines(); at_ < text_.size(); skip_lines()) {
      options.push_back(parse_option());
      skip_blanks();
      if (at_ < text_.size() && text_[at_] != '\n')
        reject("unexpected ", in_quotes(rest_of_line(), 60),
               " behind the value; a text with blanks or commas needs quotes, several values a list such as "
               "[0, 1]");
    }
    return options;
  }

 private:
  ConfigOption parse_option() {
    const std::string whole = rest_of_line();
    if (whole.front() == '[') reject("there are no sections here: ", in_quotes(whole, 60));
    ConfigOption option{take_word("="), {}, line_};
    skip_blanks();
    if (option.name.empty() || peek() != '=')
      reject(in_quotes(whole, 60), " is not of the form name = value");
    ++at_;
    skip_blanks();
    if (peek() == '[')
      option.values = parse_list();
    else
      option.values.push_back(parse_value());
    return option;
  }

  std::vector<std::string> parse_list() {
    std::vector<std::string> values;
    ++at_;
    for (skip_lines(); peek() != ']'; skip_lines()) {
      values.push_back(parse_value());
      skip_lines();
      if (peek() != ',' && peek() != ']') reject("a list needs a comma or its closing bracket here");
      if (peek() == ',') ++at_;
    }
    if (values.empty()) reject("an empty list says nothing; leave the line out");
    ++at_;
    return values;
  }

  std::string parse_value() {
    if (const char quote = peek(); quote == '"' || quote == '\'') return parse_quoted(quote);
    std::string value = take_word(",]");
    if (value.empty()) reject("a value is missing");
    return value;
  }

  /// Between single quotes a backslash is one.
  std::string parse_quoted(char quote) {
    const std::string whole = rest_of_line();
    std::string value;
    for (++at_; peek() != quote; ++at_) {
      if (peek() == '\n' || peek() == '\0') reject(in_quotes(whole, 60), " has no closing quote");
      if (quote == '"' && peek() == '\\') {
        ++at_;
        if (peek() != '"' && peek() != '\\') reject("a backslash stands before \" and \\ alone; use '...'");
      }
      value += peek();
    }
    ++at_;
    return value;
  }

  /// Up to a blank, the end of the line or one of `ends`.
  std::string take_word(std::string_view ends) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_blank(text_[at_]) && text_[at_] != '\n' &&
           ends.find(text_[at_]) == ends.npos)
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// Blanks and a comment, which begins a line or stands behind a blank: keys may have the sign.
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    const bool apart = at_ == 0 || text_[at_ - 1] == '\n' || is_blank(text_[at_ - 1]);
    if (peek() == '#' && apart) at_ = std::min(text_.find('\n', at_), text_.size());
  }
  void skip_lines() {
    for (skip_blanks(); peek() == '\n'; skip_blanks()) {
      ++at_;
      ++line_;
    }
  }

  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  /// '\0' at the end.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::string rest_of_line() const {
    std::string_view rest = text_.substr(at_, text_.find('\n', at_) - at_);
    while (!rest.empty() && is_blank(rest.back())) rest.remove_suffix(1);
    return std::string(rest);
  }

  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    fail(ErrorKind::invalid_argument, name_, ", line ", line_, ": ", parts...);
  }

  const std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
};

/// Empty when it is not set.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The file that is named last; empty when there is none.
std::string config_path(const std::vector<std::string>& words) {
  std::string path = variable("CARAT_CONFIG");
  const std::string with_value = std::string(kConfigFlag) + "=";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kConfigFlag && i + 1 < words.size()) path = words[i + 1];
    if (words[i].starts_with(with_value)) path = words[i].substr(with_value.size());
  }
  return path;
}

/// A message about flags, for a file that has none.
std::string without_dashes(std::string message) {
  if (message.starts_with("--")) message.erase(0, 2);
  for (const char* const before : {"\"--", "mean --", "with --"})
    if (const std::size_t at = message.find(before); at != message.npos)
      message.erase(message.find("--", at), 2);
  return message;
}

/// The option as words of a command line.
std::vector<std::string> words_of(const ConfigOption& option) {
  std::vector<std::string> words;
  for (const std::string& value : option.values) words.push_back("--" + option.name + "=" + value);
  return words;
}

}  // namespace

std::vector<ConfigOption> parse_config(std::string_view text, const std::string& name) {
  return ConfigParser(text, name).parse();
}

std::vector<std::string> with_config_file(const std::vector<std::string>& words, const CommandFacts& facts,
                                          std::string& model) {
  const std::string path = config_path(words);
  if (path.empty() || words.empty()) return words;
  std::vector<std::string> result = words;
  auto end_of_file = result.begin() + 1;  // of its options
  for (const ConfigOption& option : parse_config(read_file(path), path)) {
    const auto reject = [&](const std::string& wrong) {
      fail(ErrorKind::invalid_argument, path, ", line ", option.line, ": ", without_dashes(wrong),
           "; see carat ", words.front(), " --help");
    };
    const bool is_model = option.name == "model";
    if (option.name == "config" || option.name == "help") reject("has no meaning in a file: " + option.name);
    if (option.values.size() > 1 && (is_model || facts.takes_one_value(option.name)))
      reject(option.name + " takes one value, not " + std::to_string(option.values.size()));
    if (is_model && option.values.front().empty()) reject("model: is empty");
    if (is_model && variable("CARAT_MODEL").empty()) model = option.values.front();
    if (is_model || facts.is_said(option.name)) continue;
    for (const std::string& word : words_of(option)) {
      end_of_file = result.insert(end_of_file, word) + 1;
      if (const std::string wrong = facts.objection(result); !wrong.empty()) reject(wrong);
    }
  }
  return result;
}

}  // namespace carat
