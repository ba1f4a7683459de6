#include "engine/forward/npu_prompt.h"

#include <algorithm>
#include <utility>

#include "compute/stage_times.h"

namespace thermocline::engine {
namespace {

constexpr int64_t kLeastShare = 4;  // of the fewest rows of a graph

compute::Compute WithoutAccounts(const compute::Compute& compute) {
  compute::Compute quiet = compute;
  quiet.times = nullptr;
  quiet.work = nullptr;
  quiet.timeline = nullptr;
  return quiet;
}

}  // namespace

Result<std::unique_ptr<NpuPrompt>> NpuPrompt::Create(
    const NpuPromptParts& parts, std::shared_ptr<npu::StaticDevice> device) {
  TC_ASSIGN_OR_RETURN(auto model,
                      npu::StaticModel::Create(parts.model, std::move(device),
                                               parts.options->graphs));
  return std::unique_ptr<NpuPrompt>(new NpuPrompt(parts, std::move(model)));
}

NpuPrompt::NpuPrompt(const NpuPromptParts& parts,
                     std::unique_ptr<npu::StaticModel> model)
    : parts_(parts),
      quiet_(WithoutAccounts(*parts.compute)),
      model_(std::move(model)) {
  SetSource();
  if (!parts_.options->graphs.shows_opened) return;
  opened_.emplace(parts_.model->config(), parts_.generated);
  model_->SetOpenedSink([this](size_t layer_idx, int64_t first, int64_t count,
                               const uint16_t* opened) {
    opened_->Add(layer_idx, first, count, opened);
  });
}

void NpuPrompt::SetSource() {
  if (parts_.records != nullptr) {
    record_layers_.emplace(parts_.model.get(), parts_.records);
    // The engine's threads have nothing to do meanwhile.
    model_->SetLayerSource({.await =
                                [this](size_t layer_idx) {
                                  return record_layers_->Await(layer_idx,
                                                               *quiet_.pool);
                                },
                            .leave = [](size_t /*layer_idx*/) {}});
    return;
  }
  LayerStream* streamed = parts_.streamed;
  if (streamed == nullptr) return;
  const std::vector<model::LayerWeights>& layers =
      parts_.model->weights().layers;
  model_->SetLayerSource(
      {.await = [this, streamed, &layers](
                    size_t layer_idx) -> Result<const model::LayerWeights*> {
         TC_RETURN_IF_ERROR(streamed->Await(layer_idx, quiet_));
         return &layers[layer_idx];
       },
       .leave = [streamed](size_t layer_idx) { streamed->Leave(layer_idx); }});
}

int64_t NpuPrompt::least_rows() const {
  if (use_ == Use::kCheck) return 1;
  const PromptDeviceOptions& options = *parts_.options;
  if (options.least_rows > 0) return options.least_rows;
  return std::max<int64_t>(options.graphs.rows.front() / kLeastShare, 1);
}

bool NpuPrompt::Takes(const SequenceRows& run) const {
  const auto num_rows = static_cast<int64_t>(run.num_rows);
  return !is_given_up_ && num_rows >= least_rows() &&
         model_->Holds(run.first_position, num_rows);
}

Status NpuPrompt::Run(const SequenceRows& run, const compute::Rows& residual,
                      const PassHooks& hooks) {
  const compute::ScopedStage stage(*parts_.compute, compute::Stage::kDevice);
  LoadPast(run);
  const kernels::KernelTable& kernels = *parts_.compute->kernels;
  const npu::KvSink sink = {.put = [&](size_t layer_idx, int64_t first,
                                       int64_t count, const uint16_t* k,
                                       const uint16_t* v) {
    run.sequence->PutRows(kernels, layer_idx, first, count, k, v);
  }};
  if (opened_) {
    opened_->Start(run.first_position, static_cast<int64_t>(run.num_rows));
  }
  const Status status = model_->Run(
      {residual.data, run.num_rows, residual.stride}, &sink,
      [&hooks] { return hooks.cancel != nullptr && hooks.cancel->load(); });
  if (record_layers_) record_layers_->End();
  if (!status.has_value()) {
    Forget();
    return status;
  }
  if (opened_) opened_->Teach(*parts_.records);
  if (run.sequence->layout().rounds()) {
    // The next run sees what the host keeps of these, whoever is computed
    // between.
    model_->Truncate(run.first_position);
  }
  return status;
}

void NpuPrompt::LoadPast(const SequenceRows& run) {
  const KvSequence& sequence = *run.sequence;
  const int64_t num_there = history_ == sequence.history()
                                ? std::min(model_->length(), run.first_position)
                                : 0;
  model_->Load(num_there, run.first_position,
               {.get = [&sequence](size_t layer_idx, int64_t first,
                                   int64_t count, uint16_t* k, uint16_t* v) {
                 sequence.Get(layer_idx, first, count, k, v);
               }});
  history_ = sequence.history();
}

}  // namespace thermocline::engine
