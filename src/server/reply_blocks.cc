#include "server/reply_blocks.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace carat {

void ReplyBlocks::add(ReplyDelta delta) {
  if (!delta.reasoning.empty()) add_text(ReplyBlock::Kind::reasoning, std::move(delta.reasoning), {});
  if (!delta.content.empty())
    add_text(ReplyBlock::Kind::text, std::move(delta.content), std::move(delta.tokens));
  for (ReplyCall& call : delta.calls) {
    open({.kind = ReplyBlock::Kind::call, .id = {}, .text = {}, .call = std::move(call), .tokens = {}});
    close();
  }
  if (!delta.end) return;
  if (is_open_) blocks_.back().is_cut = delta.end->reason == ReplyEndReason::length;
  close();
}

void ReplyBlocks::add_text(ReplyBlock::Kind kind, std::string text, std::vector<ReplyToken> tokens) {
  if (!is_open_ || blocks_.back().kind != kind)
    open({.kind = kind, .id = {}, .text = {}, .call = {}, .tokens = {}});
  ReplyBlock& block = blocks_.back();
  block.text += text;
  listener_.grew(blocks_.size() - 1, block, text, tokens);
  std::ranges::move(tokens, std::back_inserter(block.tokens));
}

void ReplyBlocks::open(ReplyBlock block) {
  close();
  blocks_.push_back(std::move(block));
  is_open_ = true;
  listener_.opened(blocks_.size() - 1, blocks_.back());
}

void ReplyBlocks::close() {
  if (is_open_) listener_.closed(blocks_.size() - 1, blocks_.back());
  is_open_ = false;
}

}  // namespace carat
