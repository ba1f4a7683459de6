// Which static shapes compute rows of any number at any position.
#ifndef THERMOCLINE_NPU_CHUNK_PLAN_H_
#define THERMOCLINE_NPU_CHUNK_PLAN_H_

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace thermocline::npu {

// Those for which there are programs.
struct StaticShapes {
  std::vector<int64_t> rows;      // T, ascending
  std::vector<int64_t> contexts;  // S + T, ascending

  int64_t most_rows() const { return rows.back(); }
  int64_t most_context() const { return contexts.back(); }
};

// S + T is a multiple of it: others do not compile on every NPU.
inline constexpr int64_t kContextStep = 64;

// Powers of two from 512 on, then one with which a chunk of the most rows may
// begin at any of `context` positions.
std::vector<int64_t> ContextsFor(int64_t context,
                                 const std::vector<int64_t>& rows);

// kInvalidArgument: none, not ascending, below 1, no multiples of kContextStep,
// or no room for a past position beside the most rows.
Status CheckShapes(const StaticShapes& shapes);

// One run of a program: T rows, of which the first `count` are wanted.
struct Chunk {
  int64_t first = 0;  // among the rows of the whole
  int64_t count = 0;
  int64_t rows = 0;     // T
  int64_t context = 0;  // S + T

  int64_t past() const { return context - rows; }  // S
  bool operator==(const Chunk&) const = default;
};

// As many of the most rows as there are, the remainder by the fewest that hold
// it; smaller ones where these would reach beyond the largest context. Each
// with the smallest context that holds it. kResourceExhausted: none does.
Result<std::vector<Chunk>> PlanChunks(const StaticShapes& shapes,
                                      int64_t position, int64_t num_rows);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_CHUNK_PLAN_H_
