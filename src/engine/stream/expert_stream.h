// Experts that stay in the model's file: whole experts come and go, whatever
// their activation, and a policy keeps the hottest of each layer.
#ifndef THERMOCLINE_ENGINE_STREAM_EXPERT_STREAM_H_
#define THERMOCLINE_ENGINE_STREAM_EXPERT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compute/rows.h"
#include "engine/batch.h"
#include "engine/ffn/record_store.h"
#include "engine/stream/expert_blocks.h"
#include "engine/stream/expert_plan.h"
#include "engine/stream/expert_slots.h"
#include "engine/stream/live_policy.h"
#include "engine/stream/weight_stream.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"
#include "neuron/neuron_set.h"
#include "residency/policy.h"

namespace thermocline::engine {

// Who asks for a layer's experts begins a run: reads start for all that are not
// in memory, as far as slots allow. Then it takes each, in any order or in that
// of their numbers, has it placed, computes it, and says so, upon which its
// slot may be another's. One run at a time.
// A policy says when a run begins which of its experts stay, and when it ends
// whom to read in the background instead of whom.
// Besides, experts of the next layer may be guessed: they are read behind those
// that are needed, to slots that nobody needs. Not under `deterministic`, where
// experts are also taken in the order of their numbers: what is in a slot may
// not depend on what came first.
// Files    expert_stream.cc: runs. expert_moves.cc. expert_guesses.cc.
class ExpertStream final : public WeightStream {
 public:
  // Of a mixture whose experts were left. Errors as of RecordStream::Create.
  static Result<std::unique_ptr<ExpertStream>> Create(
      const model::Model& model, const StreamOptions& options);
  ~ExpertStream() override = default;
  ExpertStream(const ExpertStream&) = delete;
  ExpertStream& operator=(const ExpertStream&) = delete;

  // Makes the stores of the experts' neurons, which this one outlives; what is
  // placed, is placed there too.
  MakeRecordStore Maker();

  // Begins a run of a layer, of experts that are different ones, ascending. For
  // rows that were generated it also settles what was guessed of the layer.
  // next_too: all of the next layer's will be used, and are read behind them.
  void Begin(size_t layer_idx, std::span<const uint32_t> experts, Phase phase,
             bool next_too);
  bool has_begun() const { return layer_idx_ != kNoLayer; }
  // One of the run's that was not taken yet and is in memory, or the first that
  // is; waits. kIo: one of them cannot be read; file, layer and expert named.
  Result<uint32_t> TakeAny();
  // The same of a certain one, for who takes all in the order of their numbers.
  Status Take(uint32_t expert);
  // Points the matrices of an expert that was taken to where it lies.
  void Place(uint32_t expert, model::FfnMatrices& matrices);
  // It was computed.
  void GiveBack(uint32_t expert);
  // All were.
  void End();

  // The experts that a layer behind the run's will have, as it seems, the
  // likeliest first.
  void Guess(size_t layer_idx, std::span<const uint32_t> experts);

  // Takes and places an expert outside of passes, until EndPass.
  Status Fetch(size_t layer_idx, uint32_t expert, model::FfnMatrices& matrices);

  // A pass over all layers is over, also one that failed.
  void EndPass();
  // Where outputs of experts may be kept apart: [kNumApart, D].
  const compute::Rows& apart() const { return apart_; }

  const storage::BlockReader& reader() const override { return *reader_; }
  const StreamTotals::OfPhase& counts() const override { return counts_; }
  std::string Describe() const override;
  StreamUnit unit() const override { return StreamUnit::kExperts; }
  const LivePolicy* live() const override { return &live_; }
  void SetPolicyRests(bool rests) override { live_.set_rests(rests); }

 private:
  static constexpr size_t kNoLayer = SIZE_MAX;

  enum class InRun : uint8_t { kNo, kWanted, kTaken };
  struct Guessed {
    bool is_named = false;  // by Guess
    bool is_read = false;   // for it
  };

  ExpertStream(const model::Model& model, ExpertSlots slots,
               os::AlignedBuffer apart, ExpertPolicy policy,
               const StreamOptions& options,
               std::unique_ptr<storage::BlockReader> reader);

  void Reserve(size_t most_experts);
  uint32_t UnitOf(size_t layer_idx, uint32_t expert) const {
    return layers_[layer_idx].first_unit + expert;
  }
  uint32_t UnitOf(uint32_t expert) const { return UnitOf(layer_idx_, expert); }
  uint32_t ExpertOf(uint32_t unit) const {
    return unit - layers_[layer_of_[unit]].first_unit;
  }
  neuron::NeuronSet used() {
    return {used_words_.data(), layers_[layer_idx_].num_experts()};
  }
  bool IsWanted(uint32_t unit) const;
  bool IsGuessed(uint32_t unit) const;
  bool IsKept(uint32_t unit) const;
  // Tells the policy of the run, and who of it stays.
  void Learn();
  void Leave(uint32_t expert);
  // Who is proposed behind the run.
  void StartMoves();
  void DropLost(size_t layer_idx);
  void AwaitMoves(size_t layer_idx);
  // Waits, on the run's behalf.
  void Wait();
  void StartGuesses(size_t layer_idx);
  void Settle(Phase phase);
  void ForgetGuesses();
  // Starts to read what there are slots for: the run's, then the next layer's.
  void Pump();
  void ReadNext();
  bool StartRead(uint32_t unit, bool is_guess);
  void Submit();
  // Takes notice of reads that are over.
  void Reap(bool waits);
  void OnRead(const storage::Done& done);
  void Arrive(uint32_t unit);
  void Lose(uint32_t unit, const std::string& why, bool was_move);
  // So that it is there until it is given back.
  void Hold(uint32_t unit);
  // Lets go of the last of the run's that are there and held.
  void LetGo();

  const model::Model& model_;
  BlockPlan plan_;
  std::string policy_name_;
  std::vector<ExpertLayer> layers_;
  std::vector<std::vector<MappedStore*>> stores_;  // [L][E], once made
  std::vector<size_t> layer_of_;                   // [units]
  ExpertSlots slots_;
  std::vector<uint32_t> num_reading_;  // [slots] reads that are not over
  std::vector<std::string> errors_;    // [slots] of them; empty: none
  os::AlignedBuffer apart_memory_;
  compute::Rows apart_;
  StreamTotals::OfPhase counts_;
  LivePolicy live_;
  std::vector<bool> is_move_;                // [slots] is being read for a move
  std::vector<uint32_t> num_moving_;         // [L]
  std::vector<std::vector<uint32_t>> lost_;  // [L] experts: moves that failed
  std::vector<storage::Read> reads_;         // to be submitted
  size_t num_open_ = 0;                      // reads that are not over
  // Of the run.
  size_t layer_idx_ = kNoLayer;
  bool next_too_ = false;
  std::vector<uint32_t> experts_;     // ascending
  std::vector<InRun> in_run_;         // [E]
  std::vector<uint64_t> used_words_;  // [WordsOf(E)]
  std::optional<Error> failed_;
  RunTimes times_;
  double begun_at_ = 0.0;
  // Of guesses.
  size_t guessed_layer_ = kNoLayer;
  bool is_of_generated_ = false;
  std::vector<Guessed> guessed_;  // [E]
  // The last: what it reads to is there until it is gone.
  std::unique_ptr<storage::BlockReader> reader_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_EXPERT_STREAM_H_
