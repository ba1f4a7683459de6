// The run loop: step by step through the layers, each with all chunks of rows.
#include "npu/static_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "npu/block.h"
#include "npu/chunk_plan.h"
#include "npu/hand_over.h"
#include "npu/layer_feed.h"
#include "npu/position_rows.h"
#include "npu/static_kv.h"
#include "npu/static_memory.h"
#include "npu/static_programs.h"
#include "npu/static_steps.h"
#include "npu/whole_cache_model.h"

namespace thermocline::npu {
namespace {

class StaticModelImpl final : public StaticModel {
 public:
  StaticModelImpl(std::shared_ptr<const model::Model> model,
                  std::shared_ptr<StaticDevice> device,
                  const StaticOptions& options, StaticKv kv,
                  StaticMemory memory, WeightSlots weights)
      : model_(std::move(model)),
        device_(std::move(device)),
        options_(options),
        shapes_{options.rows, options.contexts},
        kv_(std::move(kv)),
        memory_(std::move(memory)),
        weights_(std::move(weights)),
        ropes_(*model_),
        programs_(model_.get(), device_.get(), options) {
    std::vector<std::vector<LayerInput>> inputs;
    for (size_t i = 0; i < weights_.num_layers(); ++i) {
      inputs.push_back(weights_.inputs(i));
    }
    steps_ = MakeSteps(config(), options_, inputs);
  }

  int64_t length() const override { return length_; }
  void Truncate(int64_t length) override {
    TC_CHECK(length >= 0 && length <= length_);
    length_ = length;
  }
  void Load(int64_t first, int64_t length, const KvSource& source) override {
    TC_CHECK(first >= 0 && first <= length_ && first <= length &&
             length <= shapes_.most_context());
    for (size_t i = 0; i < config().layers.size() && first < length; ++i) {
      kv_.Take(i, first, length - first, source);
    }
    length_ = length;
  }
  bool Holds(int64_t first, int64_t num_rows) const override {
    return PlanChunks(shapes_, first, num_rows).has_value();
  }

  Status Run(const StreamRows& x, const KvSink* sink,
             const std::function<bool()>& is_cancelled) override;
  Status Logits(std::span<const float> x, std::span<float> logits) override {
    TC_CHECK(options_.has_head);
    return head_.Run(programs_, memory_.of(), shapes_.rows.front(), x, logits);
  }

  void SetLayerSource(LayerSource source) override {
    source_ = std::move(source);
  }
  void SetOpenedSink(OpenedSink sink) override {
    TC_CHECK(options_.shows_opened);
    opened_ = std::move(sink);
  }
  uint64_t num_bytes() const override {
    return kv_.num_bytes() + memory_.num_bytes() + weights_.num_bytes();
  }
  const StaticTimes& times() const override { return times_; }
  void ResetTimes() override { times_ = {.compile_s = times_.compile_s}; }
  std::string Describe() const override;

 private:
  const model::Config& config() const { return model_->config(); }
  size_t width() const { return config().width; }

  // Compiles what is missing.
  Status Prepare(const std::vector<Chunk>& chunks);
  Status RunSteps(const std::vector<Chunk>& chunks, const StreamRows& x,
                  HandOver& hand_over,
                  const std::function<bool()>& is_cancelled);
  // Rows [first, first + count) of x, by a step's program.
  Status RunChunk(const Step& step, const Chunk& chunk, const StreamRows& x,
                  HandOver& hand_over);
  void FillPositions(const Chunk& chunk);
  Status Bind(LayersProgram& program, const Step& step);
  // Where a program has a tensor when it computes the step.
  std::byte* PlaceOf(std::string_view name, const Step& step) const;
  std::byte* PlaceOfKv(std::string_view name, const Step& step) const;

  static ProgramKey KeyOf(const Step& step, const Chunk& chunk) {
    return {step.program_of, step.num_layers, chunk.rows, chunk.context};
  }

  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<StaticDevice> device_;
  StaticOptions options_;
  StaticShapes shapes_;
  StaticKv kv_;
  StaticMemory memory_;
  WeightSlots weights_;  // without layers where weights are constants
  RopeRows ropes_;
  std::vector<Step> steps_;
  StaticPrograms programs_;
  StaticHead head_;
  std::optional<LayerSource> source_;
  OpenedSink opened_;  // or empty
  int64_t length_ = 0;
  // Of which mask and angles are there, with its position.
  std::optional<std::pair<Chunk, int64_t>> filled_;
  StaticTimes times_;
};

template <typename T>
std::byte* Bytes(T* place) {
  return reinterpret_cast<std::byte*>(place);
}

Status StaticModelImpl::Run(const StreamRows& x, const KvSink* sink,
                            const std::function<bool()>& is_cancelled) {
  TC_CHECK(x.stride >= width());
  const auto num_rows = static_cast<int64_t>(x.num_rows);
  TC_ASSIGN_OR_RETURN(const std::vector<Chunk> chunks,
                      PlanChunks(shapes_, length_, num_rows));
  TC_RETURN_IF_ERROR(Prepare(chunks));
  const Stopwatch watch;
  HandOver hand_over(&kv_, sink, memory_.of().key_rows);
  TC_RETURN_IF_ERROR(hand_over.Start());
  TC_RETURN_IF_ERROR(RunSteps(chunks, x, hand_over, is_cancelled));
  hand_over.Finish(times_);
  times_.whole_s += watch.Seconds();
  times_.num_rows += static_cast<uint64_t>(num_rows);
  for (const Chunk& chunk : chunks) {
    times_.num_padded += static_cast<uint64_t>(chunk.rows - chunk.count);
  }
  length_ += num_rows;
  return {};
}

Status StaticModelImpl::Prepare(const std::vector<Chunk>& chunks) {
  std::vector<ProgramKey> missing;
  for (const Step& step : steps_) {
    for (const Chunk& chunk : chunks) {
      const ProgramKey key = KeyOf(step, chunk);
      if (programs_.Find(key) == nullptr &&
          std::ranges::find(missing, key) == missing.end()) {
        missing.push_back(key);
      }
    }
  }
  const Stopwatch watch;
  for (size_t i = 0; i < missing.size(); ++i) {
    ReportProgress(options_.progress, "compile", i, missing.size());
    TC_RETURN_IF_ERROR(programs_.Make(missing[i]));
  }
  if (!missing.empty()) {
    ReportProgress(options_.progress, "compile", missing.size(),
                   missing.size());
    times_.compile_s += watch.Seconds();
  }
  return {};
}

Status StaticModelImpl::RunSteps(const std::vector<Chunk>& chunks,
                                 const StreamRows& x, HandOver& hand_over,
                                 const std::function<bool()>& is_cancelled) {
  std::optional<LayerFeed> feed;
  if (options_.weights_are_inputs) {
    feed.emplace(LayerFeedParts{.model = model_.get(),
                                .slots = &weights_,
                                .source = source_ ? &*source_ : nullptr,
                                .form = options_.weights,
                                .num_threads = options_.unpack_threads});
    TC_RETURN_IF_ERROR(feed->Start());
  }
  for (const Step& step : steps_) {
    if (feed) TC_RETURN_IF_ERROR(feed->Await(step.first_layer, times_));
    for (const Chunk& chunk : chunks) {
      if (is_cancelled && is_cancelled()) {
        return Fail(ErrorCode::kCancelled, "cancelled");
      }
      TC_RETURN_IF_ERROR(RunChunk(step, chunk, x, hand_over));
    }
    if (feed) feed->Leave(step.first_layer);
  }
  return {};
}

Status StaticModelImpl::RunChunk(const Step& step, const Chunk& chunk,
                                 const StreamRows& x, HandOver& hand_over) {
  LayersProgram& program = *programs_.Find(KeyOf(step, chunk));
  const StaticActivations& of = memory_.of();
  const auto first_row = static_cast<size_t>(chunk.first);
  const auto count = static_cast<size_t>(chunk.count);
  TakeRows(x, first_row, count, width(), of.x);
  PadRows(count, static_cast<size_t>(chunk.rows), width(), of.x);
  FillPositions(chunk);
  TC_RETURN_IF_ERROR(Bind(program, step));
  const Stopwatch watch;
  TC_RETURN_IF_ERROR(program.program->Infer());
  times_.infer_s += watch.Seconds();
  GiveRows(of.y, first_row, count, width(), x);
  const int64_t first = length_ + chunk.first;
  if (opened_) opened_(step.first_layer, first, chunk.count, of.opened);
  for (size_t i = 0; i < step.num_layers; ++i) {
    const auto& [k, v] = of.new_kv[i];
    const size_t layer_idx = step.first_layer + i;
    TC_RETURN_IF_ERROR(kv_.Keep(layer_idx, first, chunk.count, k, v));
    hand_over.Add(layer_idx, first, chunk.count);
  }
  return {};
}

void StaticModelImpl::FillPositions(const Chunk& chunk) {
  const int64_t position = length_ + chunk.first;
  if (filled_ == std::pair(chunk, position)) return;
  filled_.emplace(chunk, position);
  const StaticActivations& of = memory_.of();
  FillMask(chunk, position, of.mask);
  ropes_.Fill(chunk, position, of.rope_cos, of.rope_sin);
}

Status StaticModelImpl::Bind(LayersProgram& program, const Step& step) {
  for (BoundTensor& tensor : program.tensors) {
    std::byte* place = PlaceOf(tensor.name, step);
    if (place == nullptr) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: a graph of its layers has a tensor '{}', which nothing "
                  "is known of",
                  model_->file().path(), tensor.name);
    }
    // Devices may have much to do for a new place.
    if (tensor.place == place) continue;
    TC_RETURN_IF_ERROR(program.program->Bind(tensor.name, tensor.type, place));
    tensor.place = place;
  }
  return {};
}

std::byte* StaticModelImpl::PlaceOf(std::string_view name,
                                    const Step& step) const {
  if (std::byte* place = PlaceOfShared(memory_.of(), name)) return place;
  if (std::byte* place = PlaceOfKv(name, step)) return place;
  if (!options_.weights_are_inputs) return nullptr;
  const std::vector<LayerInput>& inputs = weights_.inputs(step.first_layer);
  const auto found = std::ranges::find(inputs, name, &LayerInput::name);
  if (found == inputs.end()) return nullptr;
  return weights_.places(
      step.first_layer)[static_cast<size_t>(found - inputs.begin())];
}

std::byte* StaticModelImpl::PlaceOfKv(std::string_view name,
                                      const Step& step) const {
  // One program serves all layers, with the names of the first.
  const size_t first_name = options_.weights_are_inputs ? 0 : step.first_layer;
  const auto index_of = [&](std::string_view what) {
    const std::optional<size_t> named = LayerOf(name, what);
    return named && *named >= first_name &&
                   *named < first_name + step.num_layers
               ? std::optional(*named - first_name)
               : std::nullopt;
  };
  const StaticActivations& of = memory_.of();
  if (const auto i = index_of("cache_k")) {
    return kv_.keys(step.first_layer + *i);
  }
  if (const auto i = index_of("cache_v")) {
    return kv_.values(step.first_layer + *i);
  }
  if (const auto i = index_of("new_k")) return Bytes(of.new_kv[*i].first);
  if (const auto i = index_of("new_v")) return Bytes(of.new_kv[*i].second);
  return nullptr;
}

std::string StaticModelImpl::Describe() const {
  return fmt::format(
      "{}, weights {}{}, {} rows, contexts {} to {}{}", device_->Describe(),
      NameOf(options_.weights), options_.weights_are_inputs ? " as inputs" : "",
      fmt::join(options_.rows, "/"), shapes_.contexts.front(),
      shapes_.most_context(), DescribeDeviceBytes(*model_, options_));
}

Result<WeightSlots> MakeSlots(const model::Model& model,
                              const StaticOptions& options) {
  std::vector<std::vector<LayerInput>> inputs;
  const size_t num_layers =
      options.weights_are_inputs ? model.config().layers.size() : 0;
  for (size_t i = 0; i < num_layers; ++i) {
    TC_ASSIGN_OR_RETURN(std::vector<LayerInput> layer,
                        LayerInputs(model, i, options.weights));
    inputs.push_back(std::move(layer));
  }
  return WeightSlots::Create(std::move(inputs));
}

Status CheckLayersPerProgram(const StaticOptions& options) {
  if (!options.weights_are_inputs || options.layers_per_program <= 1) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "static graphs of {} layers, and weights as inputs of a graph of "
              "one: only one of the two",
              options.layers_per_program);
}

}  // namespace

Result<std::unique_ptr<StaticModel>> StaticModel::Create(
    std::shared_ptr<const model::Model> model,
    std::shared_ptr<StaticDevice> device, const StaticOptions& options) {
  TC_CHECK(model != nullptr && device != nullptr);
  StaticOptions listed = options;
  if (listed.contexts.empty()) {
    listed.contexts = ContextsFor(listed.context, listed.rows);
  }
  TC_RETURN_IF_ERROR(CheckShapes({listed.rows, listed.contexts}));
  TC_RETURN_IF_ERROR(CheckLayersPerProgram(listed));
  TC_RETURN_IF_ERROR(CheckCanBuild(*model));
  TC_CHECK(!listed.shows_opened ||
           (listed.weights_are_inputs && listed.kv == KvForm::kAppend));
  if (listed.kv != KvForm::kAppend) {
    return MakeWholeCacheModel(std::move(model), std::move(device), listed);
  }
  TC_ASSIGN_OR_RETURN(
      StaticKv kv, StaticKv::Create(&model->config(), listed.contexts.back()));
  TC_ASSIGN_OR_RETURN(StaticMemory memory,
                      StaticMemory::Create(model->config(), listed));
  TC_ASSIGN_OR_RETURN(WeightSlots weights, MakeSlots(*model, listed));
  return std::make_unique<StaticModelImpl>(
      std::move(model), std::move(device), listed, std::move(kv),
      std::move(memory), std::move(weights));
}

}  // namespace thermocline::npu
