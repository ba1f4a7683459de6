// Whether of a mixture whole experts come from the file, or their neurons.
#ifndef THERMOCLINE_ENGINE_STREAM_UNIT_CHOICE_H_
#define THERMOCLINE_ENGINE_STREAM_UNIT_CHOICE_H_

#include <optional>
#include <string>

#include "base/status.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/stream/read_plan.h"
#include "engine/stream/storage_mode.h"
#include "engine/stream/stream_options.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

struct UnitRequest {
  StreamUnit left = StreamUnit::kRecords;  // LeftWeights'
  FfnMode ffn = FfnMode::kDense;           // not kAuto
  StorageMode mode = StorageMode::kCluster;
  std::optional<StreamUnit> asked;  // somebody's wish
};

// Units that what stays in the file can come as; one at least.
struct UnitsThatMay {
  bool records = false;
  bool experts = false;
  bool layers = false;
};

// Experts can come as records where these have all of a neuron, and do where
// they are padded for storage and some neurons rest, or if it is asked for.
// kUnsupported: what is asked for cannot be.
Result<UnitsThatMay> UnitsFor(const model::Config& config,
                              const UnitRequest& request);

// What a generated token's reads take, where a read of one record takes 1: what
// is hottest by the file's profile lies in slots, and other neurons or experts
// are used as often as that counted; without one, all alike.
struct UnitTimes {
  double records = 0.0;
  double experts = 0.0;
  // Clearly less than by experts, which are guessed a layer early too.
  bool by_records() const { return records < 0.8 * experts; }
  // "neurons, whose reads take 0.41 of the time of whole experts'".
  std::string Describe() const;
};
// How records are read, as far as it decides what streams: as measured, but
// under `deterministic` as stated, or as ReadPlan has it.
ReadPlan PlanToChooseBy(const StreamOptions& options, const ReadPlan& measured);
// options: with slots planned for both.
// plan: PlanToChooseBy's.
UnitTimes TimesOfUnits(const model::Model& model, const StreamOptions& options,
                       const ReadPlan& plan);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_UNIT_CHOICE_H_
