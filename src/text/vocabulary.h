// The pieces of a tokenizer: id -> text and text -> id. Used by the other parts of text/ only.
#pragma once
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace carat {

/// Many short strings behind one another in one allocation; less than 4 GB in all.
class StringList {
 public:
  void reserve(std::size_t count, std::size_t bytes) { ends_.reserve(count), bytes_.reserve(bytes); }
  void push_back(std::string_view text) {
    bytes_ += text;
    CHECK(bytes_.size() <= std::numeric_limits<uint32_t>::max());
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  std::size_t size() const { return ends_.size(); }
  std::size_t total_bytes() const { return bytes_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
};

class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(StringList pieces) : pieces_(std::move(pieces)) {
    for (std::size_t id = 0; id < pieces_.size(); ++id) insert(static_cast<int32_t>(id));
  }

  /// Gives `piece`, which must be new, the next id.
  int32_t add(std::string_view piece) {
    pieces_.push_back(piece);
    const auto id = static_cast<int32_t>(pieces_.size() - 1);
    insert(id);
    return id;
  }

  /// An id whose piece also has a smaller id, or -1. Such a vocabulary is not usable.
  int32_t duplicate() const { return duplicate_; }

  int32_t size() const { return static_cast<int32_t>(pieces_.size()); }
  std::string_view operator[](int32_t id) const { return pieces_[static_cast<std::size_t>(id)]; }

  /// -1 when there is no such piece.
  int32_t find(std::string_view piece) const {
    if (slots_.empty()) return -1;
    const uint64_t hash = std::hash<std::string_view>{}(piece);
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.id < 0 || (slot.tag == tag_of(hash) && (*this)[slot.id] == piece)) return slot.id;
    }
  }

  /// The same, faster when the answer is `guess` or the id after it.
  int32_t find(std::string_view piece, int32_t guess) const {
    if ((*this)[guess] == piece) return guess;
    if (guess + 1 < size() && (*this)[guess + 1] == piece) return guess + 1;
    return find(piece);
  }

 private:
  struct Slot {
    uint32_t tag = 0;  // hash bits, so that a probe rarely has to look at the piece
    int32_t id = -1;
  };

  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  std::size_t mask() const { return slots_.size() - 1; }

  void insert(int32_t id) {
    if (slots_.size() < 2 * pieces_.size()) {
      slots_.assign(std::bit_ceil(2 * pieces_.size()), Slot{});
      for (int32_t earlier = 0; earlier < id; ++earlier) place(earlier);
    }
    place(id);
  }
  void place(int32_t id) {
    const uint64_t hash = std::hash<std::string_view>{}((*this)[id]);
    std::size_t at = hash & mask();
    for (; slots_[at].id >= 0; at = (at + 1) & mask())
      if (slots_[at].tag == tag_of(hash) && (*this)[slots_[at].id] == (*this)[id]) duplicate_ = id;
    slots_[at] = {tag_of(hash), id};
  }

  StringList pieces_;
  std::vector<Slot> slots_;
  int32_t duplicate_ = -1;
};

}  // namespace carat
