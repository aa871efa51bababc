#include "cuda/device.h"

#include "base/error.h"

namespace carat::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const ErrorKind kind = status == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::device;
  fail(kind, what, " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

Memory::Memory(MemoryKind kind, std::size_t bytes) : kind_(kind), bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  if (kind == MemoryKind::device) {
    check(cudaMalloc(&data, bytes), "cudaMalloc");
  } else {
    check(cudaMallocHost(&data, bytes), "cudaMallocHost");
  }
  data_ = static_cast<std::byte*>(data);
}

// Destructors ignore errors: they run while another error may be on its way, and each call that matters is
// checked.
Memory::~Memory() {
  if (!data_) return;
  if (kind_ == MemoryKind::device) {
    cudaFree(data_);
  } else {
    cudaFreeHost(data_);
  }
}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Stream::Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
Stream::~Stream() {
  if (stream_) cudaStreamDestroy(stream_);
}

Event::Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}

TimingEvent::TimingEvent() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
TimingEvent::~TimingEvent() {
  if (event_) cudaEventDestroy(event_);
}

float TimingEvent::ms_since(const TimingEvent& start) const {
  float ms = 0.f;
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  check(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
  return ms;
}

Graph::~Graph() {
  if (exec_) cudaGraphExecDestroy(exec_);
}

// Relaxed: the first launch of a kernel may load its module, which a stricter mode forbids.
void Graph::begin(cudaStream_t stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
}

Graph Graph::end(cudaStream_t stream) {
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  Graph graph;
  const cudaError_t status = cudaGraphInstantiate(&graph.exec_, captured, 0);
  cudaGraphDestroy(captured);
  check(status, "cudaGraphInstantiate");
  return graph;
}

}  // namespace carat::cuda
