// The read bandwidth of this machine: the limit that `carat bench` puts beside what decoding achieves.
#pragma once

namespace carat {

/// Best of several passes in which `threads` threads together read memory in 2 MiB pages from end to end: 1
/// GiB, or a quarter of what is free when that is less. Bytes per second; 0 when there is too little memory
/// to measure anything but a cache.
double measure_read_bandwidth(int threads);

}  // namespace carat
