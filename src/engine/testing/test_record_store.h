// A store whose records lie anywhere and come late, in any order or not at all,
// for tests.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_RECORD_STORE_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_RECORD_STORE_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "engine/ffn/record_store.h"
#include "neuron/record.h"

namespace thermocline::engine::testing {

// Shared by the stores of a model: which of their reads fails.
struct ReadFaults {
  std::atomic<int64_t> num_reads_before = INT64_MAX;  // of the one that fails
  std::atomic<int64_t> num_reads = 0;                 // so far

  bool FailsNow() {
    num_reads.fetch_add(1, std::memory_order_relaxed);
    return num_reads_before.fetch_sub(1, std::memory_order_relaxed) == 0;
  }
};

struct SlotStoreOptions {
  uint64_t seed = 1;
  bool with_gate = true;  // in the records, if there is one
  ReadFaults* faults = nullptr;
};

template <typename T>
void Shuffle(std::vector<T>& values, Random& random) {
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.Below(i)]);
  }
}

// Reads records from matrices in memory, as if from storage, into slots that
// are free: in each run the pieces in an order of its own, and after each pass
// about half of the records leave. Slots without a record hold NaN. The
// matrices have down transposed.
class SlotStore final : public RecordStore {
 public:
  static std::unique_ptr<SlotStore> Make(const model::FfnMatrices& matrices,
                                         const SlotStoreOptions& options) {
    std::optional<DType> gate;
    if (matrices.gate && options.with_gate) gate = matrices.gate.dtype;
    const size_t num_neurons = matrices.up.shape.num_rows();
    Slots slots = {.layout = neuron::MakeRecordLayout(gate, matrices.up.dtype,
                                                      matrices.down_t.dtype,
                                                      matrices.up.shape.ne[0])
                                 .value(),
                   .places = std::vector<uint32_t>(num_neurons, kAbsent),
                   .free = std::vector<uint32_t>(num_neurons + kSpareSlots)};
    std::iota(slots.free.begin(), slots.free.end(), 0u);
    slots.bytes.assign(slots.free.size() * slots.layout.stride, kNoRecord);
    return std::unique_ptr<SlotStore>(
        new SlotStore(matrices, options, std::move(slots)));
  }

  void Request(const CutLists& cut, size_t /*num_shares*/) override {
    TC_CHECK(!reader_.joinable());
    cut_ = cut;
    ready_.clear();
    num_handed_out_ = 0;
    failed_neuron_.reset();
    std::vector<size_t> order(cut.max_pieces);
    std::iota(order.begin(), order.end(), 0u);
    Shuffle(order, random_);
    reader_ = std::thread([this, order = std::move(order)] { Read(order); });
  }

  size_t NextReady(size_t& /*share*/) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return !ready_.empty() || failed_neuron_ ||
             num_handed_out_ == cut_.max_pieces;
    });
    if (ready_.empty() || failed_neuron_) return cut_.max_pieces;
    const size_t piece = ready_.back();
    ready_.pop_back();
    if (++num_handed_out_ == cut_.max_pieces) changed_.notify_all();
    return piece;
  }

  Status Release() override {
    reader_.join();
    if (!failed_neuron_) return {};
    return Fail(ErrorCode::kIo, "the record of neuron {} cannot be read",
                *failed_neuron_);
  }

  void EndPass() override {
    for (uint32_t& place : slots_.places) {
      if (place == kAbsent || random_.Below(2) == 0) continue;
      std::fill_n(slots_.bytes.data() + place * slots_.layout.stride,
                  slots_.layout.stride, kNoRecord);
      slots_.free.push_back(std::exchange(place, kAbsent));
    }
    Shuffle(slots_.free, random_);
  }

 private:
  static constexpr size_t kSpareSlots = 5;
  static constexpr std::byte kNoRecord{0xff};

  struct Slots {
    neuron::RecordLayout layout;
    std::vector<uint32_t> places;
    std::vector<uint32_t> free = {};
    std::vector<std::byte> bytes = {};
  };

  SlotStore(const model::FfnMatrices& matrices, const SlotStoreOptions& options,
            Slots slots)
      : RecordStore(neuron::ViewRecords(slots.layout, slots.bytes.data(),
                                        slots.free.size()),
                    slots.places.data()),
        matrices_(matrices),
        faults_(options.faults),
        random_(options.seed),
        slots_(std::move(slots)) {
    Shuffle(slots_.free, random_);
  }

  // On the reader's thread.
  void Read(const std::vector<size_t>& order) {
    for (const size_t piece : order) {
      const std::optional<uint32_t> failed = ReadPiece(piece);
      const std::lock_guard lock(mutex_);
      failed_neuron_ = failed;
      if (!failed) ready_.push_back(piece);
      changed_.notify_all();
      if (failed) return;
    }
  }

  // The neuron that cannot be read, if any.
  std::optional<uint32_t> ReadPiece(size_t piece) {
    for (size_t t = 0; t < cut_.lists.size(); ++t) {
      if (piece >= cut_.num_pieces[t]) continue;
      for (const uint32_t neuron : cut_.PieceOf(t, piece)) {
        if (slots_.places[neuron] != kAbsent) continue;
        if (faults_ != nullptr && faults_->FailsNow()) return neuron;
        ReadRecord(neuron);
      }
    }
    return std::nullopt;
  }

  void ReadRecord(uint32_t neuron) {
    const uint32_t slot = slots_.free.back();
    slots_.free.pop_back();
    const neuron::RecordLayout& layout = slots_.layout;
    std::byte* record = slots_.bytes.data() + slot * layout.stride;
    const auto copy = [&](const TensorView& from, size_t offset) {
      std::copy_n(from.row(neuron), from.row_bytes(), record + offset);
    };
    if (layout.gate) copy(matrices_.gate, layout.gate_offset());
    copy(matrices_.up, layout.up_offset());
    copy(matrices_.down_t, layout.down_offset());
    slots_.places[neuron] = slot;
  }

  const model::FfnMatrices& matrices_;
  ReadFaults* faults_;
  Random random_;
  Slots slots_;
  CutLists cut_;
  std::thread reader_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<size_t> ready_;
  size_t num_handed_out_ = 0;
  std::optional<uint32_t> failed_neuron_;
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_RECORD_STORE_H_
