// The rates that a ReadPlan is made of, measured where records will be read.
#ifndef THERMOCLINE_ENGINE_STREAM_READ_RATES_H_
#define THERMOCLINE_ENGINE_STREAM_READ_RATES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "engine/stream/read_plan.h"
#include "gguf/gguf.h"
#include "storage/block_reader.h"

namespace thermocline::engine {

// Reads here and there of `span`, one part, one record and 128 KiB at a time,
// with 8, 32 and 64 under way, to `memory`; what that or the span has no room
// for is left out. Reads that fail, of which nothing is said here, give no
// rate: whoever reads next finds out.
// Threads  one caller, and nobody else reads meanwhile.
// Errors   none: a device that gives no rate leaves the plan at its defaults
//          (MakeReadPlan).
// Cost     some 40 ms; few reads of a slow device take longer.
std::vector<ReadRate> MeasureReads(storage::BlockReader& reader,
                                   const gguf::FileSpan& span,
                                   size_t part_bytes, size_t record_bytes,
                                   std::span<std::byte> memory);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_READ_RATES_H_
