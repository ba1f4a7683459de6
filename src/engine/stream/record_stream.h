// Records of a model that stay in its file: who reads them, where they go and
// who stays.
#ifndef THERMOCLINE_ENGINE_STREAM_RECORD_STREAM_H_
#define THERMOCLINE_ENGINE_STREAM_RECORD_STREAM_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/ffn/record_store.h"
#include "engine/stream/stream_options.h"
#include "engine/stream/streamed_store.h"
#include "engine/stream/weight_stream.h"
#include "model/model.h"
#include "neuron/active_sets.h"

namespace thermocline::engine {

// Threads  one caller at a time.
class RecordStream final : public WeightStream {
 public:
  // Of a prepared model whose arena was planned for it.
  // Measures some 40 ms what the device gives, unless options say how to read.
  // kNotFound: no policy has the name. kResourceExhausted: no memory. Errors of
  // opening the files.
  static Result<std::unique_ptr<RecordStream>> Create(
      const model::Model& model, const StreamOptions& options);

  // Makes the stores, which this one outlives; once for each layer or expert.
  MakeRecordStore Maker();
  // Of a layer without experts; null of others, and behind the last.
  StreamedStore* store(size_t layer_idx) const;
  StreamedStore* store(size_t layer_idx, size_t expert_idx) const {
    return stores_[layer_idx][expert_idx];
  }

  // The experts of a layer that run now. Together, at most num_rooms() of them:
  // what they were given stays until EndLayer, and the policy learns of it.
  void BeginLayer(size_t layer_idx, bool are_together);
  void EndLayer(size_t layer_idx);
  // A pass over all layers is over, also one that failed.
  void EndPass();
  size_t num_rooms() const { return shared_->arena.plan().num_rooms; }
  // The candidates of each choice of an expert in a layer, kNumApart rows at
  // most; and room for those of one of its experts, of any row.
  neuron::ActiveSets choices(size_t layer_idx);
  neuron::NeuronSet any_choice(size_t layer_idx);
  const ReadPlan& plan() const { return shared_->plan; }

  const SlotArena& arena() const { return shared_->arena; }
  const storage::BlockReader& reader() const override {
    return shared_->queue.reader();
  }
  const StreamTotals::OfPhase& counts() const override {
    return shared_->counts;
  }
  std::string Describe() const override;
  StreamUnit unit() const override { return StreamUnit::kRecords; }
  const LivePolicy* live() const override { return &shared_->live; }
  void SetPolicyRests(bool rests) override { shared_->live.set_rests(rests); }

 private:
  RecordStream(const model::Model& model, const StreamOptions& options,
               std::unique_ptr<StreamShared> shared);

  const model::Model& model_;
  std::string policy_name_;
  std::unique_ptr<StreamShared> shared_;
  std::vector<std::vector<StreamedStore*>> stores_;  // [L], of each expert
  std::vector<uint64_t> choice_words_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_RECORD_STREAM_H_
