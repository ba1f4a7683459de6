#include "bench/op_host.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "compute/carver.h"
#include "compute/product_scratch.h"
#include "engine/ffn/dense_ffn.h"
#include "engine/ffn/ffn_scratch.h"
#include "engine/ffn/neuron_ffn.h"
#include "engine/ffn/record_store.h"
#include "neuron/record.h"
#include "os/memory.h"
#include "os/thread_pool.h"
#include "probe/memory.h"

namespace thermocline::bench {
namespace {

constexpr int kRoofRounds = 7;
constexpr size_t kFillGrain = 32;  // rows
// A round reads matrices once and the records of some five layers (of all
// sparsities together): so many fewer matrices come around no sooner.
constexpr size_t kMatricesShare = 5;

TensorView MatrixOf(DType dtype, const std::byte* data, size_t num_rows,
                    size_t n) {
  return {.dtype = dtype,
          .shape = {.ne = {n, num_rows, 1, 1}, .rank = 2},
          .data = data};
}

class HostSubject final : public OpSubject {
 public:
  HostSubject(const OpLayer& layer, const OpHostOptions& options)
      : layer_(layer), options_(options) {}

  Status Prepare();

  const OpFacts& facts() const override { return facts_; }
  Result<double> Dense() override;
  Result<double> Sparse(std::span<const uint32_t> ids,
                        size_t num_rows) override;
  std::span<const float> out(size_t row) const override {
    return out_.span(row);
  }
  uint64_t dense_bytes() const override {
    return 3 * layer_.shape().num_padded() *
           BytesOf(layer_.shape().dtype, layer_.shape().width);
  }
  uint64_t neuron_bytes() const override {
    return layer_.shape().neuron_bytes();
  }

 private:
  // A copy of the layer, in either form; its executor has references to it.
  struct Copy {
    os::AlignedBuffer memory;
    model::FfnWeights weights;
    std::unique_ptr<engine::RecordStore> store;
    std::unique_ptr<engine::NeuronFfn> sparse;
    std::unique_ptr<engine::FfnExecutor> dense;
  };

  Status MeasureRoof(uint64_t working_set);
  Status CarveScratch();
  void Carve(compute::Carver& carver);
  Status AddRecords();
  Status AddMatrices();
  void FillRecords(std::byte* out) const;
  void FillMatrices(std::byte* out) const;

  const OpLayer& layer_;
  OpHostOptions options_;
  OpFacts facts_;
  neuron::RecordLayout layout_;
  model::Config config_;
  std::unique_ptr<os::ThreadPool> pool_;
  os::AlignedBuffer scratch_memory_;
  compute::Compute compute_;
  engine::FfnScratch scratch_;
  engine::PieceResults board_;
  compute::Rows x_, out_;
  std::vector<std::unique_ptr<Copy>> records_, matrices_;
  size_t next_records_ = 0, next_matrices_ = 0;
};

Status HostSubject::Prepare() {
  const OpShape& shape = layer_.shape();
  TC_ASSIGN_OR_RETURN(
      layout_, neuron::MakeRecordLayout(shape.dtype, shape.dtype, shape.dtype,
                                        shape.width));
  const uint64_t layer_bytes =
      std::max<uint64_t>(layout_.stride * shape.num_padded(), dense_bytes());
  TC_RETURN_IF_ERROR(CheckOpRoom(layer_bytes, options_.most_bytes));
  const OpCopies copies = CopiesFor(layer_bytes, probe::LastLevelCacheBytes(),
                                    options_.most_bytes, kMatricesShare);
  facts_ = {.name = "host",
            .in_cache = copies.in_cache,
            .num_copies = copies.records,
            .num_bytes = copies.records * layout_.stride * shape.num_padded() +
                         copies.matrices * dense_bytes()};
  if (options_.measures_roof && !copies.in_cache) {
    TC_RETURN_IF_ERROR(MeasureRoof(copies.records * layer_bytes));
  }
  TC_ASSIGN_OR_RETURN(
      pool_, os::ThreadPool::Create({.num_threads = options_.num_threads}));
  TC_RETURN_IF_ERROR(CarveScratch());
  for (size_t i = 0; i < copies.records; ++i) TC_RETURN_IF_ERROR(AddRecords());
  for (size_t i = 0; i < copies.matrices; ++i) {
    TC_RETURN_IF_ERROR(AddMatrices());
  }
  return {};
}

// Before the weights are there: both take as much memory.
Status HostSubject::MeasureRoof(uint64_t working_set) {
  const probe::ProbeSize size =
      probe::ProbeSizeFor(probe::LastLevelCacheBytes(),
                          os::ReadMemoryInfo().available_bytes, working_set);
  TC_ASSIGN_OR_RETURN(auto probe, probe::ReadProbe::Create(options_.num_threads,
                                                           size.num_bytes));
  TC_ASSIGN_OR_RETURN(facts_.roof_gb_per_s, probe.Measure(kRoofRounds));
  return {};
}

Status HostSubject::CarveScratch() {
  const OpShape& shape = layer_.shape();
  config_.width = shape.width;
  config_.num_layers = 1;
  config_.layers = {model::LayerSpec{
      .ffn = {.activation = Activation::kSilu, .width = shape.num_padded()}}};
  compute::Carver plan(nullptr);
  Carve(plan);
  TC_ASSIGN_OR_RETURN(scratch_memory_,
                      os::AlignedBuffer::Allocate(plan.used()));
  compute::Carver carver(scratch_memory_.data());
  Carve(carver);
  for (size_t t = 0; t < OpLayer::kRows; ++t) {
    std::ranges::copy(layer_.x(t), x_.row(t));
  }
  return {};
}

void HostSubject::Carve(compute::Carver& carver) {
  const OpShape& shape = layer_.shape();
  compute_ = {.pool = pool_.get(),
              .kernels = &kernels::KernelsFor(options_.isa)};
  compute_.scratch = compute::CarveProducts(
      {.num_rows = OpLayer::kRows,
       .widest = std::max(shape.width, shape.num_padded()),
       .num_threads = pool_->num_threads(),
       .isa = options_.isa},
      carver);
  scratch_ = engine::CarveFfn(config_,
                              {.num_rows = OpLayer::kRows,
                               .num_threads = pool_->num_threads(),
                               .isa = options_.isa,
                               .is_sparse = true},
                              carver)
                 .front();
  x_ = carver.TakeRows(OpLayer::kRows, shape.width);
  out_ = carver.TakeRows(OpLayer::kRows, shape.width);
}

// The first copy is made, the others are copied.
Status HostSubject::AddRecords() {
  const size_t num_neurons = layer_.shape().num_padded();
  const size_t num_bytes = layout_.stride * num_neurons;
  auto copy = std::make_unique<Copy>();
  TC_ASSIGN_OR_RETURN(copy->memory, os::AlignedBuffer::Allocate(num_bytes));
  std::byte* data = copy->memory.data();
  if (records_.empty()) {
    FillRecords(data);
  } else {
    std::memcpy(data, records_.front()->memory.data(), num_bytes);
  }
  const auto views = neuron::ViewRecords(layout_, data, num_neurons);
  copy->weights.gate = views.gate;
  copy->weights.up = views.up;
  copy->weights.down_t = views.down_t;
  copy->weights.bundled = true;
  copy->store = engine::MakeMappedStore(copy->weights);
  copy->sparse = std::make_unique<engine::NeuronFfn>(
      &config_.layers.front().ffn, &copy->weights, copy->store.get(),
      engine::Listed::kCandidates, engine::kNothingRests, &compute_, &scratch_,
      &board_);
  records_.push_back(std::move(copy));
  return {};
}

Status HostSubject::AddMatrices() {
  const OpShape& shape = layer_.shape();
  auto copy = std::make_unique<Copy>();
  TC_ASSIGN_OR_RETURN(copy->memory, os::AlignedBuffer::Allocate(dense_bytes()));
  std::byte* data = copy->memory.data();
  if (matrices_.empty()) {
    FillMatrices(data);
  } else {
    std::memcpy(data, matrices_.front()->memory.data(), dense_bytes());
  }
  const size_t part = dense_bytes() / 3;
  copy->weights.gate =
      MatrixOf(shape.dtype, data, shape.num_padded(), shape.width);
  copy->weights.up =
      MatrixOf(shape.dtype, data + part, shape.num_padded(), shape.width);
  copy->weights.down =
      MatrixOf(shape.dtype, data + 2 * part, shape.width, shape.num_padded());
  copy->dense = engine::MakeDenseFfn(&config_.layers.front().ffn,
                                     &copy->weights, &compute_, &scratch_);
  matrices_.push_back(std::move(copy));
  return {};
}

void HostSubject::FillRecords(std::byte* out) const {
  pool_->ParallelFor(
      layer_.shape().num_padded(), kFillGrain,
      [&](size_t begin, size_t end, int /*worker_idx*/) {
        for (size_t i = begin; i < end; ++i) {
          std::byte* record = out + i * layout_.stride;
          layer_.WriteRow(OpPart::kGate, i, record + layout_.gate_offset());
          layer_.WriteRow(OpPart::kUp, i, record + layout_.up_offset());
          layer_.WriteRow(OpPart::kDown, i, record + layout_.down_offset());
        }
      });
}

void HostSubject::FillMatrices(std::byte* out) const {
  const OpShape& shape = layer_.shape();
  const size_t part = dense_bytes() / 3;
  const size_t row_bytes = BytesOf(shape.dtype, shape.width);
  const size_t down_row_bytes = BytesOf(shape.dtype, shape.num_padded());
  pool_->ParallelFor(
      shape.num_padded(), kFillGrain, [&](size_t begin, size_t end, int) {
        for (size_t i = begin; i < end; ++i) {
          layer_.WriteRow(OpPart::kGate, i, out + i * row_bytes);
          layer_.WriteRow(OpPart::kUp, i, out + part + i * row_bytes);
        }
      });
  pool_->ParallelFor(
      shape.width, kFillGrain, [&](size_t begin, size_t end, int) {
        for (size_t c = begin; c < end; ++c) {
          layer_.WriteDownRow(c, out + 2 * part + c * down_row_bytes);
        }
      });
}

Result<double> HostSubject::Dense() {
  Copy& copy = *matrices_[next_matrices_++ % matrices_.size()];
  const engine::FfnCall call = {.phase = engine::Phase::kGenerate,
                                .num_rows = 1,
                                .stream = x_,
                                .normed = x_,
                                .out = out_};
  const Stopwatch watch;
  TC_RETURN_IF_ERROR(copy.dense->Run(call));
  return watch.Seconds();
}

Result<double> HostSubject::Sparse(std::span<const uint32_t> ids,
                                   size_t num_rows) {
  Copy& copy = *records_[next_records_++ % records_.size()];
  const std::vector<engine::NeuronList> lists(OpLayer::kRows,
                                              {ids.data(), ids.size()});
  const Stopwatch watch;
  for (size_t done = 0; done < num_rows; done += OpLayer::kRows) {
    const size_t count = std::min(OpLayer::kRows, num_rows - done);
    TC_RETURN_IF_ERROR(
        copy.sparse->Run(x_, std::span(lists).first(count), scratch_.up, out_));
  }
  return watch.Seconds();
}

}  // namespace

Status CheckOpRoom(uint64_t layer_bytes, uint64_t most_bytes) {
  if (2 * layer_bytes <= most_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "the layer has {}, as records and as matrices twice that, more "
              "than the {} that weights may take",
              FormatBytes(layer_bytes), FormatBytes(most_bytes));
}

Result<std::unique_ptr<OpSubject>> MakeHostSubject(
    const OpLayer& layer, const OpHostOptions& options) {
  auto host = std::make_unique<HostSubject>(layer, options);
  TC_RETURN_IF_ERROR(host->Prepare());
  return host;
}

}  // namespace thermocline::bench
