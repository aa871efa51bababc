// RAII for what the CUDA runtime hands out, and one way to turn its error codes into Error{device}. Host code
// only.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <utility>

namespace carat::cuda {

/// Throws Error{device} (Error{out_of_memory} for a failed allocation) naming `what` and CUDA's own words.
void check(cudaError_t status, const char* what);

/// Device or pinned host memory, uninitialised.
enum class MemoryKind { device, pinned };

class Memory {
 public:
  Memory() = default;
  Memory(MemoryKind kind, std::size_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  MemoryKind kind_ = MemoryKind::device;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// `size` elements of T.
template <class T, MemoryKind kKind>
class Array {
 public:
  Array() = default;
  explicit Array(std::size_t size) : memory_(kKind, size * sizeof(T)), size_(size) {}

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return memory_.bytes(); }
  /// Pinned memory only: the host can't follow a device pointer.
  std::span<T> span() const
    requires(kKind == MemoryKind::pinned)
  {
    return {data(), size_};
  }
  T& operator[](std::size_t i) const
    requires(kKind == MemoryKind::pinned)
  {
    return data()[i];
  }

 private:
  Memory memory_;
  std::size_t size_ = 0;
};

template <class T>
using DeviceArray = Array<T, MemoryKind::device>;
template <class T>
using PinnedArray = Array<T, MemoryKind::pinned>;

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void wait() { check(cudaEventSynchronize(event_), "a step on the GPU"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// An event that takes the time.
class TimingEvent {
 public:
  TimingEvent();
  ~TimingEvent();
  TimingEvent(const TimingEvent&) = delete;
  TimingEvent& operator=(const TimingEvent&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Waits for both.
  float ms_since(const TimingEvent& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// A captured sequence of launches, ready to be replayed.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }

  /// Records what `launches()` enqueues on `stream`; nothing runs yet.
  template <class Launches>
  static Graph capture(cudaStream_t stream, Launches&& launches) {
    begin(stream);
    launches();
    return end(stream);
  }

  explicit operator bool() const { return exec_ != nullptr; }
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch"); }

 private:
  static void begin(cudaStream_t stream);
  static Graph end(cudaStream_t stream);

  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace carat::cuda
