// What a Gemma 4 model writes -> answer, reasoning and tool calls, while it is being written. Works on
// tokens, since only control tokens mark the parts: text that looks like a marker is text. Used by `carat
// run` and the server.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chat/thought_markers.h"
#include "chat/tool_call_text.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace carat {

/// What has become certain with a token. Every text is valid UTF-8.
struct OutputDelta {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;  // whole ones; their index counts on over the reply
  bool empty() const { return content.empty() && reasoning.empty() && tool_calls.empty(); }
};

struct OutputOptions {
  bool tool_calls = true;  // else they are text like any other
  /// End the answer; reasoning and tool calls don't match them. (Those of an engine's request match
  /// everything.)
  std::vector<std::string> stop_strings;
};

/// One per generated sequence. However the deltas come, joined they are the same.
class OutputParser {
 public:
  /// A prompt may end inside a thought, with which the reply then goes on. Throws Error{invalid_argument} for
  /// an unusable stop string.
  OutputParser(std::shared_ptr<const Tokenizer> tokenizer, OutputOptions options,
               std::span<const int32_t> prompt);

  OutputDelta push(int32_t token);
  /// What is held back, at the end of the stream. A tool call that was cut off or can't be read is text.
  OutputDelta finish();
  /// A stop string was found in the answer; nothing more will come.
  bool stopped() const { return stopped_; }
  /// The one that was found; empty before.
  const std::string& stop_string() const { return stop_string_; }
  /// Whether a thought is open, such as for a budget of reasoning tokens.
  bool is_thinking() const { return part_ == Part::thought; }

 private:
  enum class Part { content, thought, tool_call };

  void begin(Part part);
  void end_part(OutputDelta& delta);
  /// False when it could not be read and became content.
  bool end_tool_call(OutputDelta& delta);
  void add_text(const std::string& text, OutputDelta& delta);
  void add_content(const std::string& text, OutputDelta& delta);
  void add_reasoning(const std::string& text, OutputDelta& delta);
  void note_stop(const StreamDecoder& decoder);

  std::shared_ptr<const Tokenizer> tokenizer_;
  OutputOptions options_;
  ThoughtMarkers thought_;
  int32_t call_begin_, call_end_;  // -1: not in this vocabulary
  std::vector<int32_t> ends_;      // tokens behind which nothing of a part goes on

  Part part_ = Part::content;
  std::unique_ptr<StreamDecoder> decoder_;  // of the part
  std::vector<int32_t> call_tokens_;        // of the tool call, with its first marker
  bool skips_blanks_ = false;  // content behind a thought or call begins with its first visible character
  bool in_label_ = false;      // a thought begins with the name of its channel
  std::string label_;          // the part of it that has come
  std::string held_newlines_;  // at the end of the reasoning so far
  bool stopped_ = false;
  std::string stop_string_;
};

}  // namespace carat
