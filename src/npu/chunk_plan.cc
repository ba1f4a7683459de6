#include "npu/chunk_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/math.h"
#include "base/units.h"

namespace thermocline::npu {
namespace {

constexpr int64_t kLeastContext = 512;
// A graph has at least one past position, closed where there is none.
constexpr int64_t kLeastPast = 1;

bool IsAscendingFrom(int64_t least, const std::vector<int64_t>& values) {
  return !values.empty() && values.front() >= least &&
         std::ranges::adjacent_find(values, std::greater_equal<>()) ==
             values.end();
}

// The smallest in which `rows` new positions follow `past` ones.
std::optional<int64_t> ContextOf(const StaticShapes& shapes, int64_t past,
                                 int64_t rows) {
  const auto found = std::ranges::lower_bound(
      shapes.contexts, std::max(past, kLeastPast) + rows);
  return found == shapes.contexts.end() ? std::nullopt : std::optional(*found);
}

// The next of `num_left` rows; its `first` is the caller's.
std::optional<Chunk> NextChunk(const StaticShapes& shapes, int64_t past,
                               int64_t num_left) {
  auto rows = std::ranges::lower_bound(shapes.rows, num_left);
  if (rows == shapes.rows.end()) --rows;
  while (true) {
    if (const auto context = ContextOf(shapes, past, *rows)) {
      return Chunk{.count = std::min(num_left, *rows),
                   .rows = *rows,
                   .context = *context};
    }
    if (rows == shapes.rows.begin()) return std::nullopt;
    --rows;
  }
}

}  // namespace

std::vector<int64_t> ContextsFor(int64_t context,
                                 const std::vector<int64_t>& rows) {
  const int64_t most_rows = rows.empty() ? 1 : rows.back();
  const auto least =
      static_cast<uint64_t>(std::max(context - 1, kLeastPast) + most_rows);
  const auto last =
      static_cast<int64_t>(RoundUp(least, uint64_t{kContextStep}));
  std::vector<int64_t> contexts;
  for (int64_t size = kLeastContext; size < last; size *= 2) {
    if (size > most_rows) contexts.push_back(size);
  }
  contexts.push_back(last);
  return contexts;
}

Status CheckShapes(const StaticShapes& shapes) {
  if (!IsAscendingFrom(1, shapes.rows)) {
    return Fail(ErrorCode::kInvalidArgument,
                "static graphs of {} rows: there is at least one number, and "
                "they ascend from 1 on",
                fmt::join(shapes.rows, ", "));
  }
  const auto is_odd = [](int64_t size) { return size % kContextStep != 0; };
  if (!IsAscendingFrom(kContextStep, shapes.contexts) ||
      std::ranges::any_of(shapes.contexts, is_odd)) {
    return Fail(ErrorCode::kInvalidArgument,
                "static graphs of contexts {}: there is at least one, and they "
                "are ascending multiples of {}",
                fmt::join(shapes.contexts, ", "), kContextStep);
  }
  if (shapes.most_rows() + kLeastPast > shapes.most_context()) {
    return Fail(ErrorCode::kInvalidArgument,
                "static graphs of {} rows: the largest context, {}, has no "
                "room beside them",
                shapes.most_rows(), shapes.most_context());
  }
  return {};
}

Result<std::vector<Chunk>> PlanChunks(const StaticShapes& shapes,
                                      int64_t position, int64_t num_rows) {
  std::vector<Chunk> chunks;
  for (int64_t first = 0; first < num_rows;) {
    std::optional<Chunk> chunk =
        NextChunk(shapes, position + first, num_rows - first);
    if (!chunk) {
      return Fail(ErrorCode::kResourceExhausted,
                  "static graphs have no room for {} at position {}: their "
                  "largest context is {}",
                  Plural(static_cast<uint64_t>(num_rows), "row"), position,
                  shapes.most_context());
    }
    chunk->first = first;
    first += chunk->count;
    chunks.push_back(*chunk);
  }
  return chunks;
}

}  // namespace thermocline::npu
