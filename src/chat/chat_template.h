// Conversation -> prompt, by the checkpoint's own chat template. Used by `carat run` and the server.
// Immutable; any thread may use it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/conversation.h"
#include "chat/jinja.h"
#include "chat/marked_text.h"
#include "text/tokenizer.h"

namespace carat {

struct ChatTemplateOptions {
  int32_t bos = -1;  // every prompt begins with exactly one
  /// For the built-in format; see gemma4_template().
  bool expects_empty_thought = false;
  /// Whether the model ends its turns. Without that, and without a template of its own, it has seen none.
  bool ends_turns = true;
};

class ChatTemplate {
 public:
  /// In this order: chat_template.jinja, chat_template of tokenizer_config.json (a template, or a list of
  /// named ones), chat_template.json, the format of Gemma 4. Plain text, the messages one after another, is
  /// for a model that has never seen a turn: one without a template that doesn't end turns or lacks the turn
  /// tokens, and one whose template writes <|turn> or <turn|> though its vocabulary lacks them, of which
  /// `warn` gets a line. Throws Error{corrupt} or Error{unsupported} naming the file.
  static std::shared_ptr<const ChatTemplate> load(
      const std::filesystem::path& directory, std::shared_ptr<const Tokenizer> tokenizer,
      const ChatTemplateOptions& options, const std::function<void(const std::string& warning)>& warn = {});

  /// The prompt's text. Throws Error{invalid_argument} for what is wrong with the conversation, naming
  /// message and field, and for what the template raises, naming its file, line and column;
  /// Error{unsupported} for tools that the template doesn't show to the model.
  MarkedText render(const Conversation& conversation) const;
  /// Ids of a rendered prompt: special tokens only where the template wrote them, and exactly one bos.
  std::vector<int32_t> encode(const MarkedText& prompt) const;

  /// No turns: the model goes on with what the messages say.
  bool continues_text() const { return continues_text_; }
  /// Whether the template looks at enable_thinking.
  bool can_think() const { return can_think_; }

 private:
  struct SpecialToken {
    std::string text;
    int32_t id;
  };

  ChatTemplate(std::shared_ptr<const Tokenizer> tokenizer, const std::filesystem::path& directory,
               const ChatTemplateOptions& options);
  void add_template(std::string_view source, const std::string& name, bool for_tools);
  void read_special_tokens(const std::filesystem::path& directory);
  const SpecialToken* special_token_at(std::string_view text, std::size_t at) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatTemplateOptions options_;
  std::shared_ptr<const jinja::Template> template_, tool_template_;  // the second may be null
  jinja::Map variables_;                                             // bos_token and its like
  std::vector<SpecialToken> special_tokens_;                         // the longest first
  bool continues_text_ = false, can_think_ = false, knows_tools_ = false;
};

}  // namespace carat
