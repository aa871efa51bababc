// The read bandwidth of this machine: the limit that `carat bench` puts beside what decoding achieves.
#pragma once
#include <vector>

namespace carat {

/// Bytes per second of several passes in which `threads` threads together read memory in 2 MiB pages from end
/// to end: 512 MiB, or a quarter of what is free when that is less. Empty when there is too little memory to
/// measure anything but a cache.
std::vector<double> sample_read_bandwidth(int threads);

}  // namespace carat
