// Prompts on a device that takes static graphs (npu/static_model.h).
#ifndef THERMOCLINE_ENGINE_FORWARD_NPU_PROMPT_H_
#define THERMOCLINE_ENGINE_FORWARD_NPU_PROMPT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "compute/matmul.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/forward/opened_rows.h"
#include "engine/forward/prompt_layers.h"
#include "engine/prompt_device.h"
#include "engine/stream/layer_stream.h"
#include "engine/stream/record_layers.h"
#include "engine/stream/record_stream.h"
#include "model/model.h"
#include "npu/static_model.h"

namespace thermocline::engine {

// All of it outlives what is made with it.
struct NpuPromptParts {
  std::shared_ptr<const model::Model> model;
  const compute::Compute* compute = nullptr;
  LayerStream* streamed = nullptr;  // null: all layers are in memory
  RecordStream* records = nullptr;  // null: all records are in memory
  const PromptDeviceOptions* options = nullptr;
  FfnMode generated = FfnMode::kDense;  // of generated rows, in all layers
};

// Computes runs of any sequences: the device has the keys and values of one at
// a time, and takes what it lacks from the host's, which are always complete.
class NpuPrompt final : public PromptLayers {
 public:
  // Errors of StaticModel::Create.
  static Result<std::unique_ptr<NpuPrompt>> Create(
      const NpuPromptParts& parts, std::shared_ptr<npu::StaticDevice> device);

  bool Takes(const SequenceRows& run) const override;
  Status Run(const SequenceRows& run, const compute::Rows& residual,
             const PassHooks& hooks) override;
  void Forget() override { history_ = 0; }
  bool yields_to_host() const override {
    return use_ == Use::kAsItPays && parts_.options->host_takes_over;
  }

  void GiveUp() override { is_given_up_ = true; }
  bool is_given_up() const { return is_given_up_; }

  // kCheck: prompts of any length, and nobody makes good what fails.
  enum class Use : uint8_t { kAsItPays, kCheck };
  void SetUse(Use use) { use_ = use; }

  const npu::StaticTimes& times() const { return model_->times(); }
  void ResetTimes() { model_->ResetTimes(); }
  std::string Describe() const { return model_->Describe(); }

 private:
  NpuPrompt(const NpuPromptParts& parts,
            std::unique_ptr<npu::StaticModel> model);

  // Where the device's weights come from that stay in the file.
  void SetSource();
  // The device has the keys and values before the run.
  void LoadPast(const SequenceRows& run);
  int64_t least_rows() const;

  NpuPromptParts parts_;
  compute::Compute quiet_;  // without accounts of times, for other threads
  std::unique_ptr<npu::StaticModel> model_;
  std::optional<RecordLayers> record_layers_;  // of parts_.records
  std::optional<OpenedRows> opened_;  // whom policies of records hear of
  Use use_ = Use::kAsItPays;
  bool is_given_up_ = false;
  // Of the sequence whose first positions the device has; 0: nobody's.
  uint64_t history_ = 0;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_NPU_PROMPT_H_
