#include "npu/layer_feed.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/math.h"
#include "os/start_thread.h"

namespace thermocline::npu {
namespace {

size_t PlaceBytes(const LayerInput& input) {
  return RoundUp(NumBytes(input.type), Graph::kAlignment);
}

// A matrix is unpacked with its scales and zero points, which follow it.
bool BelongsToLast(const LayerInput& input) {
  return input.name.starts_with("s_") || input.name.starts_with("z_");
}

// Where the parts of a layer begin that one thread unpacks, and the end.
std::vector<size_t> PartsOf(const std::vector<LayerInput>& inputs) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!BelongsToLast(inputs[i])) begins.push_back(i);
  }
  begins.push_back(inputs.size());
  return begins;
}

size_t SlotBytes(const std::vector<LayerInput>& inputs) {
  size_t sum = 0;
  for (const LayerInput& input : inputs) sum += PlaceBytes(input);
  return sum;
}

}  // namespace

Result<WeightSlots> WeightSlots::Create(
    std::vector<std::vector<LayerInput>> inputs) {
  WeightSlots slots;
  size_t slot_bytes = 0;
  for (const auto& layer : inputs) {
    slot_bytes = std::max(slot_bytes, SlotBytes(layer));
  }
  auto buffer = os::AlignedBuffer::Allocate(kCount * slot_bytes);
  if (!buffer) return Annotate("weights of two layers", buffer.error());
  slots.buffer_ = *std::move(buffer);
  slots.inputs_ = std::move(inputs);
  for (size_t i = 0; i < slots.inputs_.size(); ++i) {
    std::byte* next = slots.buffer_.data() + (i % kCount) * slot_bytes;
    std::vector<std::byte*>& places = slots.places_.emplace_back();
    for (const LayerInput& input : slots.inputs_[i]) {
      places.push_back(next);
      next += PlaceBytes(input);
    }
  }
  return slots;
}

Status LayerFeed::Start() {
  TC_ASSIGN_OR_RETURN(thread_,
                      os::StartThread("a thread that reads and unpacks weights",
                                      [this] { Work(); }));
  return {};
}

LayerFeed::~LayerFeed() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status LayerFeed::Await(size_t layer_idx, StaticTimes& times) {
  const Stopwatch watch;
  std::unique_lock lock(mutex_);
  TC_CHECK(layer_idx == num_left_);
  changed_.wait(lock, [&] { return error_ || num_ready_ > layer_idx; });
  times.unpack_wait_s += watch.Seconds();
  times.read_s += std::exchange(read_s_, 0.0);
  times.unpack_s += std::exchange(unpack_s_, 0.0);
  if (num_ready_ > layer_idx) return {};
  return tl::unexpected(*error_);
}

void LayerFeed::Leave(size_t layer_idx) {
  {
    const std::lock_guard lock(mutex_);
    TC_CHECK(layer_idx == num_left_ && num_left_ < num_ready_);
    ++num_left_;
  }
  changed_.notify_all();
}

void LayerFeed::Work() {
  std::unique_lock lock(mutex_);
  while (num_ready_ < parts_.slots->num_layers()) {
    changed_.wait(lock, [this] {
      return ends_ || num_ready_ < num_left_ + WeightSlots::kCount;
    });
    if (ends_) return;
    const size_t layer_idx = num_ready_;
    lock.unlock();
    Status status = Bring(layer_idx);
    lock.lock();
    if (status.has_value()) {
      ++num_ready_;
    } else {
      error_ = std::move(status).error();
    }
    changed_.notify_all();
    if (error_) return;
  }
}

Status LayerFeed::Bring(size_t layer_idx) {
  const Stopwatch reading;
  const model::LayerWeights* weights =
      &parts_.model->weights().layers[layer_idx];
  if (parts_.source != nullptr) {
    TC_ASSIGN_OR_RETURN(weights, parts_.source->await(layer_idx));
  }
  const double read_s = reading.Seconds();
  const Stopwatch unpacking;
  Status status = Unpack(layer_idx, *weights);
  const double unpack_s = unpacking.Seconds();
  // The next layers are read to where this one's file bytes are.
  if (parts_.source != nullptr) parts_.source->leave(layer_idx);
  const std::lock_guard lock(mutex_);
  read_s_ += read_s;
  unpack_s_ += unpack_s;
  return status;
}

Status LayerFeed::Unpack(size_t layer_idx,
                         const model::LayerWeights& weights) const {
  const std::span<std::byte* const> places = parts_.slots->places(layer_idx);
  const std::vector<size_t> parts = PartsOf(parts_.slots->inputs(layer_idx));
  std::atomic<size_t> next = 0;
  std::mutex mutex;  // of the status
  Status status;
  const auto work = [&] {
    for (size_t i = next++; i + 1 < parts.size(); i = next++) {
      Status one = UnpackLayer(*parts_.model, weights, layer_idx, parts_.form,
                               parts[i], parts[i + 1], places, nullptr);
      if (one.has_value()) continue;
      const std::lock_guard lock(mutex);
      status = std::move(one);
    }
  };
  std::vector<std::thread> helpers;
  for (int i = 1; i < parts_.num_threads; ++i) {
    auto helper = os::StartThread("a thread that unpacks", work);
    if (!helper.has_value()) break;
    helpers.push_back(*std::move(helper));
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return status;
}

}  // namespace thermocline::npu
