#include "neuron/record_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/math.h"
#include "tensor/codec.h"

namespace thermocline::neuron {
namespace {

constexpr uint64_t kUnit = RecordBuilder::kUnitNeurons;
// Rows of a down matrix that are turned at a time: a column takes 64 bytes of
// them, one line of the cache, in F32.
constexpr uint64_t kTurnRows = 16;

// Neurons [first, first + count) of a build, at most kUnit.
struct Unit {
  const RecordLayout& layout;
  const RecordSource& source;
  uint64_t first;
  uint64_t count;
  std::byte* out;  // record of `first`

  std::byte* down(uint64_t i) const {
    return out + i * layout.stride + layout.down_offset();
  }
};

void CopyRows(const TensorView& from, const Unit& unit, size_t offset) {
  const size_t num_bytes = from.row_bytes();
  for (uint64_t i = 0; i < unit.count; ++i) {
    std::memcpy(unit.out + i * unit.layout.stride + offset,
                from.row(unit.first + i), num_bytes);
  }
}

// The unit's columns of rows [row, row + num_rows) of the down matrix, as they
// lie: num_rows runs of unit.count elements.
const std::byte* RunOf(const Unit& unit, uint64_t row) {
  const TensorView& down = unit.source.down;
  return down.row(row) + BytesOf(down.dtype, unit.first);
}

// Turns elements of elem_bytes without reading them.
template <size_t kElemBytes>
void TurnElements(const Unit& unit) {
  for (uint64_t row = 0; row < unit.layout.width; row += kTurnRows) {
    const uint64_t num_rows = std::min(kTurnRows, unit.layout.width - row);
    for (uint64_t i = 0; i < unit.count; ++i) {
      std::byte* const to = unit.down(i) + row * kElemBytes;
      for (uint64_t r = 0; r < num_rows; ++r) {
        std::memcpy(to + r * kElemBytes, RunOf(unit, row + r) + i * kElemBytes,
                    kElemBytes);
      }
    }
  }
}

// The unit's columns [count, D] as floats.
void DecodeDown(const Unit& unit, std::span<float> columns) {
  const uint64_t width = unit.layout.width;
  if (const TensorView& down_t = unit.source.down_t) {
    for (uint64_t i = 0; i < unit.count; ++i) {
      DequantizeRow(down_t.dtype, down_t.row(unit.first + i),
                    columns.subspan(i * width, width));
    }
    return;
  }
  std::array<float, kTurnRows * kUnit> runs;
  for (uint64_t row = 0; row < width; row += kTurnRows) {
    const uint64_t num_rows = std::min(kTurnRows, width - row);
    for (uint64_t r = 0; r < num_rows; ++r) {
      DequantizeRow(unit.source.down.dtype, RunOf(unit, row + r),
                    std::span(runs).subspan(r * kUnit, unit.count));
    }
    for (uint64_t i = 0; i < unit.count; ++i) {
      for (uint64_t r = 0; r < num_rows; ++r) {
        columns[i * width + row + r] = runs[r * kUnit + i];
      }
    }
  }
}

DownCost EncodeDown(const Unit& unit, std::span<float> columns) {
  const uint64_t width = unit.layout.width;
  DecodeDown(unit, columns);
  std::vector<float> written(width);
  DownCost cost;
  for (uint64_t i = 0; i < unit.count; ++i) {
    const std::span<const float> column = columns.subspan(i * width, width);
    QuantizeRow(unit.layout.down, column, unit.down(i));
    DequantizeRow(unit.layout.down, unit.down(i), written);
    for (uint64_t k = 0; k < width; ++k) {
      const double read = column[k];
      const double error = written[k] - read;
      cost.squared_error += error * error;
      cost.squared_norm += read * read;
    }
  }
  return cost;
}

DownCost BuildDown(const Unit& unit, std::vector<float>& columns) {
  const RecordSource& source = unit.source;
  const DType dtype = unit.layout.down;
  if (source.down_t && source.down_t.dtype == dtype) {
    CopyRows(source.down_t, unit, unit.layout.down_offset());
    return {};
  }
  if (!source.down_t && source.down.dtype == dtype && IsFloat(dtype)) {
    if (dtype == DType::kF32) {
      TurnElements<4>(unit);
    } else {
      TurnElements<2>(unit);
    }
    return {};
  }
  columns.resize(kUnit * unit.layout.width);
  return EncodeDown(unit, columns);
}

DownCost BuildUnit(const Unit& unit, std::vector<float>& columns) {
  const RecordLayout& layout = unit.layout;
  const size_t used_bytes = layout.used_bytes();
  for (uint64_t i = 0; i < unit.count; ++i) {
    std::memset(unit.out + i * layout.stride + used_bytes, 0,
                layout.stride - used_bytes);
  }
  if (layout.gate) {
    CopyRows(unit.source.gate, unit, layout.gate_offset());
  }
  CopyRows(unit.source.up, unit, layout.up_offset());
  return BuildDown(unit, columns);
}

// What only a caller can get wrong: sizes that would read past a matrix.
void CheckFits(const RecordLayout& layout, const RecordSource& source,
               uint64_t end_neuron) {
  const auto check = [&](const TensorView& rows, uint64_t num_columns,
                         uint64_t num_rows) {
    TC_CHECK(rows.shape.ne[0] >= num_columns &&
             rows.shape.num_rows() >= num_rows);
  };
  TC_CHECK(source.up && source.up.dtype == layout.up);
  if (layout.gate) {
    TC_CHECK(source.gate && source.gate.dtype == *layout.gate);
    check(source.gate, layout.width, end_neuron);
  }
  check(source.up, layout.width, end_neuron);
  if (source.down_t) {
    check(source.down_t, layout.width, end_neuron);
  } else {
    TC_CHECK(static_cast<bool>(source.down));
    check(source.down, end_neuron, layout.width);
    TC_CHECK(end_neuron % InfoOf(source.down.dtype).block_elems == 0);
  }
}

}  // namespace

void DownCost::Add(const DownCost& other) {
  squared_error += other.squared_error;
  squared_norm += other.squared_norm;
}

double DownCost::RelativeError() const {
  return squared_error == 0 ? 0 : std::sqrt(squared_error / squared_norm);
}

RecordBuilder::RecordBuilder(os::ThreadPool* pool)
    : pool_(pool), columns_(static_cast<size_t>(pool->num_threads())) {}

DownCost RecordBuilder::Build(const RecordLayout& layout,
                              const RecordSource& source, uint64_t first_neuron,
                              uint64_t num_neurons, std::byte* out) {
  TC_CHECK(first_neuron % kUnit == 0);
  CheckFits(layout, source, first_neuron + num_neurons);
  // Summed in their order, whoever built them.
  std::vector<DownCost> costs(CeilDiv(num_neurons, kUnit));
  pool_->ParallelFor(
      costs.size(), 1, [&](size_t begin, size_t end, int worker_idx) {
        for (size_t i = begin; i < end; ++i) {
          const uint64_t first = i * kUnit;
          costs[i] = BuildUnit({.layout = layout,
                                .source = source,
                                .first = first_neuron + first,
                                .count = std::min(kUnit, num_neurons - first),
                                .out = out + first * layout.stride},
                               columns_[static_cast<size_t>(worker_idx)]);
        }
      });
  DownCost total;
  for (const DownCost& cost : costs) total.Add(cost);
  return total;
}

}  // namespace thermocline::neuron
