#include "bench/op_device.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "bench/op_host.h"
#include "compute/carver.h"

namespace thermocline::bench {
namespace {

using device::Buffer;
using device::MemoryKind;

// No card has a larger cache between its memory and its cores.
constexpr uint64_t kCardCacheBytes = uint64_t{128} << 20;
// Enqueued beside the first; of a simulated device all are alike.
constexpr int kMoreRuns = 8;
constexpr size_t kFillBytes = 4 << 20;

}  // namespace

DeviceSubject::DeviceSubject(const OpLayer& layer,
                             const OpDeviceOptions& options)
    : layer_(layer), device_(options.device), counts_(options.counts) {}

Result<std::unique_ptr<DeviceSubject>> DeviceSubject::Make(
    const OpLayer& layer, const OpDeviceOptions& options) {
  std::unique_ptr<DeviceSubject> subject(new DeviceSubject(layer, options));
  TC_RETURN_IF_ERROR(subject->Prepare(options));
  return subject;
}

int DeviceSubject::more_runs() const {
  return sim() != nullptr ? 1 : kMoreRuns;
}

size_t DeviceSubject::num_words() const {
  return kernels::DeviceSetWords(layer_.shape().num_neurons);
}

double DeviceSubject::Now() const {
  static const Stopwatch watch;
  return sim() != nullptr ? sim()->now() : watch.Seconds();
}

Result<Buffer> DeviceSubject::Room(uint64_t num_bytes, MemoryKind kind,
                                   std::string_view what) {
  return device_->Allocate(num_bytes, kind, what);
}

Status DeviceSubject::Prepare(const OpDeviceOptions& options) {
  const OpShape& shape = layer_.shape();
  TC_ASSIGN_OR_RETURN(const device::DeviceInfo info, device_->Info());
  const device::RowLayout& layout = device_->layout();
  if (!layout.CanCompute(shape.dtype)) {
    return Fail(ErrorCode::kUnsupported, "{}: it computes no {}", info.id,
                NameOf(shape.dtype));
  }
  facts_ = {.name = info.id,
            .card = info.name,
            .roof_gb_per_s = options.roof_gb_per_s,
            .is_stated = sim() != nullptr};
  row_bytes_ = layout.RowBytes(shape.dtype, shape.width);
  down_row_bytes_ = layout.RowBytes(shape.dtype, shape.num_padded());
  record_bytes_ = 3 * row_bytes_;
  raw_row_.resize(
      BytesOf(shape.dtype, std::max(shape.width, shape.num_padded())));
  TC_RETURN_IF_ERROR(SetCopies(options));
  TC_ASSIGN_OR_RETURN(stream_, device_->MakeStream(device::Priority::kNormal));
  TC_RETURN_IF_ERROR(AllocateSmall(options.most_moved));
  SetArguments();
  if (!computes()) return {};
  TC_RETURN_IF_ERROR(FillRecords());
  TC_RETURN_IF_ERROR(FillMatrices());
  return device_->Synchronize(stream_);
}

Status DeviceSubject::SetCopies(const OpDeviceOptions& options) {
  const uint64_t layer_bytes = std::max(
      dense_bytes(), uint64_t{record_bytes_} * layer_.shape().num_neurons);
  TC_RETURN_IF_ERROR(CheckOpRoom(layer_bytes, options.most_bytes));
  // A simulated device has no cache.
  copies_ = sim() != nullptr ? OpCopies()
                             : CopiesFor(layer_bytes, kCardCacheBytes,
                                         options.most_bytes, 1);
  facts_.in_cache = copies_.in_cache;
  if (facts_.in_cache) facts_.roof_gb_per_s.reset();
  facts_.num_copies = copies_.records;
  const uint64_t records =
      copies_.records * layer_.shape().num_neurons * record_bytes_;
  const uint64_t matrices = copies_.matrices * dense_bytes();
  facts_.num_bytes = records + matrices;
  TC_ASSIGN_OR_RETURN(
      records_, Room(records, MemoryKind::kDevice, "the layer's records"));
  TC_ASSIGN_OR_RETURN(
      matrices_, Room(matrices, MemoryKind::kDevice, "the layer's matrices"));
  return {};
}

uint64_t DeviceSubject::dense_bytes() const {
  return 2 * layer_.shape().num_padded() * row_bytes_ +
         layer_.shape().width * down_row_bytes_;
}

// What is no weight: one buffer for all; slots and inputs are written.
Status DeviceSubject::AllocateSmall(size_t most_moved) {
  const OpShape& shape = layer_.shape();
  const size_t width = shape.width, padded = shape.num_padded();
  const auto carve = [&](compute::Carver carver) {
    move_.x = sparse_.x = carver.Take<float>(OpLayer::kRows, width);
    move_.out = sparse_.out = carver.Take<float>(OpLayer::kRows, width);
    sets_ = carver.Take<uint32_t>(num_sets() * OpLayer::kRows, num_words());
    sparse_.slot_of = carver.Take<int32_t>(1, shape.num_neurons);
    moved_slots_ = carver.Take<int32_t>(1, shape.num_neurons);
    gate_.out = carver.Take<float>(1, padded);
    up_.out = carver.Take<float>(1, padded);
    gate_.scratch = up_.scratch = down_.scratch = carver.Take<std::byte>(
        1, kernels::QuantizedRowsBytes(std::max(width, padded), 1));
    move_.scratch = sparse_.scratch = carver.Take<std::byte>(
        1, kernels::SparseFfnScratchBytes(width, shape.num_neurons,
                                          OpLayer::kRows));
    return carver.used();
  };
  const uint64_t num_bytes = carve(compute::Carver(nullptr));
  TC_ASSIGN_OR_RETURN(small_,
                      Room(num_bytes, MemoryKind::kDevice, "inputs and sums"));
  carve(compute::Carver(small_.data()));
  const uint64_t moved_bytes = std::max<size_t>(most_moved, 1) * record_bytes_;
  TC_ASSIGN_OR_RETURN(
      moved_, Room(moved_bytes, MemoryKind::kDevice, "records that move"));
  TC_ASSIGN_OR_RETURN(
      pinned_, Room(moved_bytes, MemoryKind::kPinned, "records that move"));
  std::vector<int32_t> slots(shape.num_neurons);
  std::iota(slots.begin(), slots.end(), 0);
  TC_RETURN_IF_ERROR(
      device_->Copy(stream_, const_cast<int32_t*>(sparse_.slot_of),
                    slots.data(), slots.size() * sizeof(int32_t)));
  for (size_t t = 0; t < OpLayer::kRows; ++t) {
    TC_RETURN_IF_ERROR(
        device_->Copy(stream_, const_cast<float*>(sparse_.x) + t * width,
                      layer_.x(t).data(), width * sizeof(float)));
  }
  return device_->Synchronize(stream_);
}

void DeviceSubject::SetArguments() {
  const OpShape& shape = layer_.shape();
  const auto width = static_cast<uint32_t>(shape.width);
  const auto padded = static_cast<uint32_t>(shape.num_padded());
  for (kernels::SparseFfnArgs* args : {&sparse_, &move_}) {
    args->activation = Activation::kSilu;
    args->rest_below = -1.0f;
    args->n = width;
    args->num_neurons = static_cast<uint32_t>(shape.num_neurons);
    args->record_bytes = record_bytes_;
    args->gate_dtype = args->up_dtype = args->down_dtype = shape.dtype;
    args->up_offset = row_bytes_;
    args->down_offset = 2 * row_bytes_;
  }
  sparse_.num_slots = sparse_.num_neurons;
  move_.slot_of = moved_slots_;
  move_.records = moved_.data();
  for (kernels::GemvArgs* args : {&gate_, &up_}) {
    args->weights = {.row_bytes = row_bytes_,
                     .dtype = shape.dtype,
                     .num_rows = padded,
                     .n = width};
    args->x = sparse_.x;
  }
  activate_ = {.activation = Activation::kSilu,
               .count = padded,
               .gate = gate_.out,
               .up = up_.out,
               .out = up_.out};
  down_.weights = {.row_bytes = down_row_bytes_,
                   .dtype = shape.dtype,
                   .num_rows = width,
                   .n = padded};
  down_.x = up_.out;
  down_.out = sparse_.out;
}

template <typename Write>
Status DeviceSubject::FillRows(std::byte* to, size_t num_rows, size_t row_bytes,
                               const Write& write) {
  const size_t most = std::max<size_t>(kFillBytes / row_bytes, 1);
  std::vector<std::byte> rows(std::min(most, num_rows) * row_bytes);
  for (size_t begin = 0; begin < num_rows; begin += most) {
    const size_t count = std::min(most, num_rows - begin);
    for (size_t i = 0; i < count; ++i) {
      write(begin + i, rows.data() + i * row_bytes);
    }
    TC_RETURN_IF_ERROR(device_->Copy(stream_, to + begin * row_bytes,
                                     rows.data(), count * row_bytes));
    TC_RETURN_IF_ERROR(device_->Synchronize(stream_));
  }
  return {};
}

void DeviceSubject::PackRecord(size_t neuron, std::byte* out) {
  const OpShape& shape = layer_.shape();
  for (const OpPart part : {OpPart::kGate, OpPart::kUp, OpPart::kDown}) {
    layer_.WriteRow(part, neuron, raw_row_.data());
    device_->layout().Pack(shape.dtype, raw_row_.data(), shape.width,
                           out + static_cast<size_t>(part) * row_bytes_);
  }
}

Status DeviceSubject::FillRecords() {
  const size_t num_neurons = layer_.shape().num_neurons;
  TC_RETURN_IF_ERROR(
      FillRows(records_.data(), num_neurons, record_bytes_,
               [&](size_t i, std::byte* out) { PackRecord(i, out); }));
  const size_t num_bytes = num_neurons * record_bytes_;
  for (size_t copy = 1; copy < copies_.records; ++copy) {
    TC_RETURN_IF_ERROR(device_->Copy(stream_,
                                     records_.data() + copy * num_bytes,
                                     records_.data(), num_bytes));
  }
  return {};
}

Status DeviceSubject::FillMatrices() {
  const OpShape& shape = layer_.shape();
  const device::RowLayout& layout = device_->layout();
  std::byte* to = matrices_.data();
  for (const OpPart part : {OpPart::kGate, OpPart::kUp}) {
    TC_RETURN_IF_ERROR(FillRows(
        to, shape.num_padded(), row_bytes_, [&](size_t i, std::byte* out) {
          layer_.WriteRow(part, i, raw_row_.data());
          layout.Pack(shape.dtype, raw_row_.data(), shape.width, out);
        }));
    to += shape.num_padded() * row_bytes_;
  }
  TC_RETURN_IF_ERROR(
      FillRows(to, shape.width, down_row_bytes_, [&](size_t c, std::byte* out) {
        layer_.WriteDownRow(c, raw_row_.data());
        layout.Pack(shape.dtype, raw_row_.data(), shape.num_padded(), out);
      }));
  for (size_t copy = 1; copy < copies_.matrices; ++copy) {
    TC_RETURN_IF_ERROR(device_->Copy(stream_,
                                     matrices_.data() + copy * dense_bytes(),
                                     matrices_.data(), dense_bytes()));
  }
  return {};
}

template <typename Enqueue>
Result<double> DeviceSubject::SecondsEach(const Enqueue& enqueue) {
  const int more = more_runs();
  double seconds[2];
  for (const int round : {0, 1}) {
    const double begin = Now();
    for (int i = 0; i < 1 + round * more; ++i) TC_RETURN_IF_ERROR(enqueue());
    TC_RETURN_IF_ERROR(device_->Synchronize(stream_));
    seconds[round] = Now() - begin;
  }
  // Noise may say that more work took less.
  return std::max((seconds[1] - seconds[0]) / more, 1e-9);
}

Status DeviceSubject::EnqueueDense() {
  const size_t part = layer_.shape().num_padded() * row_bytes_;
  const std::byte* base =
      matrices_.data() + next_matrices_++ % copies_.matrices * dense_bytes();
  gate_.weights.rows = base;
  up_.weights.rows = base + part;
  down_.weights.rows = base + 2 * part;
  TC_RETURN_IF_ERROR(device_->Run(stream_, gate_));
  TC_RETURN_IF_ERROR(device_->Run(stream_, up_));
  TC_RETURN_IF_ERROR(device_->Run(stream_, activate_));
  return device_->Run(stream_, down_);
}

Status DeviceSubject::EnqueueSparse(kernels::SparseFfnArgs args,
                                    size_t num_rows) {
  for (size_t done = 0; done < num_rows; done += OpLayer::kRows) {
    args.num_tokens =
        static_cast<uint32_t>(std::min(OpLayer::kRows, num_rows - done));
    TC_RETURN_IF_ERROR(device_->Run(stream_, args));
  }
  return {};
}

Status DeviceSubject::ReadOut(size_t num_rows) {
  out_.clear();
  if (!computes()) return {};
  out_.resize(std::min(num_rows, OpLayer::kRows) * layer_.shape().width);
  TC_RETURN_IF_ERROR(device_->Copy(stream_, out_.data(), sparse_.out,
                                   out_.size() * sizeof(float)));
  return device_->Synchronize(stream_);
}

std::span<const float> DeviceSubject::out(size_t row) const {
  if (out_.empty()) return {};
  return std::span(out_).subspan(row * layer_.shape().width,
                                 layer_.shape().width);
}

Result<double> DeviceSubject::Dense() {
  TC_ASSIGN_OR_RETURN(const double seconds,
                      SecondsEach([&] { return EnqueueDense(); }));
  TC_RETURN_IF_ERROR(ReadOut(1));
  return seconds;
}

// One for each operation of SecondsEach, the last one's `ids`. The others are
// the same numbers further on: equal ones would be in the card's cache.
Status DeviceSubject::PutSets(std::span<const uint32_t> ids) {
  const size_t num_neurons = layer_.shape().num_neurons;
  std::vector<uint32_t> sets(num_sets() * OpLayer::kRows * num_words());
  for (size_t s = 0; s < num_sets(); ++s) {
    const size_t shift = (num_sets() - 1 - s) * (num_neurons / num_sets());
    for (size_t t = 0; t < OpLayer::kRows; ++t) {
      uint32_t* words = sets.data() + (s * OpLayer::kRows + t) * num_words();
      for (const uint32_t id : ids) {
        const size_t i = (id + shift) % num_neurons;
        words[i / 32] |= uint32_t{1} << (i % 32);
      }
    }
  }
  TC_RETURN_IF_ERROR(device_->Copy(stream_, sets_, sets.data(),
                                   sets.size() * sizeof(uint32_t)));
  return device_->Synchronize(stream_);
}

Result<double> DeviceSubject::Sparse(std::span<const uint32_t> ids,
                                     size_t num_rows) {
  const size_t layer_bytes = layer_.shape().num_neurons * record_bytes_;
  TC_RETURN_IF_ERROR(PutSets(ids));
  if (!computes()) *counts_ = {.listed = ids.size(), .opened = ids.size()};
  sparse_.sets = sets_;
  TC_ASSIGN_OR_RETURN(const double seconds, SecondsEach([&]() -> Status {
                        sparse_.records =
                            records_.data() +
                            next_records_++ % copies_.records * layer_bytes;
                        TC_RETURN_IF_ERROR(EnqueueSparse(sparse_, num_rows));
                        sparse_.sets += OpLayer::kRows * num_words();
                        return {};
                      }));
  TC_RETURN_IF_ERROR(ReadOut(num_rows));
  return seconds;
}

Status DeviceSubject::SetMoved(std::span<const uint32_t> ids) {
  std::vector<int32_t> slots(layer_.shape().num_neurons, -1);
  num_moved_ = ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    slots[ids[i]] = static_cast<int32_t>(i);
    if (computes()) PackRecord(ids[i], pinned_.data() + i * record_bytes_);
  }
  move_.num_slots = static_cast<uint32_t>(ids.size());
  TC_RETURN_IF_ERROR(device_->Copy(stream_, moved_slots_, slots.data(),
                                   slots.size() * sizeof(int32_t)));
  return device_->Synchronize(stream_);
}

Result<OpMoveTimes> DeviceSubject::Move(size_t num_rows) {
  if (!computes()) *counts_ = {.listed = num_moved_, .opened = num_moved_};
  const double begin = Now();
  TC_RETURN_IF_ERROR(device_->Copy(stream_, moved_.data(), pinned_.data(),
                                   num_moved_ * record_bytes_));
  TC_RETURN_IF_ERROR(device_->Synchronize(stream_));
  const double moved = Now();
  TC_RETURN_IF_ERROR(EnqueueSparse(move_, num_rows));
  TC_RETURN_IF_ERROR(device_->Synchronize(stream_));
  const double done = Now();
  TC_RETURN_IF_ERROR(ReadOut(num_rows));
  return OpMoveTimes{.move = moved - begin, .compute = done - moved};
}

}  // namespace thermocline::bench
