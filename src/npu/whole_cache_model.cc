#include "npu/whole_cache_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "npu/block.h"
#include "npu/position_rows.h"
#include "npu/static_kv.h"
#include "npu/static_memory.h"
#include "npu/static_programs.h"
#include "npu/static_steps.h"

namespace thermocline::npu {
namespace {

// Of a layer and of a whole context, in turns: a call reads one and writes the
// other.
using CachePair = std::array<StaticKv, 2>;

class WholeCacheModel final : public StaticModel {
 public:
  WholeCacheModel(std::shared_ptr<const model::Model> model,
                  std::shared_ptr<StaticDevice> device,
                  const StaticOptions& options, CachePair caches,
                  StaticMemory memory, os::AlignedBuffer positions)
      : model_(std::move(model)),
        device_(std::move(device)),
        options_(options),
        caches_(std::move(caches)),
        memory_(std::move(memory)),
        positions_(std::move(positions)),
        ropes_(*model_),
        programs_(model_.get(), device_.get(), options_),
        steps_(MakeSteps(model_->config(), options_, {})),
        newest_(steps_.size()) {}

  int64_t length() const override { return length_; }
  void Truncate(int64_t length) override {
    TC_CHECK(length == 0 || length == length_);
    if (length == length_) return;
    length_ = 0;
    must_reset_ = true;
  }
  void Load(int64_t first, int64_t length,
            const KvSource& /*source*/) override {
    TC_CHECK(first == length);  // a comparison has no other cache beside it
  }
  bool Holds(int64_t first, int64_t num_rows) const override {
    return first + num_rows <= context();
  }

  Status Run(const StreamRows& x, const KvSink* sink,
             const std::function<bool()>& is_cancelled) override;
  Status Logits(std::span<const float> x, std::span<float> logits) override {
    return heads_.Run(programs_, memory_.of(), options_.rows.front(), x,
                      logits);
  }

  void SetLayerSource(LayerSource /*source*/) override {}
  void SetOpenedSink(OpenedSink /*sink*/) override {}
  uint64_t num_bytes() const override {
    return caches_[0].num_bytes() + caches_[1].num_bytes() +
           memory_.num_bytes() + positions_.size();
  }
  const StaticTimes& times() const override { return times_; }
  void ResetTimes() override { times_ = {.compile_s = times_.compile_s}; }
  std::string Describe() const override {
    return fmt::format(
        "{}, weights {}, {} rows, context {}, keys and values {}{}",
        device_->Describe(), NameOf(options_.weights),
        fmt::join(options_.rows, "/"), context(), NameOf(options_.kv),
        DescribeDeviceBytes(*model_, options_));
  }

 private:
  int64_t context() const { return options_.contexts.back(); }
  size_t width() const { return model_->config().width; }
  bool is_stateful() const { return options_.kv == KvForm::kStateful; }

  static ProgramKey KeyOf(const Step& step, int64_t rows, int64_t context) {
    return {step.program_of, step.num_layers, rows, context};
  }
  int64_t RowsFor(int64_t left) const {
    return *std::ranges::find_if(options_.rows.rbegin(), options_.rows.rend(),
                                 [&](int64_t rows) { return rows <= left; });
  }
  // Compiles what is missing for so many rows; a state of no positions.
  Status Prepare(int64_t num_rows);
  // Rows [done, done + rows) of x, which are at length() + done.
  Status RunRows(int64_t rows, int64_t done, const StreamRows& x);
  void FillPositions(int64_t rows, int64_t position);
  Status Bind(LayersProgram& program, size_t step_idx);
  std::byte* PlaceOf(std::string_view name, size_t step_idx) const;

  std::shared_ptr<const model::Model> model_;
  std::shared_ptr<StaticDevice> device_;
  StaticOptions options_;
  CachePair caches_;
  StaticMemory memory_;
  os::AlignedBuffer positions_;  // I64 [T]
  RopeRows ropes_;
  StaticPrograms programs_;
  std::vector<Step> steps_;
  std::vector<uint8_t> newest_;  // [steps] which cache of the two
  StaticHead heads_;
  int64_t length_ = 0;
  bool must_reset_ = false;
  StaticTimes times_;
};

Status WholeCacheModel::Prepare(int64_t num_rows) {
  const Stopwatch watch;
  for (int64_t left = num_rows; left > 0; left -= RowsFor(left)) {
    for (const Step& step : steps_) {
      const ProgramKey key = KeyOf(step, RowsFor(left), context());
      if (programs_.Find(key) != nullptr) continue;
      TC_RETURN_IF_ERROR(programs_.Make(key));
    }
  }
  times_.compile_s += watch.Seconds();
  if (!must_reset_) return {};
  for (const StaticKv& cache : caches_) cache.Clear();
  TC_RETURN_IF_ERROR(programs_.Reset());
  must_reset_ = false;
  return {};
}

Status WholeCacheModel::Run(const StreamRows& x, const KvSink* sink,
                            const std::function<bool()>& is_cancelled) {
  TC_CHECK(sink == nullptr && x.stride >= width());
  const auto num_rows = static_cast<int64_t>(x.num_rows);
  if (!Holds(length_, num_rows)) {
    return Fail(ErrorCode::kResourceExhausted,
                "{} positions behind {}: the graphs' context has {}", num_rows,
                length_, context());
  }
  TC_RETURN_IF_ERROR(Prepare(num_rows));
  const Stopwatch watch;
  Status status;
  for (int64_t done = 0; done < num_rows && status.has_value();) {
    if (is_cancelled && is_cancelled()) {
      status = Fail(ErrorCode::kCancelled, "cancelled");
      break;
    }
    const int64_t rows = RowsFor(num_rows - done);
    status = RunRows(rows, done, x);
    done += rows;
  }
  if (!status.has_value()) {
    // What has rolled does not roll back.
    length_ = 0;
    must_reset_ = true;
    return status;
  }
  times_.whole_s += watch.Seconds();
  times_.num_rows += static_cast<uint64_t>(num_rows);
  length_ += num_rows;
  return {};
}

Status WholeCacheModel::RunRows(int64_t rows, int64_t done,
                                const StreamRows& x) {
  const StaticActivations& of = memory_.of();
  const auto num_rows = static_cast<size_t>(rows);
  FillPositions(rows, length_ + done);
  TakeRows(x, static_cast<size_t>(done), num_rows, width(), of.x);
  for (size_t i = 0; i < steps_.size(); ++i) {
    LayersProgram& program = *programs_.Find(KeyOf(steps_[i], rows, context()));
    TC_RETURN_IF_ERROR(Bind(program, i));
    const Stopwatch watch;
    TC_RETURN_IF_ERROR(program.program->Infer());
    times_.infer_s += watch.Seconds();
    newest_[i] ^= 1;
    std::copy_n(of.y, num_rows * width(), of.x);
  }
  GiveRows(of.x, static_cast<size_t>(done), num_rows, width(), x);
  return {};
}

void WholeCacheModel::FillPositions(int64_t rows, int64_t position) {
  const StaticActivations& of = memory_.of();
  // Of kRoll the newest row is the last column.
  const int64_t first_column =
      options_.kv == KvForm::kScatter ? 0 : context() - rows - position;
  for (int64_t t = 0; t < rows; ++t) {
    float* row = of.mask + t * context();
    std::fill(row, row + context(), kClosed);
    std::fill_n(row + first_column, position + t + 1, 0.0f);
    positions_.as<int64_t>(static_cast<size_t>(rows))[static_cast<size_t>(t)] =
        position + t;
  }
  ropes_.Fill({.count = rows, .rows = rows, .context = context()}, position,
              of.rope_cos, of.rope_sin);
}

Status WholeCacheModel::Bind(LayersProgram& program, size_t step_idx) {
  for (BoundTensor& tensor : program.tensors) {
    std::byte* place = PlaceOf(tensor.name, step_idx);
    TC_CHECK(place != nullptr);
    if (tensor.place == place) continue;
    TC_RETURN_IF_ERROR(program.program->Bind(tensor.name, tensor.type, place));
    tensor.place = place;
  }
  return {};
}

std::byte* WholeCacheModel::PlaceOf(std::string_view name,
                                    size_t step_idx) const {
  const StaticActivations& of = memory_.of();
  if (std::byte* place = PlaceOfShared(of, name)) return place;
  if (name == "positions") return positions_.data();
  const bool is_out = name.ends_with("_out");
  if (is_out) name.remove_suffix(std::string_view("_out").size());
  const StaticKv& cache = caches_[newest_[step_idx] ^ (is_out ? 1U : 0U)];
  if (const auto layer = LayerOf(name, "cache_k")) return cache.keys(*layer);
  if (const auto layer = LayerOf(name, "cache_v")) return cache.values(*layer);
  return nullptr;
}

Status CheckWholeCache(const StaticOptions& options) {
  if (options.weights_are_inputs) {
    return Fail(ErrorCode::kUnsupported,
                "weights as inputs with keys and values in the form '{}': only "
                "with '{}'",
                NameOf(options.kv), NameOf(KvForm::kAppend));
  }
  if (options.rows.empty() || options.rows.front() != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "keys and values in the form '{}' take no padding: among the "
                "numbers of rows there has to be 1",
                NameOf(options.kv));
  }
  // A program's variables are its own.
  if (options.kv == KvForm::kStateful && options.rows.size() > 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "keys and values in the form '{}' belong to one program: the "
                "number of rows has to be 1 alone",
                NameOf(options.kv));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<StaticModel>> MakeWholeCacheModel(
    std::shared_ptr<const model::Model> model,
    std::shared_ptr<StaticDevice> device, const StaticOptions& options) {
  TC_RETURN_IF_ERROR(CheckWholeCache(options));
  // The device keeps a state itself.
  const int64_t num_positions =
      options.kv == KvForm::kStateful ? 1 : options.contexts.back();
  CachePair caches;
  for (StaticKv& cache : caches) {
    TC_ASSIGN_OR_RETURN(cache,
                        StaticKv::Create(&model->config(), num_positions));
  }
  TC_ASSIGN_OR_RETURN(StaticMemory memory,
                      StaticMemory::Create(model->config(), options));
  TC_ASSIGN_OR_RETURN(
      os::AlignedBuffer positions,
      os::AlignedBuffer::Allocate(static_cast<size_t>(options.rows.back()) *
                                  sizeof(int64_t)));
  return std::make_unique<WholeCacheModel>(
      std::move(model), std::move(device), options, std::move(caches),
      std::move(memory), std::move(positions));
}

}  // namespace thermocline::npu
