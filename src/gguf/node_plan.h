// Which NUMA node a model's bytes lie on when they are read into memory.
#ifndef THERMOCLINE_GGUF_NODE_PLAN_H_
#define THERMOCLINE_GGUF_NODE_PLAN_H_

#include <cstddef>
#include <span>
#include <vector>

#include "gguf/gguf.h"
#include "os/topology.h"

namespace thermocline::gguf {

// Bytes [begin, end) of a file, and the kernel's number of their node.
struct NodeBytes {
  size_t begin;
  size_t end;
  int node;
  bool operator==(const NodeBytes&) const = default;
};

// Every matrix of the shard (a tensor of experts is several) cut so that a node
// has the rows that its workers compute when there is one per core: the shares
// of os/node_shares.h. `bytes` is the whole file of that shard, in which the
// tensors' data lie. Cuts are moved to the nearest huge page of a buffer that
// starts with one, so smaller tensors may lie on one node. In the order of the
// file; empty where there is one node.
// The shares are those of whole matrices. A sparse FFN cuts lists of neurons
// (engine/ffn/neuron_pieces.h): its workers find their neurons on their node
// only as far as candidates are spread evenly over the rows. Not measured.
std::vector<NodeBytes> PlanNodes(std::span<const TensorInfo> tensors,
                                 int shard_idx,
                                 std::span<const std::byte> bytes,
                                 const os::Topology& topology);

// Asks for it, for memory that nothing has touched. A node that refuses is a
// warning, once: speed only.
void PlaceOnNodes(std::span<const NodeBytes> plan, std::span<std::byte> buffer);

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_NODE_PLAN_H_
