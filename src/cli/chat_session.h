// What the chat of `carat run` remembers: the conversation, and how replies are drawn. Knows no terminal.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "carat/engine.h"

namespace carat {

class ChatSession {
 public:
  /// `raw`: nothing stands between the turns, which are pieces of one text; else they go through the chat
  /// template.
  ChatSession(const Model& model, bool raw, ReplyOptions options);

  /// Whether the model answers; else it goes on with what is written.
  bool chats() const { return !raw_ && model_.is_chat_model(); }
  const ReplyOptions& options() const { return options_; }
  /// What the user has said and the model's replies to it count as one.
  std::size_t turns() const;
  /// Whether there are turns that save() has not written.
  bool is_unsaved() const { return is_unsaved_; }

  /// The model's reply to `text`, which becomes the user's turn. Throws as Model::chat() does; the
  /// conversation is then as before.
  Generation reply_to(const std::string& text);
  /// What came of it, as far as it came, becomes the model's turn.
  void keep(const Completion& reply);

  /// Starts anew; the system's message stays.
  void clear();
  /// What the model is told before the conversation; empty for nothing. Throws Error{unsupported} for a raw
  /// text.
  void set_system(const std::string& text);
  std::string system() const;

  /// Settings by the names of the command line: temperature, top_k, ... Throws Error{invalid_argument} for an
  /// unknown name or a value that can't be.
  void set(std::string_view name, std::string value);
  /// "temperature   0.7" and so on, a line each: of the setting `name`, or of all.
  std::string settings(std::string_view name = {}) const;

  /// The conversation as the JSON of OpenAI's messages. A file is replaced as a whole or stays as it is.
  /// Throw Error{unavailable}, Error{not_found}, Error{corrupt}; load() Error{unsupported} for roles that a
  /// raw text doesn't have.
  void save(const std::filesystem::path& file);
  void load(const std::filesystem::path& file);

 private:
  const Model& model_;
  bool raw_;
  ReplyOptions options_;
  std::vector<Message> messages_;
  bool is_unsaved_ = false;
};

}  // namespace carat
