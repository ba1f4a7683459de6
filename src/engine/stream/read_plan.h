// How records are read: in which parts, how many together, how many at once.
// What pays depends on the device, so that its measured rates decide.
#ifndef THERMOCLINE_ENGINE_STREAM_READ_PLAN_H_
#define THERMOCLINE_ENGINE_STREAM_READ_PLAN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "neuron/record.h"

namespace thermocline::engine {

// Without measuring: what suits a device that gives 10^5 small reads a second
// and some GB/s.
struct ReadPlan {
  // Parts of a record begin and end at multiples of this.
  size_t part_bytes = 4096;
  // What reads of a first part and of the rest take, and the bytes of a record
  // within a long read, where a read of one record takes 1.
  double first_cost = 1.0, rest_cost = 1.0, bytes_cost = 1.0;
  // What lies between two that are missed is read too, up to so much.
  size_t gap_bytes = 12 << 10;
  // Of neighbours that are read together. A piece waits for all of a read.
  size_t longest_bytes = 128 << 10;
  size_t depth = 64;  // reads that the device has at once
  // Reads for the next layer that may be submitted behind a layer's own. While
  // attention runs nobody hands the device more, so that it has some of these
  // too: then it takes so many at once.
  size_t most_early = 1024;
  size_t early_depth() const { return 4 * depth; }

  bool operator==(const ReadPlan&) const = default;
};

// Where the gate ends, at a part's end; 0: the record has none, or nothing is
// behind that part.
size_t FirstBytes(const neuron::RecordLayout& layout, size_t part_bytes);

// Random reads of a device, `depth` of them under way all the time.
struct ReadRate {
  size_t num_bytes = 0;  // of a read
  size_t depth = 0;
  double reads_per_s = 0.0;
};

// The best plan for records of a layout, by reads of one part, of a record and
// of many records each at the same depths; the default for too few. A time for
// each read and one for each byte are those at the depth that is chosen.
ReadPlan PlanReads(const std::vector<ReadRate>& rates,
                   const neuron::RecordLayout& layout);

// The gate is read first, and the rest of those that pass its test, where a
// smaller share of them is expected to (PowerInfer-2 4.3). single_share: of the
// records, those that would be read by themselves, and not in one read with
// neighbours.
double GateFirstBelow(const ReadPlan& plan, double single_share);

// "gates first where under 45 % fire, gaps to 12 KiB, depth 64".
std::string Describe(const ReadPlan& plan, const neuron::RecordLayout& layout);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_READ_PLAN_H_
