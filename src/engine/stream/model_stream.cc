#include "engine/stream/model_stream.h"

#include <algorithm>

#include "base/log.h"
#include "engine/stream/unit_choice.h"
#include "residency/policy.h"

namespace thermocline::engine {

StreamUnit UnitOf(const model::Config& config) {
  const bool is_mixture = std::ranges::any_of(
      config.layers,
      [](const model::LayerSpec& layer) { return layer.ffn.num_experts > 0; });
  if (is_mixture) return StreamUnit::kExperts;
  return config.records.empty() ? StreamUnit::kLayers : StreamUnit::kRecords;
}

std::string_view NameOf(StreamUnit unit) {
  switch (unit) {
    case StreamUnit::kRecords:
      return "records";
    case StreamUnit::kExperts:
      return "experts";
    case StreamUnit::kLayers:
      return "layers";
  }
  return "";
}

std::string_view PolicyOf(std::string_view name, StorageMode mode) {
  if (!name.empty()) return name;
  if (mode == StorageMode::kWindow) return "window";
  constexpr std::string_view kBest[] = {"slow", "two-queue"};
  for (const std::string_view best : kBest) {
    for (const residency::PolicyInfo& policy : residency::Policies()) {
      if (policy.name == best) return policy.name;
    }
  }
  return residency::Policies().front().name;
}

void TellOfPolicy(std::string_view name) {
  if (name.empty()) return;
  LogInfo(
      "policy {} changes nothing: what streams are whole layers, in their "
      "order",
      name);
}

uint64_t RoomForSlots(uint64_t room, const model::Config& config) {
  // 8 to 14 MiB were seen, and 25 more of a vocabulary of 150 thousand.
  constexpr uint64_t kBeside = uint64_t{16} << 20;
  constexpr uint64_t kOfToken = 170;
  uint64_t beside = kBeside + kOfToken * config.vocab_size;
  const bool are_padded = std::ranges::all_of(
      config.records, [](const neuron::RecordLayout& layout) {
        return layout.stride % kBlockAlignment == 0;
      });
  if (!are_padded) beside += storage::kMostBounced;
  return room - std::min(room / 8, beside);
}

namespace {

// Keeps the records, or makes experts of them.
Status ChooseUnit(const model::Model& model, const StreamOptions& options,
                  ModelStream& stream) {
  const UnitTimes times = TimesOfUnits(
      model, options, PlanToChooseBy(options, stream.records->plan()));
  if (!times.by_records()) {
    stream.records.reset();  // before others take as much memory
    TC_ASSIGN_OR_RETURN(stream.experts, ExpertStream::Create(model, options));
    stream.experts->set_reason(times.Describe());
  } else {
    stream.records->set_reason(times.Describe());
  }
  return {};
}

}  // namespace

Result<ModelStream> ModelStream::Create(const model::Model& model,
                                        const StreamOptions& options) {
  ModelStream stream;
  if (options.unit != StreamUnit::kRecords &&
      options.mode != StorageMode::kCluster) {
    return Fail(ErrorCode::kUnsupported,
                "{}: its {} come from the file, which mode {} of storage does "
                "not read: it is one of prepared models' records",
                model.file().path(), NameOf(options.unit),
                NameOf(options.mode));
  }
  switch (options.unit) {
    case StreamUnit::kRecords: {
      TC_ASSIGN_OR_RETURN(stream.records, RecordStream::Create(model, options));
      if (options.or_experts) {
        TC_RETURN_IF_ERROR(ChooseUnit(model, options, stream));
      }
      break;
    }
    case StreamUnit::kExperts: {
      TC_ASSIGN_OR_RETURN(stream.experts, ExpertStream::Create(model, options));
      break;
    }
    case StreamUnit::kLayers: {
      TC_ASSIGN_OR_RETURN(stream.layers, LayerStream::Create(model, options));
      break;
    }
  }
  return stream;
}

void ModelStream::EndPass() const {
  if (records != nullptr) records->EndPass();
  if (experts != nullptr) experts->EndPass();
  if (layers != nullptr) layers->EndPass();
}

void ModelStream::SetPolicyRests(bool rests) const {
  if (any() != nullptr) any()->SetPolicyRests(rests);
}

WeightStream* ModelStream::any() const {
  if (records != nullptr) return records.get();
  if (experts != nullptr) return experts.get();
  return layers.get();
}

}  // namespace thermocline::engine
