#include "npu/reference_tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "tensor/float16.h"

namespace thermocline::npu {
namespace {

template <typename T>
T LoadAs(const std::byte* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

// The first of two lies in the low half of their byte.
uint8_t Nibble(const std::byte* data, size_t i) {
  const auto pair = static_cast<uint8_t>(data[i / 2]);
  return i % 2 == 0 ? pair & 0xfu : pair >> 4;
}

float LoadFloat(Element element, const std::byte* data, size_t i) {
  switch (element) {
    case Element::kF32:
      return LoadAs<float>(data, i);
    case Element::kF16:
      return F16ToF32(LoadAs<uint16_t>(data, i));
    case Element::kI64:
      return static_cast<float>(LoadAs<int64_t>(data, i));
    case Element::kI8:
      return LoadAs<int8_t>(data, i);
    case Element::kU8:
      return LoadAs<uint8_t>(data, i);
    case Element::kI4:
      return static_cast<float>((Nibble(data, i) ^ 8) - 8);
    case Element::kU4:
      return Nibble(data, i);
    case Element::kBool:
      return data[i] == std::byte{0} ? 0.0f : 1.0f;
  }
  return 0.0f;
}

}  // namespace

HostTensor MakeTensor(Type type, std::byte** bytes) {
  HostTensor tensor = {.type = std::move(type)};
  tensor.owner =
      std::make_shared_for_overwrite<std::byte[]>(NumBytes(tensor.type));
  tensor.data = *bytes = tensor.owner.get();
  return tensor;
}

HostTensor CopyOf(const HostTensor& tensor) {
  std::byte* bytes = nullptr;
  HostTensor copy = MakeTensor(tensor.type, &bytes);
  std::ranges::copy(tensor.bytes(), bytes);
  return copy;
}

FloatsOf::FloatsOf(const HostTensor& tensor) {
  const Element element = tensor.type.element;
  const auto count = static_cast<size_t>(NumElements(tensor.type.dims));
  if (element == Element::kF32) {
    values_ = {reinterpret_cast<const float*>(tensor.data), count};
    return;
  }
  converted_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    converted_[i] = LoadFloat(element, tensor.data, i);
  }
  values_ = converted_;
}

FloatTensor::FloatTensor(Type type)
    : tensor_(MakeTensor(std::move(type), &bytes_)) {
  const auto count = static_cast<size_t>(NumElements(tensor_.type.dims));
  if (tensor_.type.element == Element::kF32) {
    values_ = {reinterpret_cast<float*>(bytes_), count};
    return;
  }
  TC_CHECK(tensor_.type.element == Element::kF16);
  unrounded_.resize(count);
  values_ = unrounded_;
}

HostTensor FloatTensor::Finish() {
  for (size_t i = 0; i < unrounded_.size(); ++i) {
    const uint16_t half = F32ToF16(unrounded_[i]);
    std::memcpy(bytes_ + i * sizeof(half), &half, sizeof(half));
  }
  return std::move(tensor_);
}

HostTensor Widened(const HostTensor& tensor) {
  std::byte* bytes = nullptr;
  HostTensor wide = MakeTensor({Element::kU8, tensor.type.dims}, &bytes);
  const size_t count = NumBytes(wide.type);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = std::byte{Nibble(tensor.data, i)};
  }
  return wide;
}

HostTensor Narrowed(const HostTensor& tensor, Element element) {
  std::byte* bytes = nullptr;
  HostTensor narrow = MakeTensor({element, tensor.type.dims}, &bytes);
  const std::span<const std::byte> wide = tensor.bytes();
  for (size_t i = 0; i < wide.size(); i += 2) {
    const std::byte high = i + 1 < wide.size() ? wide[i + 1] : std::byte{0};
    bytes[i / 2] = wide[i] | high << 4;
  }
  return narrow;
}

std::vector<int64_t> StridesOf(const Dims& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * dims[d];
  }
  return strides;
}

std::vector<int64_t> BroadcastStrides(const Dims& operand, const Dims& dims) {
  const std::vector<int64_t> own = StridesOf(operand);
  const size_t lacking = dims.size() - operand.size();
  std::vector<int64_t> strides(dims.size(), 0);
  for (size_t d = 0; d < operand.size(); ++d) {
    if (operand[d] != 1) strides[lacking + d] = own[d];
  }
  return strides;
}

}  // namespace thermocline::npu
