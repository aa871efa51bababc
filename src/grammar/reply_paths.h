// What a mask knows of replies, kept along them: each call comes with a whole reply, which mostly is the last
// one and a token more, or the reply of another sample, or a draft that is dropped again.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace carat {

/// `State`: a small value that follows from the state before and one token.
template <class State>
class ReplyPaths {
 public:
  explicit ReplyPaths(State start) : start_(std::move(start)) {}

  /// The state behind `reply`; step(state, token) is called for the tokens that are new alone.
  template <class Step>
  State after(std::span<const int32_t> reply, const Step& step) {
    Path& path = path_along(reply);
    for (std::size_t i = path.tokens.size(); i < reply.size(); ++i) {
      State next = step(path.states.back(), reply[i]);
      path.tokens.push_back(reply[i]);
      path.states.push_back(std::move(next));
    }
    return path.states.back();
  }
  void clear() { paths_.clear(); }

 private:
  struct Path {
    std::vector<int32_t> tokens;
    std::vector<State> states;  // states[i]: after i tokens
    uint64_t used = 0;

    /// The usual case, that the reply goes on behind all of the path, is one comparison of memory.
    std::size_t shared_with(std::span<const int32_t> reply) const {
      if (tokens.size() <= reply.size() && std::equal(tokens.begin(), tokens.end(), reply.begin()))
        return tokens.size();
      return static_cast<std::size_t>(std::ranges::mismatch(tokens, reply).in1 - tokens.begin());
    }
    void shorten(std::size_t count) { tokens.resize(count), states.resize(count + 1, states.front()); }
  };

  /// The path that shares most with the reply, cut to that. What would be lost of a path of another sample
  /// goes on in a path of its own.
  Path& path_along(std::span<const int32_t> reply) {
    if (paths_.empty()) paths_.push_back({{}, {start_}});
    std::size_t best = 0, common = 0;
    for (std::size_t i = 0; i < paths_.size(); ++i)
      if (const std::size_t shared = paths_[i].shared_with(reply); shared > common) best = i, common = shared;
    if (paths_[best].tokens.size() > common + kMostDrafts) {
      Path copy = paths_[best];
      copy.shorten(common);
      if (paths_.size() < kMostPaths) {
        best = paths_.size();
        paths_.push_back(std::move(copy));
      } else {
        const auto oldest = std::ranges::min_element(paths_, {}, &Path::used);
        best = static_cast<std::size_t>(oldest - paths_.begin());
        *oldest = std::move(copy);
      }
    }
    paths_[best].shorten(common);
    paths_[best].used = ++calls_;
    return paths_[best];
  }

  static constexpr std::size_t kMostPaths = 16, kMostDrafts = 64;

  State start_;
  std::vector<Path> paths_;
  uint64_t calls_ = 0;
};

}  // namespace carat
