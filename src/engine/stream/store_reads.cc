// What a StreamedStore reads, and what it does when something has come.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "engine/stream/streamed_store.h"

namespace thermocline::engine {
namespace {

// Reads that are submitted together: the device begins before all are listed.
constexpr size_t kReadBatch = 64;

}  // namespace

void StreamedStore::Prefetch(const neuron::NeuronSet& neurons) {
  if (shared_.mode != StorageMode::kCluster || shared_.plan.most_early == 0) {
    return;
  }
  const neuron::NeuronSet hint = {shared_.hint_words.data(),
                                  layer_.num_neurons};
  if (shared_.hinted != this) hint.Clear();
  shared_.hinted = this;
  hint.AddAllOf(neurons);
}

// Of who is hinted at, as another store's run begins.
void StreamedStore::ReadEarly() {
  if (reads_whole_) return;
  TakeRoom();
  shared_.absent.clear();
  neuron::ForEachMember(shared_.hint_words.data(), 0, layer_.num_neurons,
                        [&](size_t i) {
                          if (places_[i] != kAbsent) return;
                          shared_.absent.push_back(static_cast<uint32_t>(i));
                        });
  // As this layer's last run wanted them.
  SubmitAbsent(tests_gates_ ? kFirstPart : kBothParts,
               shared_.plan.longest_bytes, shared_.plan.most_early, kWasAsked);
  for (const uint32_t neuron : shared_.absent) {
    if (places_[neuron] == kAbsent) break;  // behind the most
    states_[neuron] |= kWasEarly;
    ++shared_.counts.num_early;
  }
}

void StreamedStore::Ask(const neuron::NeuronSet* neurons, double open_share) {
  if (WaitsForAll() || reads_whole_) return;
  is_held_ = layer_homes_.is_together;
  TakeRoom();
  shared_.absent.clear();
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if (places_[i] != kAbsent || (neurons != nullptr && !neurons->Has(i))) {
      continue;
    }
    shared_.absent.push_back(i);
  }
  tests_gates_ = TestsGates(open_share, shared_.absent.size());
  const uint64_t bytes_before = shared_.counts.num_bytes;
  SubmitAbsent(tests_gates_ ? kFirstPart : kBothParts,
               shared_.plan.longest_bytes, SIZE_MAX, kWasAsked);
  shared_.times.read_bytes += shared_.counts.num_bytes - bytes_before;
}

// Whether one read may bring two neurons: nobody in between has a record where
// it would go.
bool StreamedStore::CanReadOver(uint32_t first, uint32_t second) const {
  const uint32_t num_between = second - first - 1;
  if (num_between == 0) return true;
  if (has_home_for_all() || shared_.mode == StorageMode::kWindow ||
      num_between * layer_.layout.stride > shared_.plan.gap_bytes) {
    return false;
  }
  for (uint32_t i = first + 1; i < second; ++i) {
    if (IsInRoom(i)) return false;
  }
  return true;
}

// The end of the neurons of shared_.absent that are read together.
size_t StreamedStore::EndOfRead(size_t begin, size_t most_together) const {
  const std::vector<uint32_t>& absent = shared_.absent;
  size_t end = begin + 1;
  while (end < absent.size() && absent[end] - absent[begin] < most_together &&
         CanReadOver(absent[end - 1], absent[end])) {
    ++end;
  }
  return end;
}

void StreamedStore::SubmitAbsent(uint8_t parts, size_t max_bytes,
                                 size_t most_reads, uint8_t mark) {
  const std::vector<uint32_t>& absent = shared_.absent;
  const size_t stride = layer_.layout.stride;
  // Where slots are larger than records, neighbours in the file are none here;
  // and of neighbours whose first parts are wanted one read brings the rest in
  // between too.
  const bool are_neighbours =
      stride == slot_layout_.stride &&
      (parts == kBothParts || stride - first_bytes_ <= shared_.plan.gap_bytes);
  const size_t most_together =
      are_neighbours ? std::max<size_t>(max_bytes / stride, 1) : 1;
  std::array<storage::Read, kReadBatch> batch;
  size_t num_batched = 0, num_reads = 0;
  for (size_t i = 0; i < absent.size() && num_reads < most_reads; ++num_reads) {
    const size_t end = EndOfRead(i, most_together);
    batch[num_batched++] = BeginRead({absent[i], absent[end - 1], parts}, mark);
    i = end;
    if (num_batched < kReadBatch) continue;
    shared_.queue.Submit(batch);
    num_batched = 0;
  }
  if (num_batched > 0) {
    shared_.queue.Submit(std::span(batch).first(num_batched));
  }
}

void StreamedStore::SubmitRests() {
  std::array<storage::Read, kReadBatch> batch;
  size_t num_batched = 0;
  for (const uint32_t neuron : shared_.rests) {
    batch[num_batched++] = BeginRead({neuron, neuron, kRestPart});
    if (num_batched < kReadBatch) continue;
    shared_.queue.Submit(batch);
    num_batched = 0;
  }
  if (num_batched > 0) {
    shared_.queue.Submit(std::span(batch).first(num_batched));
  }
  shared_.rests.clear();
}

// Notes a read as open. Who lies in between comes too: nobody else may read it
// to the same place meanwhile.
storage::Read StreamedStore::BeginRead(const ReadRange& range, uint8_t mark) {
  for (uint32_t i = range.first; i <= range.last; ++i) {
    if (Has(i, kBothParts) || IsMoving(i)) continue;  // at home
    if (places_[i] == kAbsent) places_[i] = TargetOf(i);
    const uint8_t parts = i == range.last ? range.parts : kBothParts;
    states_[i] |= static_cast<uint8_t>(parts << kReadsShift | mark);
  }
  const bool is_rest = range.parts == kRestPart;
  const size_t stride = layer_.layout.stride;
  const size_t skipped = is_rest ? first_bytes_ : 0;
  const size_t end = range.parts == kFirstPart ? first_bytes_ : stride;
  const storage::Read read = {
      .file_idx = layer_.span.shard_idx,
      .offset = layer_.span.offset + uint64_t{range.first} * stride + skipped,
      .num_bytes = (range.last - range.first) * stride + end - skipped,
      .to = shared_.arena.slot(places_[range.first]) + skipped,
      .tag =
          ReadQueue::TagOf(owner_idx_, static_cast<uint32_t>(ranges().size()))};
  TC_CHECK(ranges().size() < ranges().capacity());
  ranges().push_back(range);
  ++num_reading_;
  ++shared_.counts.num_reads;
  shared_.counts.num_bytes += read.num_bytes;
  return read;
}

void StreamedStore::OnRead(uint32_t number, const Status& status) {
  if ((number & kMoveBit) != 0) {
    OnMoved(number & ~kMoveBit, status);
    return;
  }
  --num_reading_;
  const ReadRange range = ranges()[number];
  bool is_needed = reads_whole_;
  for (uint32_t i = range.first; i <= range.last; ++i) {
    const uint8_t parts = i == range.last ? range.parts : kBothParts;
    const auto reads = static_cast<uint8_t>(parts << kReadsShift);
    if ((states_[i] & reads) == 0) continue;  // at home
    states_[i] &= static_cast<uint8_t>(~reads);
    if (status.has_value()) {
      OnPart(i, parts);
    } else {
      is_needed = is_needed || IsAwaited(i);
      OnLost(i);
    }
  }
  if ((any_missed_ || is_held_) && num_reading_ == 0) {
    shared_.times.read_seconds = shared_.live.Now() - shared_.begun_at;
  }
  // One in vain, of a hint or of a gap, may fail.
  if (status.has_value() || failed_ || !is_needed) return;
  failed_ = ErrorOf(range.first == range.last
                        ? fmt::format("the record of neuron {}", range.first)
                        : fmt::format("the records of neurons {} to {}",
                                      range.first, range.last),
                    status);
}

void StreamedStore::OnPart(uint32_t neuron, uint8_t parts) {
  const uint8_t wanted = tests_gates_ ? kFirstPart : kBothParts;
  const bool was_there = Has(neuron, wanted);
  states_[neuron] |= parts;
  if (!any_missed_) return;  // of a run to come
  const auto count_down = [&](uint32_t pieces) {
    for (; pieces != 0; pieces &= pieces - 1) {
      const auto piece = static_cast<size_t>(std::countr_zero(pieces));
      if (--num_pending_[piece] == 0) OnPieceCame(piece);
    }
  };
  if (!was_there && Has(neuron, wanted)) count_down(shared_.waiting[neuron]);
  if ((parts & kRestPart) == 0) return;
  count_down(std::exchange(shared_.rest_waiting[neuron], 0));
}

// Whether the run at hand goes on with what is read of it.
bool StreamedStore::IsAwaited(uint32_t neuron) const {
  if (!any_missed_) return false;
  const uint8_t wanted = tests_gates_ ? kFirstPart : kBothParts;
  return shared_.rest_waiting[neuron] != 0 ||
         (shared_.waiting[neuron] != 0 && !Has(neuron, wanted));
}

// What else of it is here, or on its way, stays.
void StreamedStore::OnLost(uint32_t neuron) {
  constexpr uint8_t kAny = kBothParts | kBothParts << kReadsShift;
  if ((states_[neuron] & kAny) != 0) return;
  states_[neuron] = 0;
  places_[neuron] = kAbsent;
}

Error StreamedStore::ErrorOf(const std::string& what,
                             const Status& status) const {
  return {ErrorCode::kIo,
          fmt::format(
              "{}: layer {}: {}{} cannot be read: {}", layer_.path,
              layer_.layer_idx,
              is_expert() ? fmt::format("expert {}: ", layer_.expert_idx) : "",
              what, status.error().message)};
}

}  // namespace thermocline::engine
