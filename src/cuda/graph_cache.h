// Graphs of sequences of launches that come again and again, by what sets them apart.
#pragma once
#include <algorithm>
#include <cstddef>
#include <list>
#include <utility>

#include "cuda/device.h"
#include "cuda/kernels.h"

namespace carat::cuda {

/// Of a cache. An engine's steps have fewer shapes: batches that grow and shrink, times classes of context
/// lengths.
inline constexpr std::size_t kMostGraphs = 64;
/// Device memory of a full cache, about, when each graph has the kernels of so many layers: 1.1 MB for 35.
constexpr std::size_t graph_cache_bytes(std::size_t layers) { return kMostGraphs * layers * 32 * 1024; }

/// Key: everything that the launches have burnt in, equality comparable.
template <class Key>
class GraphCache {
 public:
  /// Runs `launches()`, which puts kernels on the queue: the second time as a graph, which is captured then
  /// and takes one launch. A shape that never comes again needs none.
  template <class Launches>
  void run(Queue& queue, const Key& key, Launches&& launches) {
    const auto known = std::ranges::find(entries_, key, &Entry::key);
    if (known == entries_.end()) {
      if (entries_.size() == kMostGraphs) entries_.pop_back();
      entries_.push_front({key, {}});
      return launches();
    }
    entries_.splice(entries_.begin(), entries_, known);
    if (queue.status == cudaSuccess && !known->graph) known->graph = Graph::capture(queue.stream, launches);
    if (queue.status == cudaSuccess) known->graph.launch(queue.stream);
  }
  /// When a buffer moves that launches know.
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    Key key;
    Graph graph;
  };

  std::list<Entry> entries_;  // the one used last comes first; the last one goes first
};

}  // namespace carat::cuda
