#include "cli/line_editor.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace carat {
namespace {

constexpr std::size_t kMostHistory = 1000;
constexpr int kControlC = 3, kControlD = 4, kEscape = 27, kBackspace = 127;
constexpr int control(char letter) { return letter & 0x1F; }

void show(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

int terminal_columns() {
  struct winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

/// Keys arrive one by one and unechoed, pasted text between marks, as long as it lives.
class LineEditor::RawTerminal {
 public:
  RawTerminal() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0 || !::isatty(STDERR_FILENO))
      fail(ErrorKind::unavailable, "editing a line needs a terminal");
    termios raw = before_;
    raw.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    show("\x1b[?2004h");
  }
  ~RawTerminal() {
    show("\x1b[?2004l");
    std::fflush(stderr);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
};

LineEditor::LineEditor(std::filesystem::path history) : file_(std::move(history)) {
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line);) history_.push_back(line);
  if (history_.size() > kMostHistory)
    history_.erase(history_.begin(), history_.end() - static_cast<std::ptrdiff_t>(kMostHistory));
}

void LineEditor::remember(const std::string& line) {
  if (line.empty() || (!history_.empty() && history_.back() == line)) return;
  history_.push_back(line);
  if (file_.empty() || line.find('\n') != line.npos) return;
  std::error_code ignored;  // without a place to write, the history ends with the program
  std::filesystem::create_directories(file_.parent_path(), ignored);
  std::ofstream(file_, std::ios::app) << line << '\n';
  std::filesystem::permissions(
      file_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, ignored);
}

int LineEditor::next_byte() {
  while (read_at_ == unread_.size()) {
    char buffer[4096];
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return -1;
    unread_.assign(buffer, static_cast<std::size_t>(count));
    read_at_ = 0;
  }
  return static_cast<unsigned char>(unread_[read_at_++]);
}

LineEditor::End LineEditor::read(const std::string& prompt, std::string& line) {
  const RawTerminal terminal;
  prompt_ = prompt;
  line_.set({});
  new_line_.clear();
  recalled_ = history_.size();
  for (;;) {
    if (read_at_ == unread_.size()) draw();  // not while typed ahead keys are waiting
    const int byte = next_byte();
    const std::optional<End> end = byte < 0 ? End::closed : press(byte);
    if (!end) continue;
    line_.move_end();
    draw();
    show(*end == End::interrupted ? "^C\r\n" : "\r\n");
    line = line_.text();
    return *end;
  }
}

/// Why the line ends with this key, if it does.
std::optional<LineEditor::End> LineEditor::press(int byte) {
  switch (byte) {
    case '\r':
    case '\n':
      return End::line;
    case kControlC:
      return End::interrupted;
    case kControlD:
      if (line_.text().empty()) return End::closed;
      line_.erase_after();
      break;
    case kBackspace:
    case control('h'):
      line_.erase_before();
      break;
    case control('a'):
      line_.move_home();
      break;
    case control('e'):
      line_.move_end();
      break;
    case control('b'):
      line_.move_left();
      break;
    case control('f'):
      line_.move_right();
      break;
    case control('k'):
      line_.erase_to_end();
      break;
    case control('u'):
      line_.erase_to_start();
      break;
    case control('w'):
      line_.erase_word_before();
      break;
    case control('p'):
      recall(-1);
      break;
    case control('n'):
      recall(1);
      break;
    case control('l'):
      show("\x1b[H\x1b[2J");
      break;
    case kEscape:
      press_escape();
      break;
    case '\t':
      line_.insert(" ");
      break;
    default:
      if (byte >= ' ') insert_character(byte);
  }
  return std::nullopt;
}

/// A character of one or more bytes; what is no UTF-8 is left out.
void LineEditor::insert_character(int first) {
  std::string character(1, static_cast<char>(first));
  while (scan_utf8(character, 0).state == Utf8Scan::State::cut) {
    const int byte = next_byte();
    if (byte < 0) return;
    character += static_cast<char>(byte);
  }
  if (scan_utf8(character, 0).state == Utf8Scan::State::whole) line_.insert(character);
}

/// ESC [ parameters final, ESC O final, or ESC and a key.
void LineEditor::press_escape() {
  const int kind = next_byte();
  if (kind == 'b') return line_.move_word_left();
  if (kind == 'f') return line_.move_word_right();
  if (kind == kBackspace) return line_.erase_word_before();
  if (kind != '[' && kind != 'O') return;
  std::string parameters;
  int byte = next_byte();
  for (; byte >= 0x20 && byte < 0x40; byte = next_byte()) parameters += static_cast<char>(byte);
  if (byte >= 0) press_sequence(parameters, static_cast<char>(byte));
}

void LineEditor::press_sequence(const std::string& parameters, char final_byte) {
  const bool by_words = parameters == "1;5" || parameters == "1;3";  // with Ctrl or Alt
  switch (final_byte) {
    case 'A':
      return recall(-1);
    case 'B':
      return recall(1);
    case 'C':
      return by_words ? line_.move_word_right() : line_.move_right();
    case 'D':
      return by_words ? line_.move_word_left() : line_.move_left();
    case 'H':
      return line_.move_home();
    case 'F':
      return line_.move_end();
    case '~':
      if (parameters == "1" || parameters == "7") line_.move_home();
      if (parameters == "4" || parameters == "8") line_.move_end();
      if (parameters == "3") line_.erase_after();
      if (parameters == "200") paste();
      return;
    default:
      return;
  }
}

/// All up to the mark that ends a paste, newlines included.
void LineEditor::paste() {
  constexpr std::string_view kMark = "\x1b[201~";
  std::string text;
  for (int byte; !text.ends_with(kMark) && (byte = next_byte()) >= 0;)
    text += static_cast<char>(byte == '\r' ? '\n' : byte);
  if (text.ends_with(kMark)) text.erase(text.size() - kMark.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Scan scan = scan_utf8(text, at);
    const std::string_view character = std::string_view(text).substr(at, scan.bytes);
    const bool is_control = character[0] >= 0 && character[0] < ' ' && character[0] != '\n';
    if (scan.state == Utf8Scan::State::whole) line_.insert(is_control ? " " : character);
    at += scan.bytes;
  }
}

void LineEditor::recall(int step) {
  const std::size_t to = recalled_ + static_cast<std::size_t>(step);  // wraps below 0
  if (to > history_.size()) return;
  if (recalled_ == history_.size()) new_line_ = line_.text();
  recalled_ = to;
  line_.set(to == history_.size() ? new_line_ : history_[to]);
}

void LineEditor::draw() {
  const int prompt_columns = display_width(prompt_);
  const LineBuffer::View view = line_.view(terminal_columns() - prompt_columns);
  show("\r" + prompt_ + view.text + "\x1b[K\r");
  const int column = prompt_columns + view.cursor;
  if (column > 0) show("\x1b[" + std::to_string(column) + "C");
  std::fflush(stderr);
}

}  // namespace carat
