// Tensors of the fake OpenVINO.
#ifndef THERMOCLINE_NPU_TESTING_FAKE_TENSOR_H_
#define THERMOCLINE_NPU_TESTING_FAKE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "npu/graph.h"
#include "npu/ov_api.h"

namespace thermocline::npu {

// A copy is the same tensor, as in OpenVINO.
struct OvTensor {
  uint32_t type_number = 0;
  std::optional<Element> element;  // none: one that graphs do not have
  Dims dims;
  size_t num_bytes = 0;
  std::byte* data = nullptr;
  std::shared_ptr<std::vector<std::byte>> memory;  // null: the caller's

  std::span<const std::byte> bytes() const { return {data, num_bytes}; }
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TESTING_FAKE_TENSOR_H_
