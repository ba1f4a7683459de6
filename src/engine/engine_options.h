// How a model is computed.
#ifndef THERMOCLINE_ENGINE_ENGINE_OPTIONS_H_
#define THERMOCLINE_ENGINE_ENGINE_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "base/timeline.h"
#include "device/device.h"
#include "engine/device/placement.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/ffn/record_store.h"
#include "engine/prompt_device.h"
#include "engine/stream/stream_options.h"
#include "kernels/isa.h"

namespace thermocline::compute {
class HostWork;
struct StageTimes;
}  // namespace thermocline::compute

namespace thermocline::engine {

// What becomes of a pass when the device is lost during it.
enum class DeviceLoss : uint8_t {
  kFail,  // it ends with the device's error, as do all later ones
  kHost,  // the host computes it anew, and all later ones; a warning says so
};

struct EngineOptions {
  int64_t context = 0;     // positions of the longest sequence, >= 1
  int64_t max_rows = 512;  // of a batch
  kernels::Isa isa = kernels::BestIsa();
  FfnMode ffn = FfnMode::kAuto;
  PredictorChoice predictor = PredictorChoice::kAuto;
  // Prompts compute all neurons, whatever `ffn` says of what is generated.
  bool dense_prompts = false;
  // Costs a few bits per neuron and row of a batch, and room for gates and
  // stream where nothing else keeps them (scratch.h). Told of batches of one
  // sequence.
  FfnObserver observer;
  // Where sparse FFNs find their neurons' records; empty: where the model has
  // them.
  MakeRecordStore make_records;
  // The records of a prepared model stay in its file, and come from there;
  // instead of make_records. Without a device.
  std::optional<StreamOptions> stream;
  compute::StageTimes* times = nullptr;  // Run adds to it; null: nobody
  compute::HostWork* work = nullptr;     // told of what Run reads
  Timeline* timeline = nullptr;          // Run adds its spans; null: nobody
  // Null: the host computes everything. Else what `placement` names is copied
  // there when the engine is made, and generated rows are computed on both.
  std::shared_ptr<device::Device> device;
  Placement placement;
  // kHost counts without an observer, which would be told of rows twice.
  DeviceLoss on_device_loss = DeviceLoss::kFail;
  // Who computes dense prompts that no observer is to see, if not the host.
  PromptDeviceOptions prompts;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_ENGINE_OPTIONS_H_
