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
  /// `chats`: whether turns go through the chat template; else the model continues one text, which grows.
  ChatSession(const Model& model, bool chats, ReplyOptions options);

  bool chats() const { return chats_; }
  const ReplyOptions& options() const { return options_; }
  /// Turns of the user and the model.
  std::size_t turns() const;

  /// The model's reply to `text`, which becomes the user's turn. Throws as Model::chat() does; the
  /// conversation is then as before.
  Generation reply_to(const std::string& text);
  /// What came of it, as far as it came, becomes the model's turn.
  void keep(const Completion& reply);

  /// Starts anew; the system's message stays.
  void clear();
  /// What the model is told before the conversation; empty for nothing. Throws Error{unsupported} when it
  /// doesn't chat.
  void set_system(const std::string& text);
  std::string system() const;

  /// Settings by the names of the command line: temperature, top_k, ... Throws Error{invalid_argument} for an
  /// unknown name or a value that can't be.
  void set(std::string_view name, std::string value);
  /// "temperature   0.7" and so on, a line each.
  std::string settings() const;

  /// The conversation as the JSON of OpenAI's messages. A file is replaced as a whole. Throw
  /// Error{unavailable}, Error{not_found}, Error{corrupt}; load() Error{unsupported} for roles that a text
  /// which is only continued doesn't have.
  void save(const std::filesystem::path& file) const;
  void load(const std::filesystem::path& file);

 private:
  const Model& model_;
  bool chats_;
  ReplyOptions options_;
  std::vector<Message> messages_;  // without a chat template: pieces of one text
};

}  // namespace carat
