// Experts that stay in the model's file: whole experts come and go, whatever
// their activation, and a policy keeps the hottest of each layer.
#ifndef THERMOCLINE_ENGINE_STREAM_EXPERT_STREAM_H_
#define THERMOCLINE_ENGINE_STREAM_EXPERT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/stream/weight_stream.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"

namespace thermocline::engine {

// The tensors that experts are in.
std::vector<std::string> ExpertTensors(const gguf::File& file,
                                       const model::Config& config);
LeftWeights LeftExperts(const gguf::File& file, const model::Config& config);

// Slots for what fits in `room`, but at least as many as a generated row and
// the guesses for its next layer need.
BlockPlan PlanExpertSlots(const model::Config& config, size_t slot_bytes,
                          uint64_t room);

class ExpertStream final : public WeightStream {
 public:
  // Of a mixture whose experts were left. Errors as of RecordStream::Create.
  static Result<std::unique_ptr<ExpertStream>> Create(
      const model::Model& model, const StreamOptions& options);

  const storage::BlockReader& reader() const override { return *reader_; }
  const StreamTotals::OfPhase& counts() const override { return counts_; }
  std::string Describe() const override;

 private:
  std::unique_ptr<storage::BlockReader> reader_;
  StreamTotals::OfPhase counts_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_EXPERT_STREAM_H_
