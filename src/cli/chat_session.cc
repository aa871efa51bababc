#include "cli/chat_session.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/option_values.h"
#include "cli/streams.h"

namespace carat {
namespace {

constexpr const char* kDefault = "the checkpoint's";

struct Setting {
  const char* name;
  ValueCheck check;
  std::function<void(ReplyOptions&, const std::string&)> set;  // a value that passed the check
  std::function<std::string(const ReplyOptions&)> show;
};

/// A checked value, or none for "default".
template <class T>
std::optional<T> parsed(const std::string& text) {
  if (text == "default") return std::nullopt;
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

template <class T>
std::string shown(T value) {
  if constexpr (std::is_integral_v<T>) return std::to_string(value);
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
  return text;
}

/// A setting that is a member of ReplyOptions: T, or std::optional<T> where the checkpoint has a
/// default.
template <class T>
Setting optional_setting(const char* name, ValueCheck check, std::optional<T> ReplyOptions::* member,
                         const char* unset = kDefault) {
  return {name,
          [check = std::move(check)](std::string& text) { return text == "default" ? "" : check(text); },
          [member](ReplyOptions& o, const std::string& text) { o.*member = parsed<T>(text); },
          [member, unset](const ReplyOptions& o) { return o.*member ? shown(*(o.*member)) : unset; }};
}

template <class T>
Setting plain_setting(const char* name, ValueCheck check, T ReplyOptions::* member) {
  return {name, std::move(check),
          [member](ReplyOptions& o, const std::string& text) { o.*member = *parsed<T>(text); },
          [member](const ReplyOptions& o) { return shown(o.*member); }};
}

const std::vector<Setting>& all_settings() {
  using Options = ReplyOptions;
  constexpr int kMost = 1 << 30;
  static const std::vector<Setting> settings{
      optional_setting<float>("temperature", real_number(0, 1e4), &Options::temperature),
      optional_setting<int>("top_k", whole_number(0, kMost), &Options::top_k),
      optional_setting<float>("top_p", real_number(0, 1), &Options::top_p),
      optional_setting<float>("min_p", real_number(0, 1), &Options::min_p),
      optional_setting<float>("repeat_penalty", real_number(1e-3, 1e3), &Options::repetition_penalty),
      plain_setting<float>("presence_penalty", real_number(-2, 2), &Options::presence_penalty),
      plain_setting<float>("frequency_penalty", real_number(-2, 2), &Options::frequency_penalty),
      plain_setting<int>("max_tokens", whole_number(1, kMost), &Options::max_tokens),
      optional_setting<uint64_t>("seed", seed_number(), &Options::seed, "random"),
      {"think", truth_value(), [](Options& o, const std::string& text) { o.think = text == "true"; },
       [](const Options& o) { return std::string(o.think ? "on" : "off"); }}};
  return settings;
}

/// The file that a chain of links leads to, which need not exist.
std::filesystem::path end_of_links(const std::filesystem::path& link) {
  constexpr int kMostLinks = 40;  // the system's own limit
  std::filesystem::path file = link;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(file, error); ++links) {
    if (links == kMostLinks) fail(ErrorKind::unavailable, link.string(), ": ", std::strerror(ELOOP));
    file = file.parent_path() / std::filesystem::read_symlink(file, error);
  }
  return file;
}

/// Writes beside it first. A link stays one.
void replace_file(const std::filesystem::path& link, std::string_view text) {
  std::error_code error;
  const std::filesystem::path file = end_of_links(link);
  const std::string name = file.string(), part = name + ".part";
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))
    fail(ErrorKind::unavailable, name, ": not a regular file");
  std::FILE* const out = std::fopen(part.c_str(), "wbx");
  if (!out && errno == EEXIST) fail(ErrorKind::unavailable, part, ": is in the way; move it elsewhere");
  if (!out) fail(ErrorKind::unavailable, name, ": ", std::strerror(errno));
  bool done = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  done = std::fclose(out) == 0 && done;
  if (done && std::rename(part.c_str(), name.c_str()) == 0) return;
  const int why = errno;
  std::remove(part.c_str());
  fail(ErrorKind::unavailable, name, ": can't be written: ", std::strerror(why));
}

}  // namespace

ChatSession::ChatSession(const Model& model, bool raw, ReplyOptions options)
    : model_(model), raw_(raw), options_(std::move(options)) {}

std::size_t ChatSession::turns() const {
  return static_cast<std::size_t>(std::ranges::count(messages_, "user", &Message::role));
}

Generation ChatSession::reply_to(const std::string& text) {
  messages_.push_back({"user", text});
  try {
    if (!raw_) return model_.chat(messages_, options_);
    std::string whole;
    for (const Message& piece : messages_) whole += piece.content;
    return model_.complete(whole, options_);
  } catch (...) {
    messages_.pop_back();
    throw;
  }
}

void ChatSession::keep(const Completion& reply) {
  messages_.push_back({"assistant", reply.text});
  is_unsaved_ = true;
}

void ChatSession::clear() {
  const std::string kept = system();
  messages_.clear();
  is_unsaved_ = false;
  if (!kept.empty()) set_system(kept);
}

void ChatSession::set_system(const std::string& text) {
  if (raw_) fail(ErrorKind::unsupported, "--raw continues text, which has no system message");
  if (!system().empty()) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), {"system", text});
}

std::string ChatSession::system() const {
  const bool has = !messages_.empty() && messages_.front().role == "system";
  return has ? messages_.front().content : "";
}

void ChatSession::set(std::string_view name, std::string value) {
  const auto& settings = all_settings();
  const auto setting = std::ranges::find_if(settings, [&](const Setting& s) { return name == s.name; });
  if (setting == settings.end()) {
    std::vector<std::string> names;
    for (const Setting& s : settings) names.emplace_back(s.name);
    const std::string near = nearest(name, names);
    fail(ErrorKind::invalid_argument, "no setting ", in_quotes(name, 40),
         near.empty() ? "" : " (did you mean " + near + "?)", "; /set lists them");
  }
  if (const std::string wrong = setting->check(value); !wrong.empty())
    fail(ErrorKind::invalid_argument, name, " ", wrong);
  if (name == "think" && value == "true" && (raw_ || !model_.can_think()))
    fail(ErrorKind::invalid_argument, "this model has no thinking");
  setting->set(options_, value);
}

std::string ChatSession::settings(std::string_view name) const {
  std::string text;
  for (const Setting& setting : all_settings()) {
    if (!name.empty() && name != setting.name) continue;
    char line[128];
    std::snprintf(line, sizeof line, "%-18s %s\n", setting.name, setting.show(options_).c_str());
    text += line;
  }
  return text;
}

void ChatSession::save(const std::filesystem::path& file) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Message& message : messages_)
    list.push_back({{"role", message.role}, {"content", message.content}});
  replace_file(file, list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  is_unsaved_ = false;
}

void ChatSession::load(const std::filesystem::path& file) {
  const auto list = nlohmann::json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) fail(ErrorKind::corrupt, file.string(), ": not a list of messages");
  std::vector<Message> messages;
  for (const auto& message : list) {
    const bool whole = message.is_object() && message.contains("role") && message["role"].is_string() &&
                       message.contains("content") && message["content"].is_string();
    if (!whole)
      fail(ErrorKind::corrupt, file.string(), ": message ", messages.size(),
           " needs a role and a content, both texts");
    messages.push_back({message["role"], message["content"]});
    const std::string& role = messages.back().role;
    if (raw_ && role != "user" && role != "assistant")
      fail(ErrorKind::unsupported, file.string(), ": message ", messages.size() - 1, " is of ",
           in_quotes(role, 40), "; --raw continues text, which only user and assistant write");
  }
  messages_ = std::move(messages);
  is_unsaved_ = false;
}

}  // namespace carat
