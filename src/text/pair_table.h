// A hash table from pairs of numbers to small values; text/ looks up merges and neighbouring characters in
// it.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace carat {

template <class Value>
class PairTable {
 public:
  PairTable() : slots_(kMinSlots) {}

  void reserve(std::size_t pairs) {
    if (2 * pairs > slots_.size()) rehash(std::bit_ceil(2 * pairs));
  }

  /// `left` is not 0xFFFFFFFF. A pair that is there already gets the new value.
  void insert(uint32_t left, uint32_t right, Value value) {
    reserve(size_ + 1);
    Slot& slot = slots_[position(left, right)];
    if (slot.left == kEmpty) ++size_;
    slot = {left, right, value};
  }

  /// nullptr when the pair is not there.
  const Value* find(uint32_t left, uint32_t right) const {
    const Slot& slot = slots_[position(left, right)];
    return slot.left == kEmpty ? nullptr : &slot.value;
  }

 private:
  static constexpr uint32_t kEmpty = 0xFFFFFFFFu;
  static constexpr std::size_t kMinSlots = 16;

  struct Slot {
    uint32_t left = kEmpty, right = 0;
    Value value{};
  };

  /// The slot that holds the pair, or the free one where it belongs.
  std::size_t position(uint32_t left, uint32_t right) const {
    const uint64_t hash = (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u;
    std::size_t at = hash >> 32 & (slots_.size() - 1);
    while (slots_[at].left != kEmpty && (slots_[at].left != left || slots_[at].right != right))
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void rehash(std::size_t slots) {
    std::vector<Slot> old(slots);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.left != kEmpty) slots_[position(slot.left, slot.right)] = slot;
  }

  std::vector<Slot> slots_;  // a power of two; at most half are taken
  std::size_t size_ = 0;
};

}  // namespace carat
