// Memory of a chosen NUMA node.
#ifndef THERMOCLINE_OS_MEMORY_NODE_H_
#define THERMOCLINE_OS_MEMORY_NODE_H_

#include <cstddef>
#include <span>

#include "base/status.h"

namespace thermocline::os {

// Pages of `memory` that are touched from now on come from node `node` (the
// kernel's number) while it has room, then from others. Only pages that lie
// wholly inside. kInvalidArgument: there is no such node; kUnsupported: the
// system has no NUMA or does not allow it (containers).
Status PreferNode(std::span<std::byte> memory, int node);

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_MEMORY_NODE_H_
