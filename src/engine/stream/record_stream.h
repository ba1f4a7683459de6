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

namespace thermocline::engine {

// Threads  one caller at a time.
class RecordStream final : public WeightStream {
 public:
  // Of a prepared model without experts whose arena was planned for it.
  // Measures some 40 ms what the device gives, unless options say how to read.
  // kNotFound: no policy has the name. kResourceExhausted: no memory. Errors of
  // opening the files.
  static Result<std::unique_ptr<RecordStream>> Create(
      const model::Model& model, const StreamOptions& options);

  // Makes the stores, which this one outlives; once for each layer.
  MakeRecordStore Maker();
  // Of a layer; null behind the last.
  StreamedStore* store(size_t layer_idx) const {
    return layer_idx < stores_.size() ? stores_[layer_idx] : nullptr;
  }

  const SlotArena& arena() const { return shared_->arena; }
  const storage::BlockReader& reader() const override {
    return shared_->queue.reader();
  }
  const StreamTotals::OfPhase& counts() const override {
    return shared_->counts;
  }
  std::string Describe() const override;

 private:
  RecordStream(const model::Model& model, SlotArena arena,
               std::vector<std::vector<float>> frequencies,
               std::unique_ptr<residency::Policy> policy,
               std::string policy_name, StorageMode mode,
               std::unique_ptr<storage::BlockReader> reader, ReadPlan reads);

  const model::Model& model_;
  std::string policy_name_;
  std::vector<std::vector<float>> frequencies_;
  std::unique_ptr<StreamShared> shared_;
  std::vector<StreamedStore*> stores_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_RECORD_STREAM_H_
