#include "probe/device_rates.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/units.h"
#include "kernels/device_ops.h"

namespace thermocline::probe {
namespace {

using device::Buffer;
using device::MemoryKind;

// One matrix of F16 for all: rows as wide as those of a model of 7e9 weights.
constexpr DType kType = DType::kF16;
constexpr uint32_t kWidth = 4096;
constexpr uint64_t kLeastBytes = kMiB;
constexpr size_t kSmallestBlock = 4 * kKiB, kLargestBlock = 64 * kMiB;
// Of small blocks so many copies, of large ones as many as have this together.
constexpr size_t kMostCopies = 256, kCopiedBytes = 16 * kMiB;
constexpr int kPasses = 4;
constexpr int kRoundTrips = 20;
constexpr int kLeastRounds = 3;
// A neuron of a model 1024 wide: gate, up and down row.
constexpr uint32_t kNeuronWidth = 1024, kRowsOfNeuron = 3;
constexpr size_t kMostRecords = 1024;
// As F16 1.06 and as F32 0.011: what all memory holds, so that nothing that is
// copied changes it and every neuron fires.
constexpr uint8_t kByte = 0x3c;

double GigabytesPerSecond(uint64_t num_bytes, double seconds) {
  return static_cast<double>(num_bytes) / std::max(seconds, 1e-9) / 1e9;
}

class DeviceProbe {
 public:
  DeviceProbe(device::Device& device, std::function<double()> now)
      : device_(device), now_(std::move(now)) {}

  Status Prepare(uint64_t most_bytes);
  Result<DeviceRates> Round();

 private:
  Result<Buffer> Room(size_t num_bytes, MemoryKind kind, std::string_view what);
  Status PrepareNeurons();

  // Of one more `enqueue` among several: without what waiting costs.
  template <typename Enqueue>
  Result<double> SecondsEach(int count, const Enqueue& enqueue) {
    double seconds[2];
    for (const int extra : {0, 1}) {
      const double begin = now_();
      for (int i = 0; i < 1 + extra * count; ++i) {
        TC_RETURN_IF_ERROR(enqueue());
      }
      TC_RETURN_IF_ERROR(device_.Synchronize(stream_));
      seconds[extra] = now_() - begin;
    }
    return (seconds[1] - seconds[0]) / count;
  }

  Status MeasureMemory(DeviceRates& rates);
  Status MeasureBlocks(DeviceRates& rates);
  Status MeasureRecords(DeviceRates& rates);
  Status MeasureRoundTrip(DeviceRates& rates);

  device::Device& device_;
  std::function<double()> now_;
  device::Stream stream_{};
  uint64_t bytes_before_[2] = {};
  Buffer matrix_, small_, slots_, scratch_;  // the device's
  Buffer pinned_;
  kernels::GemvArgs product_;
  kernels::SparseFfnArgs ffn_;
  std::vector<size_t> places_;  // of the records in pinned_
};

Result<Buffer> DeviceProbe::Room(size_t num_bytes, MemoryKind kind,
                                 std::string_view what) {
  TC_ASSIGN_OR_RETURN(Buffer buffer, device_.Allocate(num_bytes, kind, what));
  if (kind == MemoryKind::kPinned) {
    std::memset(buffer.data(), kByte, num_bytes);
    return buffer;
  }
  TC_RETURN_IF_ERROR(device_.Fill(stream_, buffer.data(), kByte, num_bytes));
  return buffer;
}

Status DeviceProbe::Prepare(uint64_t most_bytes) {
  TC_ASSIGN_OR_RETURN(const device::DeviceInfo info, device_.Info());
  if (!device_.layout().CanCompute(kType)) {
    return Fail(ErrorCode::kUnsupported, "{}: it computes no F16", info.id);
  }
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinned}) {
    bytes_before_[static_cast<size_t>(kind)] = device_.allocated_bytes(kind);
  }
  const size_t row_bytes = device_.layout().RowBytes(kType, kWidth);
  const uint64_t share = std::min(most_bytes, info.free_bytes / 4);
  if (share < kLeastBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                "{}: too little memory to measure with: {} are free, of which "
                "a quarter would be used",
                info.id, FormatBytes(info.free_bytes));
  }
  const auto num_rows = static_cast<uint32_t>(share / row_bytes);
  TC_ASSIGN_OR_RETURN(stream_, device_.MakeStream(device::Priority::kNormal));
  TC_ASSIGN_OR_RETURN(matrix_, Room(num_rows * row_bytes, MemoryKind::kDevice,
                                    "the matrix to read"));
  TC_ASSIGN_OR_RETURN(
      small_, Room((kWidth + std::max(num_rows, kNeuronWidth)) * sizeof(float),
                   MemoryKind::kDevice, "the input and output of products"));
  TC_ASSIGN_OR_RETURN(pinned_,
                      Room(std::min<size_t>(kLargestBlock, matrix_.size()),
                           MemoryKind::kPinned, "what is copied to it"));
  auto* floats = reinterpret_cast<float*>(small_.data());
  product_ = {.weights = {.rows = matrix_.data(),
                          .row_bytes = row_bytes,
                          .dtype = kType,
                          .num_rows = num_rows,
                          .n = kWidth},
              .x = floats,
              .out = floats + kWidth};
  TC_RETURN_IF_ERROR(PrepareNeurons());
  return device_.Synchronize(stream_);
}

// Records in pinned memory, apart from each other, their neurons in no order.
Status DeviceProbe::PrepareNeurons() {
  const size_t row_bytes = device_.layout().RowBytes(kType, kNeuronWidth);
  const size_t count =
      std::min(kMostRecords, matrix_.size() / (kRowsOfNeuron * row_bytes) / 4);
  const size_t stride = pinned_.size() / count / 16 * 16;
  std::vector<int32_t> slots(count);
  std::iota(slots.begin(), slots.end(), 0);
  Random random(1);
  for (size_t i = count - 1; i > 0; --i) {
    std::swap(slots[i], slots[random.Below(i + 1)]);
  }
  for (const int32_t slot : slots) {
    places_.push_back(static_cast<size_t>(slot) * stride);
  }
  TC_ASSIGN_OR_RETURN(slots_, Room(count * sizeof(int32_t), MemoryKind::kDevice,
                                   "the slots of neurons"));
  TC_RETURN_IF_ERROR(device_.Copy(stream_, slots_.data(), slots.data(),
                                  count * sizeof(int32_t)));
  TC_RETURN_IF_ERROR(device_.Synchronize(stream_));  // `slots` goes
  TC_ASSIGN_OR_RETURN(
      scratch_, Room(kernels::SparseFfnScratchBytes(kNeuronWidth, count, 1),
                     MemoryKind::kDevice, "the scratch memory of neurons"));
  ffn_ = {.n = kNeuronWidth,
          .num_neurons = static_cast<uint32_t>(count),
          .num_slots = static_cast<uint32_t>(count),
          .x = product_.x,
          .slot_of = reinterpret_cast<const int32_t*>(slots_.data()),
          .records = pinned_.data(),
          .record_bytes = stride,
          .gate_dtype = kType,
          .up_dtype = kType,
          .down_dtype = kType,
          .up_offset = row_bytes,
          .down_offset = 2 * row_bytes,
          .out = product_.out,
          .scratch = scratch_.data()};
  return {};
}

Result<DeviceRates> DeviceProbe::Round() {
  DeviceRates rates;
  TC_RETURN_IF_ERROR(MeasureMemory(rates));
  TC_RETURN_IF_ERROR(MeasureBlocks(rates));
  TC_RETURN_IF_ERROR(MeasureRecords(rates));
  TC_RETURN_IF_ERROR(MeasureRoundTrip(rates));
  const auto used = [&](MemoryKind kind) {
    return device_.allocated_bytes(kind) -
           bytes_before_[static_cast<size_t>(kind)];
  };
  rates.device_bytes = used(MemoryKind::kDevice);
  rates.pinned_bytes = used(MemoryKind::kPinned);
  return rates;
}

Status DeviceProbe::MeasureMemory(DeviceRates& rates) {
  TC_ASSIGN_OR_RETURN(const double read, SecondsEach(kPasses, [&] {
                        return device_.Run(stream_, product_);
                      }));
  rates.read_bytes = product_.weights.num_bytes();
  rates.read_gb_per_s = GigabytesPerSecond(rates.read_bytes, read);
  const size_t half = matrix_.size() / 2;
  TC_ASSIGN_OR_RETURN(const double copy, SecondsEach(kPasses, [&] {
                        return device_.Copy(stream_, matrix_.data() + half,
                                            matrix_.data(), half);
                      }));
  rates.copy_gb_per_s = GigabytesPerSecond(2 * half, copy);
  return {};
}

Status DeviceProbe::MeasureBlocks(DeviceRates& rates) {
  for (size_t block = kSmallestBlock; block <= pinned_.size(); block *= 4) {
    const auto count = static_cast<int>(
        std::clamp<size_t>(kCopiedBytes / block, 1, kMostCopies));
    TC_ASSIGN_OR_RETURN(const double up, SecondsEach(count, [&] {
                          return device_.Copy(stream_, matrix_.data(),
                                              pinned_.data(), block);
                        }));
    TC_ASSIGN_OR_RETURN(const double down, SecondsEach(count, [&] {
                          return device_.Copy(stream_, pinned_.data(),
                                              matrix_.data(), block);
                        }));
    rates.blocks.push_back({.block_bytes = block,
                            .up_gb_per_s = GigabytesPerSecond(block, up),
                            .down_gb_per_s = GigabytesPerSecond(block, down)});
  }
  return {};
}

Status DeviceProbe::MeasureRecords(DeviceRates& rates) {
  const size_t record = ffn_.down_offset + ffn_.up_offset;
  TC_ASSIGN_OR_RETURN(const double gather, SecondsEach(1, [&]() -> Status {
                        std::byte* to = matrix_.data();
                        for (const size_t place : places_) {
                          TC_RETURN_IF_ERROR(device_.Copy(
                              stream_, to, pinned_.data() + place, record));
                          to += record;
                        }
                        return {};
                      }));
  TC_ASSIGN_OR_RETURN(const double in_place, SecondsEach(kPasses, [&] {
                        return device_.Run(stream_, ffn_);
                      }));
  rates.record_bytes = record;
  rates.num_records = places_.size();
  const uint64_t num_bytes = record * places_.size();
  rates.gather_gb_per_s = GigabytesPerSecond(num_bytes, gather);
  rates.in_place_gb_per_s = GigabytesPerSecond(num_bytes, in_place);
  return {};
}

Status DeviceProbe::MeasureRoundTrip(DeviceRates& rates) {
  constexpr uint32_t kCount = 4;
  constexpr size_t kBytes = kCount * sizeof(float);
  const kernels::AddRowsScaledArgs add{
      .n = kCount, .x = product_.x, .out = product_.out};
  const double begin = now_();
  for (int i = 0; i < kRoundTrips; ++i) {
    TC_RETURN_IF_ERROR(
        device_.Copy(stream_, product_.out, pinned_.data(), kBytes));
    TC_RETURN_IF_ERROR(device_.Run(stream_, add));
    TC_RETURN_IF_ERROR(device_.Copy(stream_, pinned_.data() + kSmallestBlock,
                                    product_.out, kBytes));
    TC_RETURN_IF_ERROR(device_.Synchronize(stream_));
  }
  rates.round_trip_seconds = (now_() - begin) / kRoundTrips;
  // What it added is not what records are to hold.
  std::memset(pinned_.data() + kSmallestBlock, kByte, kBytes);
  return {};
}

// Of what `value` takes from each round.
template <typename Value>
double MedianOfRounds(const std::vector<DeviceRates>& rounds,
                      const Value& value) {
  std::vector<double> values;
  for (const DeviceRates& round : rounds) values.push_back(value(round));
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

DeviceRates MedianRates(const std::vector<DeviceRates>& rounds) {
  DeviceRates median = rounds.front();
  median.num_rounds = static_cast<int>(rounds.size());
  for (double DeviceRates::* member :
       {&DeviceRates::read_gb_per_s, &DeviceRates::copy_gb_per_s,
        &DeviceRates::gather_gb_per_s, &DeviceRates::in_place_gb_per_s,
        &DeviceRates::round_trip_seconds}) {
    median.*member = MedianOfRounds(
        rounds, [&](const DeviceRates& round) { return round.*member; });
  }
  for (size_t i = 0; i < median.blocks.size(); ++i) {
    for (double BlockRate::* member :
         {&BlockRate::up_gb_per_s, &BlockRate::down_gb_per_s}) {
      median.blocks[i].*member = MedianOfRounds(
          rounds,
          [&](const DeviceRates& round) { return round.blocks[i].*member; });
    }
  }
  return median;
}

}  // namespace

Result<DeviceRates> MeasureDevice(device::Device& device,
                                  const DeviceRatesOptions& options) {
  const Stopwatch watch;
  const std::function<double()> now =
      options.now ? options.now : [&] { return watch.Seconds(); };
  DeviceProbe probe(device, now);
  TC_RETURN_IF_ERROR(probe.Prepare(options.most_bytes));
  TC_RETURN_IF_ERROR(probe.Round());
  std::vector<DeviceRates> rounds;
  const double begin = now();
  for (int i = 0; i < std::max(options.num_rounds, 1); ++i) {
    if (i >= kLeastRounds && now() - begin > options.most_seconds) break;
    TC_ASSIGN_OR_RETURN(DeviceRates round, probe.Round());
    rounds.push_back(std::move(round));
  }
  return MedianRates(rounds);
}

}  // namespace thermocline::probe
