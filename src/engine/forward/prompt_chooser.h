// Which device computes prompts: the first that takes the model and gives what
// the host gives.
#ifndef THERMOCLINE_ENGINE_FORWARD_PROMPT_CHOOSER_H_
#define THERMOCLINE_ENGINE_FORWARD_PROMPT_CHOOSER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/batch.h"
#include "engine/forward/npu_prompt.h"
#include "engine/layer_plan.h"
#include "engine/stream/weight_stream.h"

namespace thermocline::engine {

// What the comparison of a device with the host takes besides, while the engine
// is made: keys and values of its own, and logits twice.
Result<uint64_t> PromptCheckBytes(const model::Config& config);

class ChosenPrompts {
 public:
  ChosenPrompts(std::unique_ptr<NpuPrompt> prompts, std::optional<double> nmse)
      : prompts_(std::move(prompts)), nmse_(nmse) {}

  NpuPrompt* layers() const { return prompts_.get(); }
  // Since the check.
  npu::StaticTimes times() const { return prompts_->times(); }
  std::string Describe() const;

 private:
  std::unique_ptr<NpuPrompt> prompts_;
  std::optional<double> nmse_;  // of logits against the host's, if compared
};

// All of it outlives the chooser.
struct PromptChooserParts {
  NpuPromptParts prompts;
  const std::vector<LayerPlan>* layers = nullptr;
  const WeightStream* stream = nullptr;  // null: all weights are in memory
  int64_t max_rows = 1;                  // of a pass
  bool is_observed = false;
};

class PromptChooser {
 public:
  // A pass in which prompts are computed by `prompts`, or, if null, the host.
  using RunPass = std::function<Status(NpuPrompt* prompts, const Batch& batch,
                                       std::span<float> logits)>;

  explicit PromptChooser(const PromptChooserParts& parts) : parts_(parts) {}

  // Which it is, is logged. Null: the host; each device that cannot is a
  // warning. Without
  // host_takes_over the last one's error: those of CheckPrompts and
  // NpuPrompt; kUnsupported: other logits than the host's.
  Result<std::unique_ptr<ChosenPrompts>> Choose(const RunPass& run);

 private:
  // kUnsupported: no device computes such prompts.
  Status CheckPrompts() const;
  Result<std::unique_ptr<ChosenPrompts>> Try(
      const std::shared_ptr<npu::StaticDevice>& device, const RunPass& run);
  // NMSE of the logits of a few tokens.
  Result<double> Compare(NpuPrompt* prompts, const RunPass& run);
  Result<std::vector<float>> ComputeLogits(NpuPrompt* prompts,
                                           const RunPass& run);

  const model::Model& model() const { return *parts_.prompts.model; }
  const PromptDeviceOptions& options() const { return *parts_.prompts.options; }

  PromptChooserParts parts_;
  std::vector<float> host_logits_;  // of the tokens; empty: not computed yet
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_PROMPT_CHOOSER_H_
