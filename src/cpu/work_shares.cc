#include "cpu/work_shares.h"

#include <algorithm>

#include "base/error.h"

namespace carat {
namespace {

uint64_t pack(IndexRange range) {
  return static_cast<uint64_t>(range.first) << 32 | static_cast<uint64_t>(range.last);
}

IndexRange unpack(uint64_t left) {
  return {static_cast<int64_t>(left >> 32), static_cast<int64_t>(left & 0xffffffffu)};
}

}  // namespace

void WorkShares::divide(int64_t total, bool in_pieces) {
  CHECK(total < int64_t{1} << 32);
  in_pieces_ = in_pieces;
  const int threads = static_cast<int>(shares_.size());
  for (int thread = 0; thread < threads; ++thread) {
    shares_[static_cast<std::size_t>(thread)].left.store(pack(share_of(total, thread, threads)),
                                                         std::memory_order_relaxed);
  }
}

IndexRange WorkShares::take(int thread) {
  const auto own = static_cast<std::size_t>(thread);
  IndexRange piece = take_from(shares_[own], true);
  for (std::size_t i = 1; piece.count() == 0 && i < shares_.size(); ++i) {
    piece = take_from(shares_[(own + i) % shares_.size()], false);
  }
  return piece;
}

IndexRange WorkShares::take_from(Share& share, bool front) {
  uint64_t left = share.left.load(std::memory_order_relaxed);
  for (;;) {
    const IndexRange range = unpack(left);
    if (range.count() == 0) return range;
    const int64_t size = in_pieces_ ? std::max<int64_t>(1, range.count() / 4) : range.count();
    const IndexRange piece =
        front ? IndexRange{range.first, range.first + size} : IndexRange{range.last - size, range.last};
    const IndexRange rest = front ? IndexRange{piece.last, range.last} : IndexRange{range.first, piece.first};
    if (share.left.compare_exchange_weak(left, pack(rest), std::memory_order_relaxed)) return piece;
  }
}

}  // namespace carat
