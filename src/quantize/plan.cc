#include "quantize/plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/quote.h"
#include "base/remedy.h"
#include "model/prepared_names.h"
#include "model/split_file.h"
#include "quantize/rules.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace thermocline::quantize {
namespace {

constexpr int64_t kMaxLayers = 1 << 20;
constexpr size_t k70bLayers = 80;
// Architectures whose models of 80 layers are the 70B kind whatever the heads.
constexpr std::string_view k70bArchitectures[] = {"qwen2", "qwen2vl", "deci",
                                                  "olmo"};

// The number under "ARCHITECTURE.name", in [0, max].
Result<std::optional<size_t>> Count(const gguf::File& file,
                                    const std::string& architecture,
                                    const char* name, int64_t max) {
  const std::string key = architecture + "." + name;
  TC_ASSIGN_OR_RETURN(const auto value, file.Int(key));
  if (!value.has_value()) return std::nullopt;
  if (*value < 0 || *value > max) {
    return Fail(ErrorCode::kCorrupt, "{}: key {} is {}; 0 to {} are possible",
                file.path(), Quote(key), *value, max);
  }
  return static_cast<size_t>(*value);
}

// llama.cpp calls a model 70B by its layers and heads.
Result<bool> Has70bAttention(const gguf::File& file,
                             const QuantizedModel& model) {
  if (model.num_layers != k70bLayers) return false;
  if (std::ranges::find(k70bArchitectures, model.architecture) !=
      std::end(k70bArchitectures)) {
    return true;
  }
  if (model.architecture != "llama") return false;
  TC_ASSIGN_OR_RETURN(
      const auto heads,
      Count(file, model.architecture, "attention.head_count", INT32_MAX));
  TC_ASSIGN_OR_RETURN(
      const auto kv_heads,
      Count(file, model.architecture, "attention.head_count_kv", INT32_MAX));
  return kv_heads.has_value() && kv_heads != heads;
}

// Files beside a model, and those with a vocabulary only, look like models.
Status CheckHasMatrices(const gguf::File& file) {
  if (model::IsSplitFile(file)) {
    return Fail(ErrorCode::kUnsupported,
                "{}: is a model's split file, not a model", file.path());
  }
  TC_ASSIGN_OR_RETURN(const auto type, file.String("general.type"));
  if (type == model::prepared::kPartsType) {
    return Fail(ErrorCode::kUnsupported,
                "{}: holds predictors of `thermocline train`, and no model",
                file.path());
  }
  // Its records would stay as they are, at places that are not theirs.
  if (file.Find(model::prepared::kVersionKey) != nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: is a prepared model: quantise the one that it was made "
                "from, and prepare the result",
                file.path());
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (IsQuantisable(tensor.name, tensor.shape)) return {};
  }
  return Fail(ErrorCode::kUnsupported, "{}: has no weights to quantise",
              file.path());
}

Result<QuantizedModel> ReadModel(const gguf::File& file) {
  QuantizedModel model;
  TC_ASSIGN_OR_RETURN(const auto architecture,
                      file.String("general.architecture"));
  if (!architecture.has_value()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: has no key \"general.architecture\"; is it a model?",
                file.path());
  }
  model.architecture = *architecture;
  model.container = file.container();
  TC_ASSIGN_OR_RETURN(const auto num_layers, Count(file, model.architecture,
                                                   "block_count", kMaxLayers));
  if (!num_layers.has_value()) {
    return Fail(ErrorCode::kCorrupt, "{}: has no key {}; is it a model?",
                file.path(), Quote(model.architecture + ".block_count"));
  }
  model.num_layers = *num_layers;
  TC_ASSIGN_OR_RETURN(const auto num_experts, Count(file, model.architecture,
                                                    "expert_count", INT32_MAX));
  model.num_experts = num_experts.value_or(0);
  TC_ASSIGN_OR_RETURN(model.has_70b_attention, Has70bAttention(file, model));
  model.has_output = file.FindTensor("output.weight") != nullptr;
  return model;
}

// The overrides, compiled, and whether each has been of use.
class Overrides {
 public:
  static Result<Overrides> Compile(const std::vector<TypeOverride>& overrides) {
    Overrides compiled;
    for (const TypeOverride& entry : overrides) {
      auto regex =
          text::Regex::Compile(entry.pattern, text::RegexLimits::kUsual);
      if (!regex) {
        // The message begins "pattern X".
        return Fail(ErrorCode::kInvalidArgument, "tensor {}",
                    Escape(regex.error().message));
      }
      compiled.entries_.push_back(
          {entry.pattern, entry.dtype, std::move(regex).value()});
    }
    return compiled;
  }

  // The type for a tensor, if any of the patterns matches.
  Result<std::optional<DType>> TypeFor(std::string_view name) {
    std::optional<DType> dtype;
    if (entries_.empty() || !text::IsValidUtf8(name)) return dtype;
    text::RegexScratch scratch;
    for (Entry& entry : entries_) {
      const auto match = entry.regex.Find(name, 0, scratch);
      if (!match.has_value()) {
        return Fail(ErrorCode::kInvalidArgument,
                    "tensor pattern {}: gave up on the name {} ({})",
                    Escape(entry.pattern), Escape(name), match.error().message);
      }
      if (!match->has_value()) continue;
      entry.used = true;
      dtype = entry.dtype;
    }
    return dtype;
  }

  Status CheckAllUsed() const {
    for (const Entry& entry : entries_) {
      if (entry.used) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  "tensor pattern {} matches none of the matrices that are "
                  "quantised",
                  Quote(entry.pattern));
    }
    return {};
  }

 private:
  struct Entry {
    std::string pattern;
    DType dtype;
    text::Regex regex;
    bool used = false;
  };
  std::vector<Entry> entries_;
};

Result<DType> WantedType(const QuantizedModel& model,
                         const QuantizeOptions& options, std::string_view name,
                         Overrides& overrides) {
  DType dtype = options.pure ? InfoOf(options.type).dtype
                             : TypeInMix(model, options.type, name);
  TC_ASSIGN_OR_RETURN(const auto override_type, overrides.TypeFor(name));
  dtype = override_type.value_or(dtype);
  if (IsHead(model, name)) dtype = options.output_type.value_or(dtype);
  if (name == "token_embd.weight") {
    dtype = options.embedding_type.value_or(dtype);
  }
  TC_CHECK(InfoOf(dtype).can_compute);
  return dtype;
}

// Whether the tensor may become `dtype`, which it is not yet.
Status CheckConvertible(const gguf::TensorInfo& tensor, DType dtype,
                        const QuantizeOptions& options) {
  if (!InfoOf(tensor.dtype).can_compute) {
    return Fail(ErrorCode::kUnsupported,
                "tensor {} is {}, which this version cannot read",
                Quote(tensor.name), NameOf(tensor.dtype));
  }
  if (!IsFloat(tensor.dtype) && !options.allow_requantize) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kRequantize},
                "tensor {} is {} already, and {}", Quote(tensor.name),
                NameOf(tensor.dtype),
                IsFloat(dtype)
                    ? fmt::format("{} is larger, but brings back nothing",
                                  NameOf(dtype))
                    : "quantising twice loses more than once");
  }
  return {};
}

Result<QuantizedTensor> PlanTensor(const QuantizedModel& model,
                                   const QuantizeOptions& options,
                                   const gguf::TensorInfo& tensor,
                                   Overrides& overrides) {
  QuantizedTensor planned = {&tensor, tensor.dtype, false, tensor.num_bytes};
  if (!IsQuantisable(tensor.name, tensor.shape)) return planned;
  TC_ASSIGN_OR_RETURN(const DType wanted,
                      WantedType(model, options, tensor.name, overrides));
  if (options.leave_output && IsHead(model, tensor.name)) return planned;
  planned.dtype = FittingType(wanted, tensor.shape.ne[0]);
  planned.fell_back = planned.dtype != wanted;
  if (planned.dtype == tensor.dtype) return planned;
  TC_RETURN_IF_ERROR(CheckConvertible(tensor, planned.dtype, options));
  planned.num_bytes = BytesOf(planned.dtype, tensor.shape.num_elems());
  return planned;
}

}  // namespace

Result<QuantizePlan> PlanQuantization(const gguf::File& file,
                                      const QuantizeOptions& options) {
  TC_RETURN_IF_ERROR(CheckHasMatrices(file));
  TC_ASSIGN_OR_RETURN(const QuantizedModel model, ReadModel(file));
  TC_ASSIGN_OR_RETURN(Overrides overrides,
                      Overrides::Compile(options.overrides));
  QuantizePlan plan = {options.type, {}};
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    auto planned = PlanTensor(model, options, tensor, overrides);
    if (!planned) return Annotate(file.path(), planned.error());
    plan.tensors.push_back(*planned);
  }
  TC_RETURN_IF_ERROR(overrides.CheckAllUsed());
  return plan;
}

}  // namespace thermocline::quantize
