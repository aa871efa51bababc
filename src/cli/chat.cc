// The chat of `carat run`: turns and commands from a terminal, replies as they are drawn.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/engine_setup.h"
#include "base/error.h"
#include "base/utf8.h"
#include "carat/engine.h"
#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/footer.h"
#include "cli/line_editor.h"
#include "cli/option_values.h"
#include "cli/progress.h"
#include "cli/reply_writer.h"
#include "cli/signals.h"
#include "cli/streams.h"

namespace carat {
namespace {

volatile std::sig_atomic_t interrupted = 0;

/// Where shells and their like keep such things; empty when there is no home.
std::filesystem::path history_file() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value ? value : "");
  };
  const auto state = variable("XDG_STATE_HOME"), home = variable("HOME");
  if (state.is_absolute()) return state / "carat/history";
  return home.is_absolute() ? home / ".local/state/carat/history" : std::filesystem::path();
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == text.npos ? "" : text.substr(first, last - first + 1);
}

void note(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

class Chat {
 public:
  explicit Chat(const RunOptions& options)
      : options_(options),
        model_(load(options)),
        session_(model_, options.raw, options.generation),
        editor_(history_file()),
        show_thinking_(options.show_thinking) {
    if (options.generation.think) session_.set("think", "true");  // says so when the model has no thinking
    if (options.system) session_.set_system(*options.system);
  }

  int run() {
    if (!options_.quiet) greet();
    std::string text;
    while (wanted_ && read_input(text)) {
      try {
        if (text.starts_with('/'))
          obey(text);
        else if (!text.empty())
          answer(text);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::device) throw;
        print_message(error.what());
      }
    }
    return 0;
  }

 private:
  struct Command {
    const char* name;
    const char* argument;
    const char* meaning;
    std::function<void(const std::string& argument)> act;
  };

  static Model load(const RunOptions& options) {
    ModelOptions how = model_options(options.engine);
    how.max_sequences = 1;
    how.progress = loading_bar(options.quiet);
    how.warning = warning_printer(options.quiet);
    return Model::load(options.model, how);
  }

  void greet() const {
    note(printable(options_.model) + " on " + model_.device() + ", " + std::to_string(model_.max_context()) +
         " tokens of context. " +
         (session_.chats() ? "Ask something" : "It continues text: write the beginning of one") +
         "; /help tells more, Ctrl-D leaves.");
  }

  /// A line, or several in """. False when there is nothing more to come.
  bool read_input(std::string& text) {
    std::string line;
    text.clear();
    for (bool open = false;; text += '\n') {
      switch (editor_.read(open ? "... " : ">>> ", line)) {
        case LineEditor::End::closed:
          return false;
        case LineEditor::End::interrupted:
          if (!open && line.empty()) note("/bye or Ctrl-D leaves.");
          text.clear();
          return true;
        case LineEditor::End::line:
          break;
      }
      editor_.remember(line);
      for (std::size_t at; (at = line.find("\"\"\"")) != line.npos; open = !open) line.erase(at, 3);
      text += line;
      if (!open) break;
    }
    if (session_.chats() || text.starts_with('/')) text = trimmed(text);
    return true;
  }

  void answer(const std::string& text) {
    interrupted = 0;
    catch_first(SIGINT, [](int) { interrupted = 1; });
    Generation reply = session_.reply_to(text);
    ReplyWriter writer(options_.quiet   ? Thoughts::hidden
                       : show_thinking_ ? Thoughts::shown
                                        : Thoughts::folded);
    while (!reply.finished()) {
      const auto chunk = reply.next(std::chrono::milliseconds(100));
      if (chunk) wanted_ = writer.write(chunk->text, chunk->thought) && wanted_;
      if (interrupted || !wanted_) reply.cancel();
    }
    wanted_ = writer.finish() && wanted_;
    const Completion& all = reply.so_far();
    session_.keep(all);
    catch_first(SIGINT, [](int) { interrupted = 1; });  // the first one is spent
    const auto seed = session_.options().seed;
    if (!options_.quiet)
      print_footer({all.usage.prompt_tokens, all.usage.cached_tokens, all.usage.reply_tokens,
                    all.usage.drafted_tokens, all.usage.accepted_tokens, all.first_token_s, all.total_s,
                    all.finish, seed ? "seed " + std::to_string(*seed) : ""});
    if (all.finish != FinishReason::error) return;
    if (const std::string device = model_.failure(); !device.empty()) fail(ErrorKind::device, device);
    print_message(all.error);
  }

  void obey(const std::string& line) {
    const std::size_t end = std::min(line.find_first_of(" \n"), line.size());
    const std::string name = line.substr(0, end), argument = trimmed(line.substr(end));
    std::vector<std::string> names;
    for (const Command& command : commands()) {
      if (name == command.name) {
        if (!argument.empty() && !*command.argument)
          fail(ErrorKind::invalid_argument, name, " stands alone, without ", in_quotes(argument, 40));
        return command.act(argument);
      }
      names.emplace_back(command.name);
    }
    const std::string near = nearest(name, names);
    fail(ErrorKind::invalid_argument, "no command ", in_quotes(name, 40),
         near.empty() ? "" : " (did you mean " + near + "?)", "; /help lists them");
  }

  std::vector<Command> commands() {
    return {{"/set", "NAME VALUE", "how replies are drawn: /set temperature 0.7; without NAME lists all",
             [this](const std::string& argument) { set(argument); }},
            {"/show", "", "the model, the settings and the conversation's length",
             [this](const std::string&) { show(); }},
            {"/system", "TEXT", "what the model is told before the conversation",
             [this](const std::string& argument) { set_system(argument); }},
            {"/clear", "", "begin a new conversation", [this](const std::string&) { clear(); }},
            {"/save", "FILE", "write the conversation, as JSON",
             [this](const std::string& argument) { save(file_of(argument)); }},
            {"/load", "FILE", "go on with a conversation that was saved",
             [this](const std::string& argument) { load(file_of(argument)); }},
            {"/bye", "", "leave, as Ctrl-D does", [this](const std::string&) { wanted_ = false; }},
            {"/help", "", "this list", [this](const std::string&) { help(); }}};
  }

  static std::string file_of(const std::string& argument) {
    if (argument.empty()) fail(ErrorKind::invalid_argument, "needs the name of a file");
    return argument;
  }

  void set(const std::string& argument) {
    const std::size_t end = argument.find_first_of(" \t");
    if (argument.empty()) {
      note(session_.settings() + shown_thinking());
    } else if (end == argument.npos) {
      fail(ErrorKind::invalid_argument, "/set ", printable(argument, 40),
           " needs a value; \"default\" undoes it");
    } else {
      const std::string name = argument.substr(0, end), value = trimmed(argument.substr(end));
      if (name != "show_thinking") {
        session_.set(name, value);
        return note(trimmed(session_.settings(name)));
      }
      if (value != "on" && value != "off")
        fail(ErrorKind::invalid_argument, "show_thinking must be on or off");
      show_thinking_ = value == "on";
      note(shown_thinking());
    }
  }
  std::string shown_thinking() const {
    return std::string("show_thinking      ") + (show_thinking_ ? "on" : "off");
  }

  void set_system(const std::string& text) {
    session_.set_system(text);
    note(text.empty() ? "no system message any more" : "the system message counts from the next turn on");
  }

  void clear() {
    const std::string forgotten = counted_turns();
    session_.clear();
    note("a new conversation; " + forgotten + " forgotten" +
         (session_.system().empty() ? "" : ", the system message stays"));
  }

  void save(const std::string& file) {
    std::error_code error;
    if (std::filesystem::exists(std::filesystem::symlink_status(file, error)) &&
        !agrees(printable(file) + " exists; replace it?"))
      return note("not saved");
    session_.save(file);
    note(counted_turns() + " saved in " + printable(file));
  }

  void load(const std::string& file) {
    if (session_.is_unsaved() && !agrees(counted_turns() + " not saved; drop what was said?"))
      return note("not loaded");
    session_.load(file);
    note(counted_turns() + " loaded from " + printable(file));
  }

  std::string counted_turns() const {
    const std::size_t turns = session_.turns();
    return std::to_string(turns) + (turns == 1 ? " turn" : " turns");
  }

  /// Anything but y and yes is no.
  bool agrees(const std::string& question) {
    std::string line;
    const bool answered = editor_.read(question + " [y/N] ", line) == LineEditor::End::line;
    const std::string word = trimmed(line);
    return answered && (word == "y" || word == "yes" || word == "Y");
  }

  void show() const {
    note("model              " + printable(options_.model) + " on " + model_.device());
    note("context            " + std::to_string(model_.max_context()) + " tokens");
    note("turns              " + std::to_string(session_.turns()));
    if (!session_.system().empty()) note("system             " + printable(session_.system(), 200));
    note(session_.settings() + shown_thinking());
  }

  void help() {
    for (const Command& command : commands()) {
      const std::string usage = std::string(command.name) + " " + command.argument;
      std::fprintf(stderr, "%-18s %s\n", usage.c_str(), command.meaning);
    }
    note(
        "\"\"\" begins and ends a text of several lines. Ctrl-C stops a reply; a second one before it has "
        "stopped ends the program.");
  }

  RunOptions options_;
  Model model_;
  ChatSession session_;
  LineEditor editor_;
  bool show_thinking_;
  bool wanted_ = true;
};

}  // namespace

int chat_command(const RunOptions& options) { return Chat(options).run(); }

}  // namespace carat
