#include "cli/help.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace carat {
namespace {

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(30); }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = "\nUsage: " + (name.empty() ? app->get_name() : name);
    if (!app->get_subcommands(nullptr).empty()) usage += " COMMAND";
    for (const CLI::Option* option : app->get_options(is_shown_positional)) {
      usage += " " + (option->get_group() == kNeeded ? option->get_name() : make_option_usage(option));
    }
    return usage + " [OPTIONS]\n\n";
  }

  std::string make_positionals(const CLI::App* app) const override {
    const std::vector<const CLI::Option*> options = app->get_options(is_shown_positional);
    std::string text;
    for (const CLI::Option* option : options) text += make_option(option, true);
    return options.empty() ? text : text + "\n";
  }

  /// make_groups() puts a blank line behind each but the last.
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = group + ":\n";
    for (const CLI::Option* option : options) text += make_option(option, is_positional);
    return text;
  }

  /// "-n, --max-tokens N": the first name of each kind; the others are for users of other programs.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return option->get_name(true, false);
    const auto& shorts = option->get_snames();
    const auto& longs = option->get_lnames();
    std::string name = shorts.empty() ? "    " : "-" + shorts.front() + (longs.empty() ? "" : ", ");
    return longs.empty() ? name : name + "--" + longs.front();
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    const bool flag = option->get_type_size() == 0;
    return flag || option->get_positional() ? "" : " " + option->get_type_name();
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string initial = option->get_default_str();
    return option->get_description() + (initial.empty() ? "" : " (default: " + initial + ")");
  }

 private:
  static bool is_shown_positional(const CLI::Option* option) {
    return option->get_positional() && !option->get_group().empty();
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace carat
