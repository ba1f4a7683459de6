// The part of a StreamedStore that reads a whole layer.
#include <cstring>

#include "base/check.h"
#include "engine/stream/streamed_store.h"

namespace thermocline::engine {
namespace {

constexpr size_t kWholeReadBytes = 1 << 20;

}  // namespace

void StreamedStore::EndPass() {
  if (reads_whole_) (void)SettleWhole();
}

void StreamedStore::BeginWhole() {
  if (reads_whole_) return;
  TC_CHECK(num_reading_ == 0 && !any_missed_);
  TakeHalf();
  shared_.misses.clear();
  const neuron::NeuronSet whole = {whole_words_.data(), layer_.num_neurons};
  whole.Clear();
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if (places_[i] != kAbsent) continue;
    shared_.misses.push_back(i);
    whole.Add(i);
    places_[i] = TargetOf(i);
  }
  shared_.counts.num_wanted += layer_.num_neurons;
  shared_.counts.num_missed += shared_.misses.size();
  reads_whole_ = true;
  whole_failed_.reset();
  num_whole_reading_ = SubmitMisses(kWholeReadBytes, kOfWhole);
}

// Waits for all reads; after an error nobody of them is here.
Status StreamedStore::SettleWhole() {
  shared_.queue.WaitUntil([&] { return num_whole_reading_ == 0; });
  reads_whole_ = false;
  if (!whole_failed_) return {};
  neuron::ForEachMember(whole_words_.data(), 0, layer_.num_neurons,
                        [&](size_t neuron) { places_[neuron] = kAbsent; });
  return tl::unexpected(*whole_failed_);
}

Status StreamedStore::FinishWhole(os::ThreadPool& pool) {
  TC_CHECK(reads_whole_);
  TC_RETURN_IF_ERROR(SettleWhole());
  if (has_home_for_all_) return {};
  CopyFromHomes(pool);
  FillHomes();
  return {};
}

const std::byte* StreamedStore::whole_base() const {
  return shared_.arena.slot(TargetOf(0));
}

void StreamedStore::CopyFromHomes(os::ThreadPool& pool) const {
  constexpr size_t kNeuronsPerPiece = 64;
  pool.ParallelFor(layer_.num_neurons, kNeuronsPerPiece,
                   [&](size_t begin, size_t end, int /*worker_idx*/) {
                     for (size_t i = begin; i < end; ++i) {
                       const auto neuron = static_cast<uint32_t>(i);
                       if (!IsAtHome(neuron)) continue;
                       std::memcpy(shared_.arena.slot(TargetOf(neuron)),
                                   shared_.arena.slot(places_[neuron]),
                                   layer_.layout.stride);
                     }
                   });
}

// A prompt that computes all neurons does not tell who matters, but brings
// those who have a home, and others where there is room.
void StreamedStore::FillHomes() {
  const neuron::NeuronSet nobody = used();
  nobody.Clear();
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if (IsAtHome(i)) continue;
    if (homes_[i] != kAbsent || !free_homes_.empty()) Admit(i, nobody);
  }
}

}  // namespace thermocline::engine
