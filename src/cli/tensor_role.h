// What a tensor is for, read from its name alone, so that files of
// architectures that do not run can be described too. Pure.
#ifndef THERMOCLINE_CLI_TENSOR_ROLE_H_
#define THERMOCLINE_CLI_TENSOR_ROLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thermocline::cli {

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

enum class TensorRole : uint8_t {
  kTokenEmbedding,
  kPositionEmbedding,
  kAttentionQ,
  kAttentionK,
  kAttentionV,
  kAttentionQkv,  // one matrix for all three
  kAttentionOut,
  kAttentionOther,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kFfnDownT,    // down transposed: a row per neuron
  kFfnRecords,  // of prepared files: gate, up and down side by side
  kFfnOther,
  kExpertRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertShared,
  kPredictorUp,
  kPredictorDown,
  kPredictorFree,  // of prepared files: signs and margins, not trained
  kNorm,
  kHead,
  kPlacement,  // which neurons lie where: split files
  kFindings,   // of prepared files: counts, order, self-test
  kOther,
};
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

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TENSOR_ROLE_H_
