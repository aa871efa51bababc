#include "base/touch_ahead.h"

#include <sys/mman.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/huge_pages.h"

namespace carat {
namespace {

/// Safe beside threads that write to the memory already.
void make_resident(std::span<std::byte> memory) {
#ifdef MADV_POPULATE_WRITE
  ::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE);
#else
  static_cast<void>(memory);
#endif
}

}  // namespace

TouchAhead::TouchAhead(std::vector<std::span<std::byte>> regions) {
  for (const std::span<std::byte> memory : regions) {
    regions_.push_back({.memory = memory, .wanted = std::min(memory.size(), kAheadBytes)});
  }
  try {
    thread_ = std::thread(&TouchAhead::touch_loop, this);
  } catch (const std::system_error&) {  // nobody touches ahead then
    for (Region& region : regions_) region.wanted = 0;
  }
}

TouchAhead::~TouchAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TouchAhead::use(std::size_t index, std::size_t bytes) {
  Region& region = regions_[index];
  const std::size_t wanted = std::min(region.memory.size(), bytes + kAheadBytes);
  if (wanted <= region.wanted || !thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    region.wanted = wanted;
  }
  changed_.notify_one();
}

void TouchAhead::touch_loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto region = std::ranges::find_if(regions_, [](const Region& r) { return r.touched < r.wanted; });
    if (region == regions_.end()) {
      changed_.wait(lock);
      continue;
    }
    const std::size_t piece = std::min(HugePages::kPageBytes, region->memory.size() - region->touched);
    lock.unlock();
    make_resident(region->memory.subspan(region->touched, piece));  // `touched` is this thread's
    lock.lock();
    region->touched += piece;
  }
}

}  // namespace carat
