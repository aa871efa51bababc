// A reply as a row of blocks, as the APIs have it that show what came when: thoughts, texts and tool calls in
// the order of their writing.
#pragma once
#include <string>
#include <vector>

#include "server/reply_choice.h"

namespace carat {

struct ReplyBlock {
  enum class Kind { reasoning, text, call };
  Kind kind;
  std::string id;                  // of the API's own making
  std::string text;                // all of it so far
  ReplyCall call;                  // whole; of Kind::call
  std::vector<ReplyToken> tokens;  // of Kind::text
  bool is_cut = false;             // in its middle, by the limit of tokens
};

class ReplyBlocks {
 public:
  /// What a stream says about them. `index` counts blocks from 0; one is open at a time.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void opened(std::size_t index, ReplyBlock& block) = 0;
    virtual void grew(std::size_t index, const ReplyBlock& block, const std::string& text,
                      const std::vector<ReplyToken>& tokens) = 0;
    virtual void closed(std::size_t index, const ReplyBlock& block) = 0;
  };

  explicit ReplyBlocks(Listener& listener) : listener_(listener) {}

  /// The reply's end closes the last one.
  void add(ReplyDelta delta);
  const std::vector<ReplyBlock>& all() const { return blocks_; }

 private:
  void add_text(ReplyBlock::Kind kind, std::string text, std::vector<ReplyToken> tokens);
  void open(ReplyBlock block);
  void close();

  Listener& listener_;
  std::vector<ReplyBlock> blocks_;
  bool is_open_ = false;  // the last one
};

}  // namespace carat
