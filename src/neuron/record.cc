#include "neuron/record.h"

#include "base/check.h"
#include "base/math.h"

namespace thermocline::neuron {
namespace {

Status CheckPart(const char* name, DType dtype, uint64_t width) {
  const DTypeInfo& info = InfoOf(dtype);
  if (!info.can_compute) {
    return Fail(ErrorCode::kUnsupported,
                "the {} rows are {}: no kernel computes with them, so they "
                "cannot be bundled",
                name, NameOf(dtype));
  }
  if (width % info.block_elems != 0) {
    return Fail(ErrorCode::kUnsupported,
                "the {} rows cannot be bundled as {}: its blocks of {} do not "
                "divide the width {}",
                name, NameOf(dtype), info.block_elems, width);
  }
  return {};
}

}  // namespace

size_t RecordLayout::up_offset() const {
  return gate.has_value() ? BytesOf(*gate, width) : 0;
}

size_t RecordLayout::down_offset() const {
  return up_offset() + BytesOf(up, width);
}

size_t RecordLayout::used_bytes() const {
  return down_offset() + BytesOf(down, width);
}

Result<RecordLayout> MakeRecordLayout(std::optional<DType> gate, DType up,
                                      DType down, uint64_t width,
                                      size_t alignment) {
  TC_CHECK(alignment > 0 && alignment % kRecordAlignment == 0);
  if (gate.has_value()) TC_RETURN_IF_ERROR(CheckPart("gate", *gate, width));
  TC_RETURN_IF_ERROR(CheckPart("up", up, width));
  TC_RETURN_IF_ERROR(CheckPart("down", down, width));
  RecordLayout layout = {.gate = gate, .up = up, .down = down, .width = width};
  layout.stride = RoundUp(layout.used_bytes(), alignment);
  return layout;
}

RecordViews ViewRecords(const RecordLayout& layout, const std::byte* records,
                        uint64_t num_neurons) {
  const auto part = [&](DType dtype, size_t offset) {
    return TensorView{
        .dtype = dtype,
        .shape = {.ne = {layout.width, num_neurons, 1, 1}, .rank = 2},
        .data = records != nullptr ? records + offset : nullptr,
        .stride_bytes = layout.stride};
  };
  RecordViews views;
  if (layout.gate.has_value()) {
    views.gate = part(*layout.gate, layout.gate_offset());
  }
  views.up = part(layout.up, layout.up_offset());
  views.down_t = part(layout.down, layout.down_offset());
  return views;
}

}  // namespace thermocline::neuron
