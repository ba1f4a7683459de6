#include "engine/stream/expert_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "engine/stream/stream_files.h"

namespace thermocline::engine {
namespace {

// Of one read: large enough for the drive's full speed, small enough that an
// expert's come by several queues at once.
constexpr size_t kExpertReadBytes = 512 << 10;

}  // namespace

Result<std::unique_ptr<ExpertStream>> ExpertStream::Create(
    const model::Model& model, const StreamOptions& options) {
  TC_ASSIGN_OR_RETURN(ExpertPolicy policy, MakeExpertPolicy(model, options));
  TC_ASSIGN_OR_RETURN(
      ExpertSlots slots,
      ExpertSlots::Allocate(options.blocks, NumExperts(model.config())));
  TC_ASSIGN_OR_RETURN(auto reader,
                      OpenStreamFiles(model.file(), options, slots.memory()));
  auto apart = os::AlignedBuffer::Allocate(ApartBytes(model.config()));
  if (!apart) return Annotate("outputs of experts", apart.error());
  return std::unique_ptr<ExpertStream>(
      new ExpertStream(model, std::move(slots), *std::move(apart),
                       std::move(policy), options, std::move(reader)));
}

ExpertStream::ExpertStream(const model::Model& model, ExpertSlots slots,
                           os::AlignedBuffer apart, ExpertPolicy policy,
                           const StreamOptions& options,
                           std::unique_ptr<storage::BlockReader> reader)
    : model_(model),
      plan_(options.blocks),
      policy_name_(PolicyOf(options.policy)),
      slots_(std::move(slots)),
      num_reading_(plan_.num_slots()),
      errors_(plan_.num_slots()),
      apart_memory_(std::move(apart)),
      apart_{reinterpret_cast<float*>(apart_memory_.data()),
             model.config().width, ApartStride(model.config())},
      live_(std::move(policy.policy), std::move(policy.layers),
            {.deterministic = options.deterministic,
             .moves_per_token = options.moves_per_token,
             .unit_bytes = options.blocks.slot_bytes},
            &counts_),
      is_move_(plan_.num_slots(), false),
      num_moving_(model.config().layers.size()),
      lost_(model.config().layers.size()),
      reader_(std::move(reader)) {
  std::vector<uint64_t> file_bytes;
  for (int i = 0; i < model.file().num_shards(); ++i) {
    file_bytes.push_back(reader_->file_bytes(static_cast<uint32_t>(i)));
  }
  layers_ = LayExperts(model.file(), model.config(), file_bytes);
  size_t most_experts = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layer_of_.insert(layer_of_.end(), layers_[i].num_experts(), i);
    most_experts = std::max(most_experts, layers_[i].num_experts());
    // Who is to be resident before anything was used comes when it is read for
    // the first time: nothing waits for gigabytes of which half may not be
    // used.
    live_.Initial(i);
  }
  stores_.resize(layers_.size());
  Reserve(most_experts);
}

void ExpertStream::Reserve(size_t most_experts) {
  experts_.reserve(most_experts);
  in_run_.resize(most_experts, InRun::kNo);
  used_words_.resize(neuron::WordsOf(most_experts));
  guessed_.resize(most_experts);
  // A block has a few parts, of which each may lie across one more read.
  const size_t most_reads = plan_.slot_bytes / kExpertReadBytes + 4;
  reads_.reserve(most_experts * most_reads);
}

MakeRecordStore ExpertStream::Maker() {
  return [this](size_t layer_idx, size_t expert_idx,
                const model::FfnMatrices& matrices) {
    auto store = std::make_unique<MappedStore>(matrices);
    TC_CHECK(expert_idx == stores_[layer_idx].size());
    stores_[layer_idx].push_back(store.get());
    return store;
  };
}

std::string ExpertStream::Describe() const {
  const double num_resident =
      static_cast<double>(plan_.num_slots() - plan_.pass_slots);
  return fmt::format(
      "experts {:.0f} % in {} of slots ({})",
      100.0 * num_resident / static_cast<double>(layer_of_.size()),
      FormatBytes(plan_.num_bytes()), policy_name_);
}

bool ExpertStream::IsWanted(uint32_t unit) const {
  return layer_of_[unit] == layer_idx_ &&
         in_run_[ExpertOf(unit)] == InRun::kWanted;
}

bool ExpertStream::IsGuessed(uint32_t unit) const {
  return layer_of_[unit] == guessed_layer_ && guessed_[ExpertOf(unit)].is_read;
}

bool ExpertStream::IsKept(uint32_t unit) const {
  return live_.Has(layer_of_[unit], ExpertOf(unit));
}

void ExpertStream::Begin(size_t layer_idx, std::span<const uint32_t> experts,
                         Phase phase, bool next_too) {
  TC_CHECK(!has_begun());
  layer_idx_ = layer_idx;
  next_too_ =
      next_too && layer_idx + 1 < layers_.size() && !live_.is_deterministic();
  if (live_.is_deterministic()) AwaitMoves(layer_idx);
  live_.BeginRun();
  times_ = {};
  begun_at_ = live_.Now();
  experts_.assign(experts.begin(), experts.end());
  used().Clear();
  counts_.num_wanted += experts.size();
  if (num_open_ > 0) Reap(false);
  for (const uint32_t expert : experts) {
    in_run_[expert] = InRun::kWanted;
    used().Add(expert);
    const uint32_t unit = UnitOf(expert);
    const bool was_guessed =
        guessed_layer_ == layer_idx && guessed_[expert].is_read;
    if (was_guessed || !slots_.IsThere(unit)) ++counts_.num_missed;
    if (slots_.IsThere(unit)) Hold(unit);
  }
  Learn();
  if (guessed_layer_ == layer_idx) Settle(phase);
  Pump();
}

void ExpertStream::Hold(uint32_t unit) {
  if (slots_.state(unit) != SlotState::kKept)
    slots_.Set(unit, SlotState::kHeld);
}

void ExpertStream::Pump() {
  for (const uint32_t expert : experts_) {
    const uint32_t unit = UnitOf(expert);
    if (in_run_[expert] != InRun::kWanted || !slots_.IsAbsent(unit)) continue;
    if (!StartRead(unit, /*is_guess=*/false)) {
      Submit();
      return;
    }
  }
  if (next_too_) ReadNext();
  Submit();
}

bool ExpertStream::StartRead(uint32_t unit, bool is_guess) {
  if (!slots_.Take(unit, is_guess)) return false;
  const uint32_t number = slots_.number(unit);
  const BlockLayout& layout =
      layers_[layer_of_[unit]].blocks[ExpertOf(unit)].layout;
  TC_CHECK(layout.num_bytes <= plan_.slot_bytes);
  const size_t num_before = reads_.size();
  num_reading_[number] = static_cast<uint32_t>(
      AppendReads(layout, slots_.base(unit), kExpertReadBytes,
                  uint64_t{number} << 32, reads_));
  counts_.num_reads += reads_.size() - num_before;
  counts_.num_bytes += layout.read_bytes();
  if (!is_guess) times_.read_bytes += layout.read_bytes();
  return true;
}

void ExpertStream::Submit() {
  if (reads_.empty()) return;
  num_open_ += reads_.size();
  reader_->Submit(reads_);
  reads_.clear();
}

void ExpertStream::Reap(bool waits) {
  std::array<storage::Done, 32> done;
  const size_t count = reader_->Reap(done, waits);
  TC_CHECK(count > 0 || !waits);
  num_open_ -= count;
  for (const storage::Done& read : std::span(done).first(count)) OnRead(read);
}

void ExpertStream::OnRead(const storage::Done& done) {
  const auto number = static_cast<uint32_t>(done.tag >> 32);
  const uint32_t unit = slots_.unit_in(number);
  std::string& error = errors_[number];
  if (!done.status.has_value() && error.empty()) {
    error = done.status.error().message;
  }
  if (--num_reading_[number] > 0) return;
  const bool was_move = is_move_[number];
  is_move_[number] = false;
  if (was_move) {
    --num_moving_[layer_of_[unit]];
  } else if (IsWanted(unit)) {
    times_.read_seconds = live_.Now() - begun_at_;
  }
  if (error.empty()) {
    Arrive(unit);
  } else {
    Lose(unit, std::exchange(error, std::string()), was_move);
  }
}

void ExpertStream::Arrive(uint32_t unit) {
  if (IsKept(unit)) {
    slots_.Arrive(unit, SlotState::kKept);
  } else if (IsWanted(unit)) {
    slots_.Arrive(unit, SlotState::kHeld);
  } else {
    slots_.Arrive(unit,
                  IsGuessed(unit) ? SlotState::kGuessed : SlotState::kOver);
  }
}

// Of one that nobody needs, nobody hears: whoever does reads it again. So does
// the run at hand where that was a move's.
void ExpertStream::Lose(uint32_t unit, const std::string& why, bool was_move) {
  slots_.Drop(unit);
  if (was_move) lost_[layer_of_[unit]].push_back(ExpertOf(unit));
  if (!IsWanted(unit) || failed_ || was_move) return;
  const ExpertLayer& layer = layers_[layer_of_[unit]];
  const uint32_t shard_idx =
      layer.blocks[ExpertOf(unit)].layout.reads.front().shard_idx;
  failed_ = {ErrorCode::kIo,
             fmt::format("{}: layer {}: expert {} cannot be read: {}",
                         model_.file().shard_path(shard_idx), layer_of_[unit],
                         ExpertOf(unit), why)};
}

Result<uint32_t> ExpertStream::TakeAny() {
  for (;;) {
    if (num_open_ > 0) Reap(false);
    if (failed_) return tl::unexpected(*failed_);
    Pump();
    for (const uint32_t expert : experts_) {
      const uint32_t unit = UnitOf(expert);
      if (!IsWanted(unit)) continue;
      if (live_.is_deterministic()) {
        TC_RETURN_IF_ERROR(Take(expert));
        return expert;
      }
      if (!slots_.IsThere(unit)) continue;
      Hold(unit);
      in_run_[expert] = InRun::kTaken;
      return expert;
    }
    TC_CHECK(num_open_ > 0);
    Wait();
  }
}

Status ExpertStream::Take(uint32_t expert) {
  const uint32_t unit = UnitOf(expert);
  TC_CHECK(IsWanted(unit));
  for (;;) {
    if (num_open_ > 0) Reap(false);
    if (failed_) return tl::unexpected(*failed_);
    if (slots_.IsThere(unit)) break;
    Pump();
    if (slots_.IsAbsent(unit) && num_open_ == 0) {
      LetGo();
    } else {
      Wait();
    }
  }
  Hold(unit);
  in_run_[expert] = InRun::kTaken;
  return {};
}

void ExpertStream::LetGo() {
  for (size_t i = experts_.size(); i-- > 0;) {
    const uint32_t unit = UnitOf(experts_[i]);
    if (!IsWanted(unit) || !slots_.IsThere(unit) ||
        slots_.state(unit) != SlotState::kHeld) {
      continue;
    }
    slots_.Set(unit, SlotState::kOver);
    return;
  }
  TC_CHECK(false);  // slots that nobody holds can be taken
}

void ExpertStream::Place(uint32_t expert, model::FfnMatrices& matrices) {
  TC_CHECK(in_run_[expert] == InRun::kTaken);
  const ExpertLayer& layer = layers_[layer_idx_];
  PlaceExpert(layer.blocks[expert], layer.records, slots_.base(UnitOf(expert)),
              matrices);
  const std::vector<MappedStore*>& stores = stores_[layer_idx_];
  if (!stores.empty()) stores[expert]->PlaceAt(matrices);
}

void ExpertStream::GiveBack(uint32_t expert) {
  TC_CHECK(in_run_[expert] == InRun::kTaken);
  in_run_[expert] = InRun::kNo;
  const uint32_t unit = UnitOf(expert);
  if (slots_.state(unit) != SlotState::kKept) {
    slots_.Set(unit, SlotState::kOver);
  }
  Pump();
}

void ExpertStream::End() {
  for (const uint32_t expert : experts_) {
    TC_CHECK(in_run_[expert] == InRun::kNo);
  }
  if (num_open_ > 0) Reap(false);  // of guesses, and moves elsewhere
  times_.is_idle = num_open_ == 0;
  live_.EndRun(layer_idx_, times_);
  StartMoves();
  layer_idx_ = kNoLayer;
}

Status ExpertStream::Fetch(size_t layer_idx, uint32_t expert,
                           model::FfnMatrices& matrices) {
  Begin(layer_idx, {&expert, 1}, Phase::kPrompt, /*next_too=*/false);
  TC_RETURN_IF_ERROR(Take(expert));
  Place(expert, matrices);
  return {};
}

void ExpertStream::EndPass() {
  if (has_begun()) {
    for (const uint32_t expert : experts_) {
      const uint32_t unit = UnitOf(expert);
      in_run_[expert] = InRun::kNo;
      if (slots_.IsThere(unit) && slots_.state(unit) == SlotState::kHeld) {
        slots_.Set(unit, SlotState::kOver);
      }
    }
    layer_idx_ = kNoLayer;
  }
  failed_.reset();
  ForgetGuesses();
  if (live_.is_deterministic()) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      AwaitMoves(i);
      DropLost(i);
    }
  }
  live_.EndPass();
}

}  // namespace thermocline::engine
