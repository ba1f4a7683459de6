// Small mixtures, in memory and with what their experts are left in the file,
// for tests.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_MIXTURES_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_MIXTURES_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime.h"
#include "engine/stream/expert_plan.h"
#include "engine/testing/test_predictor_parts.h"
#include "engine/testing/test_stream_rig.h"
#include "engine/testing/tiny_model.h"
#include "model/test_prepared.h"
#include "os/test_folder.h"
#include "storage/block_reader.h"

namespace thermocline::engine::testing {

using MixturePtr = std::shared_ptr<const model::Model>;

inline constexpr size_t kMixtureLayers = 3;
inline constexpr size_t kAllExperts = kMixtureLayers * 8;

enum class Form : uint8_t { kStacks, kOneByOne, kPrepared, kWithPredictors };

struct MixtureCase {
  const char* name;
  const char* activation;
  FfnMode mode;
  Form form;
  model::RouterInput router_input = model::RouterInput::kFfnInput;
  size_t record_alignment = 64;
  bool adds_gates = false;  // to the records
};

inline TinySpec MixtureSpec(const MixtureCase& subject) {
  TinySpec spec;
  UseArchitecture("mixtral", spec);
  spec.num_layers = kMixtureLayers;
  spec.ffn_width = 64;
  spec.activation = subject.activation;
  spec.expert_tensors = subject.form == Form::kOneByOne;
  return spec;
}

// No architecture says so yet. The model is this test's alone.
inline void SetRouterInput(const MixturePtr& model, model::RouterInput input) {
  auto& config = const_cast<model::Config&>(model->config());
  for (model::LayerSpec& layer : config.layers) layer.ffn.router_input = input;
}

// A mixture twice: in memory, and with its experts in the file.
struct TwoMixtures {
  os::TestFolder folder;
  std::string path;
  MixturePtr mapped, streamed;

  explicit TwoMixtures(const MixtureCase& subject) {
    const TinySpec spec = MixtureSpec(subject);
    model::OpenOptions leaves;
    leaves.leaves = [](const gguf::File& file, const model::Config& config) {
      return Result<std::vector<std::string>>(ExpertTensors(file, config));
    };
    if (subject.form == Form::kStacks || subject.form == Form::kOneByOne) {
      mapped = OpenTinyModel(spec).value();
      streamed = OpenTinyModel(spec, leaves).value();
    } else {
      path = folder / "mixture.gguf";
      const MixturePtr source =
          OpenTinyModel(spec, {.bundle_at_load = true}).value();
      PredictorParts parts(spec);
      const bool has_parts = subject.form == Form::kWithPredictors;
      if (has_parts) parts.Gather(source);
      const Status written = model::WritePreparedFile(
          *source, has_parts ? parts.Keys() : std::vector<gguf::KeyValue>(),
          has_parts ? parts.Tensors() : std::vector<model::ExtraTensor>(), path,
          subject.record_alignment, subject.adds_gates);
      EXPECT_TRUE(written);
      mapped = model::Model::Open(path).value();
      streamed = model::Model::Open(path, leaves).value();
    }
    SetRouterInput(mapped, subject.router_input);
    SetRouterInput(streamed, subject.router_input);
  }

  // Of the mapped file.
  std::span<const std::byte> bytes() const {
    const gguf::TensorInfo& tensor = mapped->file().tensors().front();
    return {tensor.data - tensor.offset, mapped->file().num_file_bytes()};
  }

  OpenRecordReader FakeReads(const storage::FakeOptions& options) const {
    return [this, options](const std::vector<std::string>&) {
      return Result<std::unique_ptr<storage::BlockReader>>(
          storage::MakeFakeReader({bytes()}, options));
    };
  }
};

class MixtureRig : public StreamRig {
 public:
  using StreamRig::StreamRig;
  // Prompts of many rows, of which experts are taken in their order, and of a
  // few, generated rows one by one and some together, and a prompt beside
  // generated rows.
  Logits All() {
    Logits all;
    Add(0, Phase::kPrompt, 40, all);
    for (const size_t count : {1, 1, 5}) Add(0, Phase::kGenerate, count, all);
    AddMixed(34, all);
    Add(1, Phase::kPrompt, 7, all);
    Add(1, Phase::kPrompt, 1, all);
    Add(1, Phase::kGenerate, 1, all);
    return all;
  }
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_MIXTURES_H_
