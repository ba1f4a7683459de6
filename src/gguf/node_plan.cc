#include "gguf/node_plan.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "os/memory.h"
#include "os/memory_policy.h"
#include "os/node_shares.h"

namespace thermocline::gguf {
namespace {

constexpr int kNoCpu = -1;

size_t NearestHugePage(size_t offset) {
  return (offset + os::kHugePageBytes / 2) / os::kHugePageBytes *
         os::kHugePageBytes;
}

// The rows of one matrix that begins at `offset`.
void AddMatrix(size_t offset, uint64_t num_rows, size_t row_bytes,
               const os::WorkerPlaces& places, std::vector<NodeBytes>& plan) {
  for (size_t i = 0; i < places.node_ids.size(); ++i) {
    const os::ElemRange rows = os::NodeShare(num_rows, i, places.first_workers);
    const size_t begin = NearestHugePage(offset + rows.begin * row_bytes);
    const size_t end = NearestHugePage(offset + rows.end * row_bytes);
    if (begin == end) continue;
    const int node = places.node_ids[i];
    if (!plan.empty() && plan.back().end == begin && plan.back().node == node) {
      plan.back().end = end;
    } else {
      plan.push_back({begin, end, node});
    }
  }
}

}  // namespace

std::vector<NodeBytes> PlanNodes(std::span<const TensorInfo> tensors,
                                 int shard_idx,
                                 std::span<const std::byte> bytes,
                                 const os::Topology& topology) {
  std::vector<NodeBytes> plan;
  if (topology.num_numa_nodes == 1) return plan;
  const os::WorkerPlaces places =
      os::PlaceWorkers(topology, topology.num_cores, kNoCpu);
  std::vector<const TensorInfo*> in_order;
  for (const TensorInfo& info : tensors) {
    if (std::cmp_equal(info.shard_idx, shard_idx) && info.num_bytes > 0) {
      in_order.push_back(&info);
    }
  }
  std::ranges::sort(in_order, {}, &TensorInfo::data);
  for (const TensorInfo* info : in_order) {
    const auto offset = static_cast<size_t>(info->data - bytes.data());
    const uint64_t num_rows = info->shape.ne[1];
    const size_t row_bytes = BytesOf(info->dtype, info->shape.ne[0]);
    const size_t matrix_bytes = num_rows * row_bytes;
    for (size_t done = 0; done < info->num_bytes; done += matrix_bytes) {
      AddMatrix(offset + done, num_rows, row_bytes, places, plan);
    }
  }
  // The last huge page may be longer than the file.
  if (!plan.empty()) plan.back().end = std::min(plan.back().end, bytes.size());
  return plan;
}

void PlaceOnNodes(std::span<const NodeBytes> plan,
                  std::span<std::byte> buffer) {
  for (const NodeBytes& part : plan) {
    const Status status = os::PreferNode(
        buffer.subspan(part.begin, part.end - part.begin), part.node);
    if (status) continue;
    LogWarning("{}: weights lie where they come to lie",
               status.error().message);
    return;
  }
}

}  // namespace thermocline::gguf
