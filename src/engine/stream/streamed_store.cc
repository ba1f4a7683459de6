#include "engine/stream/streamed_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace thermocline::engine {
namespace {

// Of neighbours that are missed together. A piece waits for all of a read.
constexpr size_t kRunReadBytes = 128 << 10;
// What lies between two that are missed is read too where that is faster than a
// read more: some 6 us of many at once, in which a drive gives as many bytes.
constexpr size_t kGapBytes = 12 << 10;

neuron::RecordLayout WithStride(neuron::RecordLayout layout, size_t stride) {
  layout.stride = stride;
  return layout;
}

}  // namespace

StreamShared::StreamShared(SlotArena slots,
                           std::unique_ptr<storage::BlockReader> reader,
                           std::unique_ptr<residency::Policy> chosen,
                           size_t most_neurons)
    : arena(std::move(slots)),
      queue(std::move(reader)),
      policy(std::move(chosen)),
      waiting(most_neurons),
      used_words(neuron::WordsOf(most_neurons)) {
  misses.reserve(most_neurons);
  reads.reserve(most_neurons);
  first_miss.reserve(most_neurons + 1);
}

std::unique_ptr<StreamedStore> StreamedStore::Make(StreamedLayer layer,
                                                   StreamShared* shared) {
  Tables tables(layer.num_neurons);
  return std::unique_ptr<StreamedStore>(
      new StreamedStore(std::move(layer), shared, std::move(tables)));
}

// Moving a vector keeps its elements where they are.
StreamedStore::StreamedStore(StreamedLayer layer, StreamShared* shared,
                             Tables tables)
    : RecordStore(neuron::ViewRecords(
                      WithStride(layer.layout, shared->arena.plan().slot_bytes),
                      shared->arena.base(), shared->arena.plan().num_slots()),
                  tables.places.data()),
      layer_(std::move(layer)),
      slot_layout_(WithStride(layer_.layout, shared->arena.plan().slot_bytes)),
      shared_(*shared),
      places_(std::move(tables.places)),
      homes_(std::move(tables.homes)),
      owner_idx_(shared->queue.Add(this)),
      first_in_half_(shared->arena.plan().first_of_half(layer_.layer_idx)),
      first_home_(shared->arena.plan().first_of(layer_.layer_idx)),
      num_homes_(shared->arena.plan().resident[layer_.layer_idx]),
      has_home_for_all_(num_homes_ == layer_.num_neurons),
      whole_words_(neuron::WordsOf(layer_.num_neurons)) {
  lost_.reserve(layer_.num_neurons);
  TakeHomes();
}

// Who is to be resident before anything was used has a home at once, and comes
// when it is read for the first time: so nothing waits for gigabytes at the
// start of which half may not be used.
void StreamedStore::TakeHomes() {
  if (has_home_for_all_) {
    std::iota(homes_.begin(), homes_.end(), first_home_);
    return;
  }
  std::vector<uint32_t> initial = shared_.policy->Initial(layer_.layer_idx);
  TC_CHECK(initial.size() <= num_homes_);
  std::ranges::sort(initial);
  uint32_t next = first_home_;
  for (const uint32_t neuron : initial) homes_[neuron] = next++;
  free_homes_.reserve(num_homes_);
  // Taken from the back: ascending.
  for (uint32_t slot = first_home_ + num_homes_; slot > next; --slot) {
    free_homes_.push_back(slot - 1);
  }
}

void StreamedStore::TakeHalf() {
  if (has_home_for_all_) return;
  StreamedStore*& owner = shared_.half_owners[layer_.layer_idx % 2];
  if (owner == this) return;
  if (owner != nullptr) owner->LeaveHalf();
  owner = this;
}

void StreamedStore::LeaveHalf() {
  TC_CHECK(!reads_whole_ && num_reading_ == 0);
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if (IsInHalf(i)) places_[i] = kAbsent;
  }
}

void StreamedStore::Request(const CutLists& cut, size_t num_shares) {
  TC_CHECK(!reads_whole_ && num_reading_ == 0);
  num_pieces_ = cut.max_pieces;
  num_shares_ = num_shares;
  failed_.reset();
  lost_.clear();
  ListMisses(cut);
  any_missed_ = !shared_.misses.empty();
  if (!any_missed_) {
    shares_.Start(num_pieces_, num_shares);
    return;
  }
  TakeHalf();
  CountPending();
  num_reading_ = SubmitMisses(kRunReadBytes, 0);
}

void StreamedStore::ListMisses(const CutLists& cut) {
  shared_.misses.clear();
  used().Clear();
  for (size_t t = 0; t < cut.lists.size(); ++t) {
    if (t > 0 && cut.lists[t] == cut.lists[t - 1]) continue;
    for (size_t piece = 0; piece < cut.num_pieces[t]; ++piece) {
      ListPiece(cut, t, piece);
    }
  }
  std::ranges::sort(shared_.misses);
  shared_.counts.num_wanted += used().Count();
  shared_.counts.num_missed += shared_.misses.size();
}

void StreamedStore::ListPiece(const CutLists& cut, size_t token_idx,
                              size_t piece) {
  for (const uint32_t neuron : cut.PieceOf(token_idx, piece)) {
    used().Add(neuron);
    if (places_[neuron] != kAbsent) continue;
    uint32_t& waiting = shared_.waiting[neuron];
    if (waiting == 0) shared_.misses.push_back(neuron);
    waiting |= uint32_t{1} << piece;
  }
}

void StreamedStore::CountPending() {
  num_pending_.fill(0);
  for (const uint32_t neuron : shared_.misses) {
    places_[neuron] = TargetOf(neuron);
    for (uint32_t bits = shared_.waiting[neuron]; bits != 0; bits &= bits - 1) {
      ++num_pending_[static_cast<size_t>(std::countr_zero(bits))];
    }
  }
  ready_pieces_ = 0;
  for (size_t piece = 0; piece < num_pieces_; ++piece) {
    if (num_pending_[piece] == 0) ready_pieces_ |= uint32_t{1} << piece;
  }
  num_left_ = num_pieces_;
}

// Whether one read may bring two neurons: nobody in between has a record where
// it would go.
bool StreamedStore::CanReadOver(uint32_t first, uint32_t second) const {
  const uint32_t num_between = second - first - 1;
  if (num_between == 0) return true;
  if (has_home_for_all_ || num_between * layer_.layout.stride > kGapBytes) {
    return false;
  }
  for (uint32_t i = first + 1; i < second; ++i) {
    if (IsInHalf(i)) return false;
  }
  return true;
}

size_t StreamedStore::SubmitMisses(size_t max_bytes, uint32_t number) {
  const std::vector<uint32_t>& misses = shared_.misses;
  const size_t stride = layer_.layout.stride;
  // Where slots are larger than records, neighbours in the file are none here.
  const size_t most_together = stride == slot_layout_.stride
                                   ? std::max<size_t>(max_bytes / stride, 1)
                                   : 1;
  shared_.reads.clear();
  shared_.first_miss.clear();
  for (size_t i = 0; i < misses.size();) {
    size_t end = i + 1;
    while (end < misses.size() && misses[end] - misses[i] < most_together &&
           CanReadOver(misses[end - 1], misses[end])) {
      ++end;
    }
    shared_.first_miss.push_back(static_cast<uint32_t>(i));
    const auto read_number =
        number + static_cast<uint32_t>(shared_.reads.size());
    const size_t num_bytes = (misses[end - 1] - misses[i] + 1) * stride;
    shared_.reads.push_back(
        {.file_idx = layer_.span.shard_idx,
         .offset = layer_.span.offset + uint64_t{misses[i]} * stride,
         .num_bytes = num_bytes,
         .to = shared_.arena.slot(TargetOf(misses[i])),
         .tag = ReadQueue::TagOf(owner_idx_, read_number)});
    shared_.counts.num_bytes += num_bytes;
    i = end;
  }
  shared_.first_miss.push_back(static_cast<uint32_t>(misses.size()));
  shared_.counts.num_reads += shared_.reads.size();
  shared_.queue.Submit(shared_.reads);
  return shared_.reads.size();
}

void StreamedStore::OnRead(uint32_t number, const Status& status) {
  if ((number & kOfWhole) == 0) {
    OnMissed(number, status);
    return;
  }
  --num_whole_reading_;
  if (status.has_value() || whole_failed_) return;
  whole_failed_ = ErrorOf("its records", status);
}

void StreamedStore::OnMissed(uint32_t read_idx, const Status& status) {
  --num_reading_;
  const uint32_t first = shared_.first_miss[read_idx];
  const uint32_t end = shared_.first_miss[read_idx + 1];
  for (uint32_t i = first; i < end; ++i) {
    const uint32_t neuron = shared_.misses[i];
    if (!status.has_value()) {
      lost_.push_back(neuron);
      continue;
    }
    for (uint32_t bits = shared_.waiting[neuron]; bits != 0; bits &= bits - 1) {
      const auto piece = static_cast<size_t>(std::countr_zero(bits));
      if (--num_pending_[piece] == 0) ready_pieces_ |= uint32_t{1} << piece;
    }
  }
  if (status.has_value() || failed_) return;
  failed_ = ErrorOf(
      end - first == 1
          ? fmt::format("the record of neuron {}", shared_.misses[first])
          : fmt::format("the records of neurons {} to {}",
                        shared_.misses[first], shared_.misses[end - 1]),
      status);
}

Error StreamedStore::ErrorOf(const std::string& what,
                             const Status& status) const {
  return {ErrorCode::kIo,
          fmt::format("{}: layer {}: {} cannot be read: {}", layer_.path,
                      layer_.layer_idx, what, status.error().message)};
}

size_t StreamedStore::NextReady(size_t& share) {
  if (!any_missed_) return shares_.Take(share);
  size_t piece = 0;
  shared_.queue.WaitUntil([&] {
    if (failed_ || num_left_ == 0) {
      piece = num_pieces_;
      return true;
    }
    if (ready_pieces_ == 0) return false;
    piece = TakeReady(share);
    return true;
  });
  return piece;
}

// The first that is ready from the share's beginning on, or from that of all.
size_t StreamedStore::TakeReady(size_t share) {
  const size_t begin = num_pieces_ * share / num_shares_;
  const uint32_t behind = ready_pieces_ & (~uint32_t{0} << begin);
  const auto piece = static_cast<size_t>(
      std::countr_zero(behind != 0 ? behind : ready_pieces_));
  ready_pieces_ &= ~(uint32_t{1} << piece);
  --num_left_;
  return piece;
}

Status StreamedStore::Release() {
  if (any_missed_) {
    shared_.queue.WaitUntil([&] { return num_reading_ == 0; });
    for (const uint32_t neuron : lost_) places_[neuron] = kAbsent;
    for (const uint32_t neuron : shared_.misses) shared_.waiting[neuron] = 0;
    any_missed_ = false;
    if (failed_) return tl::unexpected(*failed_);
  }
  Learn();
  return {};
}

void StreamedStore::Learn() {
  if (has_home_for_all_) return;
  shared_.policy->Observe(layer_.layer_idx, used());
  used().ForEachIn(0, layer_.num_neurons, [&](size_t neuron) {
    const auto id = static_cast<uint32_t>(neuron);
    if (!IsAtHome(id)) Admit(id, used());
  });
}

// A neuron that lies in the half.
void StreamedStore::Admit(uint32_t neuron, const neuron::NeuronSet& pinned) {
  if (homes_[neuron] == kAbsent) {
    const residency::Policy::Answer answer =
        shared_.policy->Admit(layer_.layer_idx, neuron, pinned);
    if (!answer.is_admitted) return;
    if (answer.leaves == residency::kNobody) {
      TC_CHECK(!free_homes_.empty());
      homes_[neuron] = free_homes_.back();
      free_homes_.pop_back();
    } else {
      if (IsAtHome(answer.leaves)) places_[answer.leaves] = kAbsent;
      homes_[neuron] = std::exchange(homes_[answer.leaves], kAbsent);
      TC_CHECK(homes_[neuron] != kAbsent);
    }
  }
  MoveHome(neuron);
}

void StreamedStore::MoveHome(uint32_t neuron) {
  TC_DCHECK(IsInHalf(neuron));
  std::memcpy(shared_.arena.slot(homes_[neuron]),
              shared_.arena.slot(places_[neuron]), layer_.layout.stride);
  places_[neuron] = homes_[neuron];
}

}  // namespace thermocline::engine
