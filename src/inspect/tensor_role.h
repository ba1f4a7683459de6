// What a tensor is for, read from its name alone, so that files of
// architectures that do not run can be described too. Pure.
#ifndef THERMOCLINE_INSPECT_TENSOR_ROLE_H_
#define THERMOCLINE_INSPECT_TENSOR_ROLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/tensor_roles.h"

namespace thermocline::inspect {

enum class TensorClass : uint8_t {
  kEmbedding,
  kAttention,
  kFfn,
  kExperts,
  kPredictor,
  kNorm,
  kHead,
  kOther,
};
inline constexpr int kNumTensorClasses = 8;
const char* NameOf(TensorClass tensor_class);  // "ffn"

using TensorRole = model::TensorUse;
inline constexpr int kNumTensorRoles = 27;
const char* NameOf(TensorRole role);  // "ffn down_t"
TensorClass ClassOf(TensorRole role);

struct TensorPlace {
  TensorRole role = TensorRole::kOther;
  std::optional<int> layer;  // 3 in "blk.3.ffn_up.weight"
  // Experts that are tensors of their own share one name here:
  // "blk.3.ffn_up.*.weight". Else the name.
  std::string group_name;
};

// By the names that llama.cpp, PowerInfer, KAIROX and we use. Any bytes are
// taken; names that say nothing are kOther. Weights and biases have one role.
TensorPlace PlaceOf(std::string_view tensor_name);

}  // namespace thermocline::inspect

#endif  // THERMOCLINE_INSPECT_TENSOR_ROLE_H_
