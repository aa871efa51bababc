#include "chat/output_parser.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "chat/python_text.h"

namespace carat {
namespace {

/// The name of the channel, followed by a newline, which models also write as a blank.
constexpr std::string_view kLabel = "thought";

}  // namespace

OutputParser::OutputParser(std::shared_ptr<const Tokenizer> tokenizer, OutputOptions options,
                           std::span<const int32_t> prompt)
    : tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      thought_(*tokenizer_),
      call_begin_(tokenizer_->find("<|tool_call>")),
      call_end_(tokenizer_->find("<tool_call|>")) {
  for (const char* const end : {"<turn|>", "<|turn>", "<|tool_response>", "<eos>"})
    if (const int32_t id = tokenizer_->find(end); id >= 0) ends_.push_back(id);
  begin(Part::content);
  if (const auto open = thought_.open_thought(prompt))
    for (const int32_t id : prompt.subspan(*open)) push(id);
}

void OutputParser::begin(Part part) {
  part_ = part;
  decoder_ = std::make_unique<StreamDecoder>(
      tokenizer_, part == Part::content ? options_.stop_strings : std::vector<std::string>{}, true);
  in_label_ = part == Part::thought;
  label_.clear();
  held_newlines_.clear();
  call_tokens_.clear();
}

OutputDelta OutputParser::push(int32_t token) {
  OutputDelta delta;
  if (stopped_) return delta;
  const bool begins_call = token == call_begin_ && options_.tool_calls && token >= 0;
  if (begins_call || (token == thought_.begin && token >= 0 && part_ != Part::tool_call)) {
    end_part(delta);
    if (!stopped_) begin(begins_call ? Part::tool_call : Part::thought);
    if (begins_call) call_tokens_.push_back(token);
  } else if (part_ == Part::tool_call) {
    const bool is_end = std::ranges::find(ends_, token) != ends_.end();
    if (!is_end) call_tokens_.push_back(token);
    if (is_end || token == call_end_) end_part(delta);
  } else if (part_ == Part::thought &&
             (token == thought_.end || std::ranges::find(ends_, token) != ends_.end())) {
    end_part(delta);
  } else {
    add_text(decoder_->push(token), delta);
    note_stop(*decoder_);
  }
  return delta;
}

OutputDelta OutputParser::finish() {
  OutputDelta delta;
  if (!stopped_) end_part(delta);
  return delta;
}

/// Flushes the part and goes on with content.
void OutputParser::end_part(OutputDelta& delta) {
  bool was_marked = part_ != Part::content;
  if (part_ == Part::tool_call) {
    was_marked = end_tool_call(delta);
  } else {
    add_text(decoder_->finish(), delta);
    note_stop(*decoder_);
    if (in_label_ && label_ != kLabel) add_reasoning(label_, delta);
  }
  begin(Part::content);
  skips_blanks_ |= was_marked;
}

bool OutputParser::end_tool_call(OutputDelta& delta) {
  const std::span<const int32_t> all = call_tokens_;
  const bool closed = all.back() == call_end_;
  const std::string inside = tokenizer_->decode(all.subspan(1, all.size() - 1 - (closed ? 1 : 0)), false);
  if (auto calls = parse_tool_calls(inside)) {
    delta.tool_calls.insert(delta.tool_calls.end(), std::make_move_iterator(calls->begin()),
                            std::make_move_iterator(calls->end()));
    return true;
  }
  StreamDecoder decoder(tokenizer_, options_.stop_strings, false);
  for (const int32_t token : all) add_content(decoder.push(token), delta);
  add_content(decoder.finish(), delta);
  note_stop(decoder);
  return false;
}

void OutputParser::add_text(const std::string& text, OutputDelta& delta) {
  if (part_ == Part::content) return add_content(text, delta);
  if (!in_label_) return add_reasoning(text, delta);
  label_ += text;
  if (label_.size() <= kLabel.size() && kLabel.starts_with(label_)) return;
  in_label_ = false;
  std::string rest = std::exchange(label_, {});
  if (rest.starts_with(kLabel) && (rest[kLabel.size()] == '\n' || rest[kLabel.size()] == ' '))
    rest.erase(0, kLabel.size() + 1);
  add_reasoning(rest, delta);
}

void OutputParser::add_content(const std::string& text, OutputDelta& delta) {
  std::string_view visible = text;
  if (skips_blanks_) visible = strip_left(visible);
  if (!visible.empty()) skips_blanks_ = false;
  delta.content += visible;
}

/// Newlines at the end of the reasoning belong to the format.
void OutputParser::add_reasoning(const std::string& text, OutputDelta& delta) {
  const std::size_t visible = text.find_last_not_of('\n') + 1;
  if (visible > 0) {
    delta.reasoning += std::exchange(held_newlines_, {});
    delta.reasoning += text.substr(0, visible);
  }
  held_newlines_ += text.substr(visible);
}

void OutputParser::note_stop(const StreamDecoder& decoder) {
  if (!decoder.stopped()) return;
  stopped_ = true;
  stop_string_ = decoder.stop_string();
}

}  // namespace carat
