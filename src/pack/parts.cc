#include "pack/parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/permutation.h"
#include "base/quote.h"
#include "gguf/writer.h"
#include "model/predictor_weights.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "model/prepared_weights.h"
#include "tensor/codec.h"

namespace thermocline::pack {
namespace {

namespace prepared = model::prepared;

// Names the part and the layer in every message.
class PartChecker {
 public:
  explicit PartChecker(const model::Config& config)
      : num_layers_(config.num_layers),
        num_neurons_(NeuronsPerLayer(config)),
        ffn_width_(CommonFfn(config).width),
        is_mixture_(CommonFfn(config).num_experts > 0),
        width_(config.width) {}

  Status Predictors(const PreparedParts& parts);
  Status TrainingFreePredictors(const PreparedParts& parts);
  Status SelfTests(const PreparedParts& parts);
  Status Counts(const PreparedParts& parts);
  Status Order(const PreparedParts& parts);
  Status Thresholds(const PreparedParts& parts, const model::Config& config);
  static Status Keys(const PreparedParts& parts);

 private:
  template <typename... Args>
  tl::unexpected<Error> Wrong(fmt::format_string<Args...> format,
                              Args&&... args) const {
    return Fail(ErrorCode::kInvalidArgument, "layer {}, {}: {}", layer_idx_,
                part_, fmt::format(format, std::forward<Args>(args)...));
  }
  Status LayerCount(std::string_view part, size_t count);
  Status Matrix(std::string_view name, const EncodedMatrix& matrix,
                uint64_t num_rows, uint64_t num_columns) const;
  Status Bias(const std::vector<float>& bias, uint64_t num_rows) const;
  // The two matrices of a predictor of any rank.
  Status TwoSteps(const EncodedMatrix& up, const EncodedMatrix& down) const;
  Status Free(const LayerTrainingFree& free) const;
  Status Sets(const std::vector<std::vector<uint32_t>>& sets,
              size_t num_samples) const;

  size_t num_layers_;
  uint64_t num_neurons_;
  uint64_t ffn_width_;
  bool is_mixture_;
  uint64_t width_;
  std::string_view part_;
  size_t layer_idx_ = 0;
};

Status PartChecker::LayerCount(std::string_view part, size_t count) {
  part_ = part;
  layer_idx_ = 0;
  if (count == 0 || count == num_layers_) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: {} layers are given, the model has {}", part, count,
              num_layers_);
}

Status PartChecker::Matrix(std::string_view name, const EncodedMatrix& matrix,
                           uint64_t num_rows, uint64_t num_columns) const {
  const DTypeInfo& info = InfoOf(matrix.dtype);
  if (!info.can_compute || matrix.num_columns % info.block_elems != 0) {
    return Wrong("{} cannot be {} with rows of {}", name, info.name,
                 matrix.num_columns);
  }
  if (matrix.num_rows == num_rows && matrix.num_columns == num_columns &&
      num_rows > 0 && num_columns > 0 &&
      matrix.bytes.size() == BytesOf(matrix.dtype, num_columns) * num_rows) {
    return {};
  }
  return Wrong("{} has {} rows of {} in {} bytes; {} rows of {} are needed",
               name, matrix.num_rows, matrix.num_columns, matrix.bytes.size(),
               num_rows, num_columns);
}

Status PartChecker::Bias(const std::vector<float>& bias,
                         uint64_t num_rows) const {
  if (bias.empty() || bias.size() == num_rows) return {};
  return Wrong("a bias of {} elements; {} are needed", bias.size(), num_rows);
}

Status PartChecker::TwoSteps(const EncodedMatrix& up,
                             const EncodedMatrix& down) const {
  TC_RETURN_IF_ERROR(Matrix("the first matrix", up, up.num_rows, width_));
  if (up.num_rows > ffn_width_) {
    return Wrong("a rank of {} for {} neurons", up.num_rows, ffn_width_);
  }
  return Matrix("the second matrix", down, num_neurons_, up.num_rows);
}

Status PartChecker::Predictors(const PreparedParts& parts) {
  TC_RETURN_IF_ERROR(LayerCount("the predictor", parts.predictors.size()));
  if (parts.lookahead > 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "predictors that look {} layers ahead; 0 and 1 are possible",
                parts.lookahead);
  }
  if (parts.lookahead > 0 && is_mixture_) {
    return Fail(ErrorCode::kInvalidArgument,
                "predictors of a mixture cannot look ahead: which experts a "
                "layer will use is not known before it");
  }
  for (const auto& predictor : parts.predictors) {
    if (predictor) {
      TC_RETURN_IF_ERROR(TwoSteps(predictor->up, predictor->down));
      TC_RETURN_IF_ERROR(Bias(predictor->up_bias, predictor->up.num_rows));
      TC_RETURN_IF_ERROR(Bias(predictor->down_bias, num_neurons_));
    }
    ++layer_idx_;
  }
  return {};
}

Status PartChecker::Free(const LayerTrainingFree& free) const {
  const uint64_t num_words = CeilDiv(width_, uint64_t{64}) * num_neurons_;
  if (free.signs.size() != num_words) {
    return Wrong("{} words of signs; {} are needed", free.signs.size(),
                 num_words);
  }
  if (free.max_differences > width_) {
    return Wrong("up to {} differences of {} signs", free.max_differences,
                 width_);
  }
  if (free.up.empty() && free.down.empty() && free.bias.empty()) return {};
  TC_RETURN_IF_ERROR(TwoSteps(free.up, free.down));
  return Bias(free.bias, num_neurons_);
}

Status PartChecker::TrainingFreePredictors(const PreparedParts& parts) {
  TC_RETURN_IF_ERROR(
      LayerCount("the training-free predictor", parts.training_free.size()));
  for (const auto& free : parts.training_free) {
    if (free) TC_RETURN_IF_ERROR(Free(*free));
    ++layer_idx_;
  }
  return {};
}

Status PartChecker::Sets(const std::vector<std::vector<uint32_t>>& sets,
                         size_t num_samples) const {
  if (sets.size() != num_samples) {
    return Wrong("{} sets for {} samples", sets.size(), num_samples);
  }
  for (const std::vector<uint32_t>& set : sets) {
    for (size_t i = 0; i < set.size(); ++i) {
      if (set[i] >= num_neurons_ || (i > 0 && set[i] <= set[i - 1])) {
        return Wrong(
            "a set has neuron {} at place {}: they must ascend, and "
            "be below {}",
            set[i], i, num_neurons_);
      }
    }
  }
  return {};
}

Status PartChecker::SelfTests(const PreparedParts& parts) {
  TC_RETURN_IF_ERROR(LayerCount("the self-test", parts.self_test.size()));
  for (const LayerSelfTest& test : parts.self_test) {
    const size_t num_samples = parts.self_test.front().fired.size();
    if (num_samples == 0 || test.inputs.size() != num_samples * width_) {
      return Wrong("{} input values for {} samples of {}", test.inputs.size(),
                   num_samples, width_);
    }
    if (!std::ranges::all_of(test.inputs,
                             [](float x) { return std::isfinite(x); })) {
      return Wrong("an input value is not finite");
    }
    TC_RETURN_IF_ERROR(Sets(test.fired, num_samples));
    for (const auto* sets : {&test.candidates, &test.free}) {
      if (!sets->empty()) TC_RETURN_IF_ERROR(Sets(*sets, num_samples));
    }
    ++layer_idx_;
  }
  return {};
}

Status PartChecker::Counts(const PreparedParts& parts) {
  TC_RETURN_IF_ERROR(LayerCount("the profile", parts.profile_counts.size()));
  for (const std::vector<uint32_t>& counts : parts.profile_counts) {
    if (counts.size() != num_neurons_) {
      return Wrong("counts of {} neurons; there are {}", counts.size(),
                   num_neurons_);
    }
    const uint32_t most = std::ranges::max(counts);
    if (most > std::numeric_limits<int32_t>::max()) {
      return Wrong("a count of {} is too large", most);
    }
    ++layer_idx_;
  }
  return {};
}

Status PartChecker::Order(const PreparedParts& parts) {
  TC_RETURN_IF_ERROR(LayerCount("the order", parts.order.size()));
  if (parts.order.empty()) return {};
  if (parts.order_group_size < 1 ||
      num_neurons_ % static_cast<uint64_t>(parts.order_group_size) != 0) {
    return Wrong("groups of {} neurons do not divide {}",
                 parts.order_group_size, num_neurons_);
  }
  for (const std::vector<uint32_t>& places : parts.order) {
    const auto misplaced =
        FindMisplaced(places.size(), num_neurons_,
                      [&](size_t place) { return places[place]; });
    if (misplaced) {
      return Wrong("no permutation: neuron {}", places[*misplaced]);
    }
    if (places.size() != num_neurons_) {
      return Wrong("{} places for {} neurons", places.size(), num_neurons_);
    }
    ++layer_idx_;
  }
  return {};
}

Status PartChecker::Thresholds(const PreparedParts& parts,
                               const model::Config& config) {
  TC_RETURN_IF_ERROR(LayerCount("the thresholds", parts.thresholds.size()));
  if (parts.thresholds.empty()) return {};
  const Activation activation =
      parts.activation.value_or(CommonFfn(config).activation);
  if (HasZeros(activation)) {
    return Fail(ErrorCode::kInvalidArgument,
                "thresholds are for {}: the activation {} of this model has "
                "zeros, which need none",
                ListActivations(false), NameOf(activation));
  }
  for (const float threshold : parts.thresholds) {
    if (!(threshold >= 0 && std::isfinite(threshold))) {
      return Wrong("{}; it must be a finite number >= 0", threshold);
    }
    ++layer_idx_;
  }
  return {};
}

Status PartChecker::Keys(const PreparedParts& parts) {
  const PreparedParts none;
  for (const gguf::KeyValue& kv : parts.keys) {
    const std::string_view key = kv.key;
    const bool has_place = key == prepared::kActivation ||
                           key == prepared::kFfnThreshold ||
                           (IsPartKey(none, key) && !IsFigureKey(key));
    if (key.starts_with("thermocline.") && !has_place) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "key {} among the free ones of a prepared file: it must begin "
                "with \"thermocline.\" and be none that has its own place",
                Quote(key));
  }
  return {};
}

}  // namespace

EncodedMatrix EncodeMatrix(DType dtype, uint64_t num_rows, uint64_t num_columns,
                           std::span<const float> values) {
  TC_CHECK(values.size() == num_rows * num_columns);
  EncodedMatrix matrix = {.dtype = dtype,
                          .num_rows = num_rows,
                          .num_columns = num_columns,
                          .bytes = {}};
  const size_t row_bytes = BytesOf(dtype, num_columns);
  matrix.bytes.resize(row_bytes * num_rows);
  for (uint64_t i = 0; i < num_rows; ++i) {
    QuantizeRow(dtype, values.subspan(i * num_columns, num_columns),
                matrix.bytes.data() + i * row_bytes);
  }
  return matrix;
}

Status CheckParts(const PreparedParts& parts, const model::Config& config) {
  TC_RETURN_IF_ERROR(CheckEqualWidths(config, "what 'prepare' finds"));
  PartChecker checker(config);
  TC_RETURN_IF_ERROR(checker.Predictors(parts));
  TC_RETURN_IF_ERROR(checker.TrainingFreePredictors(parts));
  TC_RETURN_IF_ERROR(checker.SelfTests(parts));
  TC_RETURN_IF_ERROR(checker.Counts(parts));
  TC_RETURN_IF_ERROR(checker.Order(parts));
  TC_RETURN_IF_ERROR(checker.Thresholds(parts, config));
  if (parts.ffn_threshold &&
      !(*parts.ffn_threshold >= 0 && std::isfinite(*parts.ffn_threshold))) {
    return Fail(ErrorCode::kInvalidArgument,
                "an FFN threshold of {}; it must be a finite number >= 0",
                *parts.ffn_threshold);
  }
  return PartChecker::Keys(parts);
}

bool IsPartKey(const PreparedParts& parts, std::string_view key) {
  if (key == prepared::kActivation) return parts.activation.has_value();
  if (key == prepared::kFfnThreshold) return parts.ffn_threshold.has_value();
  for (const std::string_view own :
       {prepared::kVersionKey, prepared::kRecordTypes, prepared::kRecordStride,
        prepared::kLookahead, prepared::kMaxDifferences, prepared::kThresholds,
        prepared::kOrderGroupSize, prepared::kPartsLayers,
        prepared::kPartsWidth, prepared::kPartsNeurons}) {
    if (key == own) return true;
  }
  if (IsFigureKey(key)) return true;
  return std::ranges::find(parts.keys, key, &gguf::KeyValue::key) !=
         parts.keys.end();
}

bool IsFigureKey(std::string_view key) {
  return key.starts_with(prepared::kProfilePrefix) ||
         key.starts_with(prepared::kTrainingPrefix);
}

}  // namespace thermocline::pack
