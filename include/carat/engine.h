// The C++ API: load a Gemma 4 checkpoint, ask it for any number of replies at once.
//
//   carat::Model model = carat::Model::load("google/gemma-4-E2B-it");
//   carat::Generation reply = model.chat({{"user", "Why is the sky blue?"}});
//   while (const auto chunk = reply.next()) std::cout << chunk->text << std::flush;
//
// docs/api.md has the whole story. Functions that fail throw std::runtime_error; see error.h. None blocks but
// those that say so.
#pragma once
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carat/error.h"
#include "carat/model_options.h"
#include "carat/reply.h"
#include "carat/request.h"
#include "carat/version.h"

namespace carat {
inline namespace v1 {

/// A reply on its way. Dropping it cancels it. Belongs to one thread at a time, but for cancel(). May outlive
/// its model, which ends it.
class Generation {
 public:
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;
  ~Generation();

  /// Waits for more of the reply, at most `patience` when given. None when nothing came in time or the reply
  /// has ended; finished() tells which.
  std::optional<Chunk> next(std::optional<std::chrono::milliseconds> patience = std::nullopt);
  bool finished() const;
  /// Ends the reply with the engine's next step. From any thread.
  void cancel();
  /// Reads to the end; all of the reply, from its first chunk on.
  const Completion& wait();
  /// What has been read so far. `finish`, `usage` and the times are set once finished().
  const Completion& so_far() const;

 private:
  friend class Model;
  struct State;
  explicit Generation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A loaded checkpoint and the engine that runs it: a thread of its own that computes all replies together.
/// Any thread may call any function. Requests throw ErrorCode::invalid_argument for what can't be, such as a
/// prompt that the context can't hold, and ErrorCode::unavailable when more than 1024 wait already.
class Model {
 public:
  /// Blocks until the weights are in place. `model`: a directory, or "org/name" in the Hugging Face cache.
  static Model load(const std::string& model, const ModelOptions& options = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  /// Cancels what still runs.
  ~Model();

  /// The next turn of a conversation, by the checkpoint's chat template. A model that wasn't trained on turns
  /// goes on with the texts of the messages; see is_chat_model().
  Generation chat(std::span<const Message> messages, const ReplyOptions& options = {}) const;
  Generation chat(std::initializer_list<Message> messages, const ReplyOptions& options = {}) const;
  /// The same for `messages` in the JSON of OpenAI's API, with tool calls and their results.
  Generation chat_json(std::string_view messages, const ReplyOptions& options = {}) const;
  /// Goes on with a text as it is. Special tokens written in the text are recognised; bos is added. Throws
  /// ErrorCode::invalid_argument when `options` has what is for chats: think, tools.
  Generation complete(std::string_view text, const ReplyOptions& options = {}) const;
  /// The same for token ids; bos is the caller's business.
  Generation generate(std::vector<int32_t> prompt, const ReplyOptions& options = {}) const;

  /// Token ids of a text, without bos; special tokens in it are text unless `special`.
  std::vector<int32_t> tokenize(std::string_view text, bool special = false) const;
  std::string detokenize(std::span<const int32_t> tokens) const;

  /// Whether chat() asks for a turn; else it continues text.
  bool is_chat_model() const;
  /// Whether ReplyOptions::think means anything to it.
  bool can_think() const;
  /// Tokens of the longest prompt plus reply.
  int max_context() const;
  /// Replies computed at once, as far as the memory went.
  int max_sequences() const;
  /// "cpu", "cuda:0", ...
  std::string device() const;
  /// What the device failed with, after which every reply ends with an error; empty while it works.
  std::string failure() const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace v1
}  // namespace carat
