#include "model/profile_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/quote.h"
#include "gguf/writer.h"
#include "model/prepared_names.h"

namespace thermocline::model {
namespace {

using gguf::KeyValue;
using gguf::ValueType;

constexpr char kArchitectureKey[] = "general.architecture";
constexpr char kNameKey[] = "general.name";
constexpr std::string_view kArchitecture = "thermocline-profile";
constexpr int64_t kVersion = 1;

constexpr char kVersionKey[] = "thermocline.profile.version";
constexpr auto& kTokens = prepared::kProfileTokens;
constexpr char kContext[] = "thermocline.profile.context";
constexpr char kCorpus[] = "thermocline.profile.corpus";
constexpr char kDensity[] = "thermocline.profile.density";
constexpr char kLocality[] = "thermocline.profile.locality";
constexpr char kSkew[] = "thermocline.profile.skew";
constexpr char kModelArchitecture[] = "thermocline.profile.model.architecture";
constexpr char kModelName[] = "thermocline.profile.model.name";
constexpr char kModelLayers[] = "thermocline.profile.model.layers";
constexpr char kModelWidth[] = "thermocline.profile.model.width";
constexpr char kModelNeurons[] = "thermocline.profile.model.neurons";
constexpr char kModelExperts[] = "thermocline.profile.model.experts";
constexpr char kModelHash[] = "thermocline.profile.model.hash";
constexpr char kPairs[] = "thermocline.profile.layers.pairs";
constexpr char kLocalitySums[] = "thermocline.profile.layers.locality_sum";
constexpr char kSquares[] = "thermocline.profile.layers.squared_density_sum";

// Any key: a fingerprint is compared between machines.
constexpr HashKey kHashKey = {.k0 = 0x7468'6572'6d6f'636c,
                              .k1 = 0x696e'6520'6e6f'726d};

constexpr std::pair<std::string_view, size_t ModelFingerprint::*> kSizes[] = {
    {"number of layers", &ModelFingerprint::num_layers},
    {"width", &ModelFingerprint::width},
    {"number of neurons", &ModelFingerprint::ffn_width},
    {"number of experts", &ModelFingerprint::num_experts}};

void AppendBytes(const TensorView& view, std::string& out) {
  if (!view) return;
  out.append(reinterpret_cast<const char*>(view.data), view.num_bytes());
}

std::string NormsOf(const Weights& weights) {
  std::string norms;
  AppendBytes(weights.output_norm, norms);
  AppendBytes(weights.output_norm_bias, norms);
  for (const LayerWeights& layer : weights.layers) {
    AppendBytes(layer.attention.norm, norms);
    AppendBytes(layer.attention.norm_bias, norms);
    AppendBytes(layer.ffn.norm, norms);
    AppendBytes(layer.ffn.norm_bias, norms);
  }
  return norms;
}

std::string NumbersOf(const Weights& weights) {
  std::string numbers;
  for (const LayerWeights& layer : weights.layers) {
    AppendBytes(layer.source_neurons, numbers);
  }
  return numbers;
}

template <typename T>
gguf::Array SumsOf(const neuron::Profile& profile, ValueType type,
                   T neuron::LayerProfile::* member) {
  using Held = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  std::vector<Held> values;
  for (const neuron::LayerProfile& layer : profile.layers) {
    values.push_back(static_cast<Held>(layer.*member));
  }
  return {.elem_type = type, .values = std::move(values)};
}

// Reads keys that must be there.
class Keys {
 public:
  explicit Keys(const gguf::File& file) : file_(file) {}

  const gguf::File& file() const { return file_; }

  template <typename... Args>
  tl::unexpected<Error> Wrong(std::string_view key,
                              fmt::format_string<Args...> format,
                              Args&&... args) const {
    return Fail(ErrorCode::kCorrupt, "{}: key \"{}\" {}", file_.path(), key,
                fmt::format(format, std::forward<Args>(args)...));
  }

  Result<int64_t> Int(std::string_view key, int64_t min, int64_t max) const {
    TC_ASSIGN_OR_RETURN(const auto value, file_.Int(key));
    if (!value.has_value()) return Wrong(key, "is missing");
    if (*value >= min && *value <= max) return *value;
    return Wrong(key, "is {}; it must be {} to {}", *value, min, max);
  }

  // The same; 0 <= min.
  Result<size_t> Extent(std::string_view key, int64_t min, int64_t max) const {
    TC_ASSIGN_OR_RETURN(const int64_t value, Int(key, min, max));
    return static_cast<size_t>(value);
  }

  Result<std::string> String(std::string_view key) const {
    TC_ASSIGN_OR_RETURN(auto value, file_.String(key));
    if (!value.has_value()) return Wrong(key, "is missing");
    return *std::move(value);
  }

  // `size` numbers in [0, max].
  Result<std::vector<double>> Array(std::string_view key, size_t size,
                                    double max) const;

 private:
  const gguf::File& file_;
};

Result<std::vector<double>> Keys::Array(std::string_view key, size_t size,
                                        double max) const {
  const KeyValue* kv = file_.Find(key);
  if (kv == nullptr) return Wrong(key, "is missing");
  const auto* floats = kv->Elements<double>();
  const auto* ints = kv->Elements<int64_t>();
  std::vector<double> values;
  if (floats != nullptr && floats->size() == size) values = floats->ToVector();
  if (ints != nullptr && ints->size() == size) {
    values.assign(ints->begin(), ints->end());
  }
  if (kv->type != ValueType::kArray || values.size() != size) {
    return Wrong(key, "must be an array of {} numbers, one per layer", size);
  }
  for (size_t l = 0; l < size; ++l) {
    if (values[l] >= 0.0 && values[l] <= max) continue;
    return Wrong(key, "is {} for layer {}; it must be 0 to {}", values[l], l,
                 max);
  }
  return values;
}

Result<uint64_t> ReadHash(const Keys& keys) {
  TC_ASSIGN_OR_RETURN(const std::string text, keys.String(kModelHash));
  uint64_t hash = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, hash, 16);
  if (error == std::errc() && stop == end && text.size() == 16) return hash;
  return keys.Wrong(kModelHash, "is {}; 16 hexadecimal digits belong there",
                    Quote(text));
}

Result<ModelFingerprint> ReadFingerprint(const Keys& keys) {
  ModelFingerprint model;
  TC_ASSIGN_OR_RETURN(model.architecture, keys.String(kModelArchitecture));
  TC_ASSIGN_OR_RETURN(model.name, keys.String(kModelName));
  TC_ASSIGN_OR_RETURN(model.num_layers,
                      keys.Extent(kModelLayers, 1, kMaxLayers));
  TC_ASSIGN_OR_RETURN(model.width, keys.Extent(kModelWidth, 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(model.ffn_width,
                      keys.Extent(kModelNeurons, 1, kMaxWidth));
  TC_ASSIGN_OR_RETURN(model.num_experts,
                      keys.Extent(kModelExperts, 0, kMaxExperts));
  TC_ASSIGN_OR_RETURN(model.hash, ReadHash(keys));
  return model;
}

// [N], each at most num_tokens.
Result<std::vector<uint32_t>> ReadCounts(const gguf::File& file,
                                         const std::string& name,
                                         uint64_t num_neurons,
                                         uint64_t num_tokens) {
  const auto wrong = [&](const std::string& what) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor \"{}\" {}", file.path(), name,
                what);
  };
  const gguf::TensorInfo* info = file.FindTensor(name);
  if (info == nullptr) return wrong("is missing");
  if (info->dtype != DType::kI32 || info->shape.num_rows() != 1 ||
      info->shape.ne[0] != num_neurons) {
    return wrong(fmt::format("is {} {}; a vector of {} I32 belongs there",
                             NameOf(info->dtype), ToString(info->shape),
                             num_neurons));
  }
  std::vector<uint32_t> counts(num_neurons);
  std::memcpy(counts.data(), info->data, info->num_bytes);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] <= num_tokens) continue;
    return wrong(fmt::format("has {} for neuron {}, more than the {} tokens",
                             static_cast<int32_t>(counts[i]), i, num_tokens));
  }
  return counts;
}

Result<neuron::Profile> ReadLayers(const Keys& keys,
                                   const ModelFingerprint& model) {
  TC_ASSIGN_OR_RETURN(const int64_t num_tokens,
                      keys.Int(kTokens, 0, neuron::kMaxProfileTokens));
  const auto most = static_cast<double>(num_tokens);
  const size_t num_layers = model.num_layers;
  TC_ASSIGN_OR_RETURN(const auto pairs, keys.Array(kPairs, num_layers, most));
  TC_ASSIGN_OR_RETURN(const auto sums,
                      keys.Array(kLocalitySums, num_layers, most));
  TC_ASSIGN_OR_RETURN(const auto squares,
                      keys.Array(kSquares, num_layers, most));
  const size_t num_neurons =
      model.ffn_width * std::max<size_t>(model.num_experts, 1);
  neuron::Profile profile;
  for (size_t l = 0; l < num_layers; ++l) {
    if (sums[l] > pairs[l]) {
      return keys.Wrong(kLocalitySums,
                        "is {} for layer {}, more than its {} "
                        "pairs",
                        sums[l], l, pairs[l]);
    }
    neuron::LayerProfile& layer = profile.layers.emplace_back();
    TC_ASSIGN_OR_RETURN(
        layer.counts,
        ReadCounts(keys.file(), prepared::OfLayer(l, prepared::kProfileCounts),
                   num_neurons, static_cast<uint64_t>(num_tokens)));
    layer.num_tokens = static_cast<uint64_t>(num_tokens);
    for (const uint32_t count : layer.counts) layer.num_fired += count;
    layer.sum_squared_densities = squares[l];
    layer.num_pairs = static_cast<uint64_t>(pairs[l]);
    layer.sum_locality = sums[l];
  }
  return profile;
}

// In a file of its own there is nothing else.
Status CheckNothingElse(const gguf::File& file, size_t num_layers) {
  if (file.tensors().size() == num_layers) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: has {} tensors; a profile of {} layers has as many",
              file.path(), file.tensors().size(), num_layers);
}

}  // namespace

ModelFingerprint FingerprintOf(const Config& config, const Weights& weights) {
  return {.architecture = config.architecture,
          .name = config.name,
          .num_layers = config.num_layers,
          .width = config.width,
          .ffn_width = MaxFfnWidth(config),
          .num_experts = CommonFfn(config).num_experts,
          .hash = SipHash13(kHashKey, NormsOf(weights) + NumbersOf(weights))};
}

Status CheckSameModel(const ModelFingerprint& fingerprint, const Model& model,
                      const std::string& what) {
  const ModelFingerprint own = FingerprintOf(model);
  const auto differs = [&](std::string_view part, const std::string& theirs,
                           const std::string& ours) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} for another model than {}: its {} is {}, here it is {}",
                what, model.file().path(), part, theirs, ours);
  };
  if (fingerprint.architecture != own.architecture) {
    return differs("architecture", Quote(fingerprint.architecture),
                   Quote(own.architecture));
  }
  for (const auto& [part, member] : kSizes) {
    if (fingerprint.*member != own.*member) {
      return differs(part, fmt::format("{}", fingerprint.*member),
                     fmt::format("{}", own.*member));
    }
  }
  if (fingerprint.hash == own.hash) return {};
  if (fingerprint.hash == SipHash13(kHashKey, NormsOf(model.weights()))) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} for the model that {} was prepared from, in which the "
                "neurons have other numbers: make it for this file, or "
                "prepare the file with the neurons' numbers kept",
                what, model.file().path());
  }
  return differs("hash of the norms and of the neurons' numbers",
                 fmt::format("{:016x}", fingerprint.hash),
                 fmt::format("{:016x}", own.hash));
}

void SetModelHash(uint64_t hash, KeyValue& kv) {
  if (kv.key == kModelHash) kv.value = fmt::format("{:016x}", hash);
}

Result<std::optional<ModelFingerprint>> ReadModelFingerprint(
    const gguf::File& file) {
  if (file.Find(kModelHash) == nullptr) return std::nullopt;
  return ReadFingerprint(Keys(file));
}

std::vector<KeyValue> ProfileKeys(const ProfileFile& file) {
  const neuron::Profile& profile = file.profile;
  const ModelFingerprint& model = file.model;
  TC_CHECK(profile.layers.size() == model.num_layers);
  for (const neuron::LayerProfile& layer : profile.layers) {
    TC_CHECK(layer.num_tokens == profile.num_tokens());
  }
  std::vector<KeyValue> keys = {
      {kVersionKey, ValueType::kU32, kVersion},
      {kTokens, ValueType::kU64, static_cast<int64_t>(profile.num_tokens())},
      {kContext, ValueType::kU32, file.context},
      {kCorpus, ValueType::kString, file.corpus},
      {kDensity, ValueType::kF32, profile.density()},
      {kSkew, ValueType::kF32, profile.skew()},
      {kModelArchitecture, ValueType::kString, model.architecture},
      {kModelName, ValueType::kString, model.name},
      {kModelLayers, ValueType::kU32, static_cast<int64_t>(model.num_layers)},
      {kModelWidth, ValueType::kU32, static_cast<int64_t>(model.width)},
      {kModelNeurons, ValueType::kU32, static_cast<int64_t>(model.ffn_width)},
      {kModelExperts, ValueType::kU32, static_cast<int64_t>(model.num_experts)},
      {kModelHash, ValueType::kString, fmt::format("{:016x}", model.hash)},
      {kPairs, ValueType::kArray,
       SumsOf(profile, ValueType::kU64, &neuron::LayerProfile::num_pairs)},
      {kLocalitySums, ValueType::kArray,
       SumsOf(profile, ValueType::kF64, &neuron::LayerProfile::sum_locality)},
      {kSquares, ValueType::kArray,
       SumsOf(profile, ValueType::kF64,
              &neuron::LayerProfile::sum_squared_densities)}};
  if (const std::optional<double> locality = profile.locality()) {
    keys.push_back({kLocality, ValueType::kF32, *locality});
  }
  return keys;
}

Status WriteProfile(const ProfileFile& file, const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto writer, gguf::Writer::Create(path));
  TC_RETURN_IF_ERROR(
      writer->AddString(kArchitectureKey, std::string(kArchitecture)));
  TC_RETURN_IF_ERROR(writer->AddString(kNameKey, file.model.name));
  for (const KeyValue& kv : ProfileKeys(file)) {
    TC_RETURN_IF_ERROR(writer->AddKeyValue(kv));
  }
  const auto& layers = file.profile.layers;
  for (size_t l = 0; l < layers.size(); ++l) {
    TC_RETURN_IF_ERROR(writer->DeclareTensor(
        prepared::OfLayer(l, prepared::kProfileCounts), DType::kI32,
        {.ne = {layers[l].num_neurons(), 1, 1, 1}, .rank = 1}));
  }
  TC_RETURN_IF_ERROR(writer->Start());
  for (const neuron::LayerProfile& layer : layers) {
    TC_RETURN_IF_ERROR(
        writer->WriteTensorData(std::as_bytes(std::span(layer.counts))));
  }
  return writer->Finish();
}

Result<ProfileFile> ReadProfile(const gguf::File& file) {
  const Keys keys(file);
  if (file.Find(kVersionKey) == nullptr) {
    return Fail(ErrorCode::kNotFound,
                "{}: holds no profile: key \"{}\" is missing; 'thermocline "
                "profile' makes one",
                file.path(), kVersionKey);
  }
  TC_ASSIGN_OR_RETURN(
      const int64_t version,
      keys.Int(kVersionKey, 1, std::numeric_limits<int64_t>::max()));
  if (version != kVersion) {
    return Fail(ErrorCode::kUnsupported,
                "{}: holds a profile of version {}; this program reads "
                "version {}",
                file.path(), version, kVersion);
  }
  ProfileFile result;
  TC_ASSIGN_OR_RETURN(result.model, ReadFingerprint(keys));
  TC_ASSIGN_OR_RETURN(result.corpus, keys.String(kCorpus));
  TC_ASSIGN_OR_RETURN(
      result.context,
      keys.Int(kContext, 1, std::numeric_limits<uint32_t>::max()));
  TC_ASSIGN_OR_RETURN(const auto architecture, file.String(kArchitectureKey));
  if (architecture == kArchitecture) {
    TC_RETURN_IF_ERROR(CheckNothingElse(file, result.model.num_layers));
  }
  TC_ASSIGN_OR_RETURN(result.profile, ReadLayers(keys, result.model));
  return result;
}

Result<ProfileFile> ReadProfile(const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(path));
  return ReadProfile(*file);
}

}  // namespace thermocline::model
