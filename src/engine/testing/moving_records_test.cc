// Models whose neurons' records lie elsewhere, move between passes and may not
// be readable, as a whole.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/runtime.h"
#include "engine/testing/one_sequence.h"
#include "engine/testing/test_record_store.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine::testing {
namespace {

constexpr size_t kVocab = 50;

using Floats = std::vector<float>;

// With records in stores of its own making.
class Moving : public OneSequence {
 public:
  Moving(std::shared_ptr<const model::Model> model,
         const SessionOptions& options, const MakeRecordStore& make)
      : OneSequence(std::move(model), options, [&](EngineOptions& engine) {
          engine.make_records = make;
        }) {}

  // Tokens one by one and some together.
  Floats All() {
    constexpr size_t kCounts[] = {1, 1, 5, 1};
    return RunAll(20, kCounts);
  }
};

MakeRecordStore Slots(uint64_t seed, bool with_gate,
                      ReadFaults* faults = nullptr) {
  return [=](size_t layer_idx, size_t expert_idx,
             const model::FfnMatrices& matrices) {
    return SlotStore::Make(matrices,
                           {.seed = seed + 100 * layer_idx + expert_idx,
                            .with_gate = with_gate,
                            .faults = faults});
  };
}

std::shared_ptr<const model::Model> OpenRelu(const std::string& architecture) {
  TinySpec spec;
  UseArchitecture(architecture, spec);
  spec.activation = "relu";
  auto model = OpenTinyModel(spec, {.bundle_at_load = true});
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : nullptr;
}

SessionOptions OptionsOf(FfnMode mode, int num_threads = 2) {
  SessionOptions options = {.num_threads = num_threads, .ffn = mode};
  if (mode == FfnMode::kFast)
    options.predictor = PredictorChoice::kTrainingFree;
  return options;
}

TEST(MovingRecords, GiveTheSameBits) {
  for (const char* architecture : {"llama", "mixtral", "falcon"}) {
    const auto model = OpenRelu(architecture);
    ASSERT_NE(model, nullptr);
    const bool gated = model->config().layers[0].ffn.gated;
    for (const FfnMode mode :
         {FfnMode::kDense, FfnMode::kExact, FfnMode::kFast}) {
      if (mode == FfnMode::kFast && !gated) continue;
      SCOPED_TRACE(std::string(architecture) + " " +
                   std::to_string(static_cast<int>(mode)));
      Moving mapped(model, OptionsOf(mode), {});
      const Floats expected = mapped.All();
      for (const int num_threads : {1, 3}) {
        const auto seed = static_cast<uint64_t>(num_threads);
        ReadFaults reads;
        Moving moving(model, OptionsOf(mode, num_threads),
                      Slots(seed, num_threads == 1, &reads));
        EXPECT_EQ(moving.All(), expected);
        EXPECT_GT(reads.num_reads, 0);
        EXPECT_EQ(moving.engine().sparse_totals().num_bytes,
                  mapped.engine().sparse_totals().num_bytes);
      }
    }
  }
}

// Whichever read of a token fails, the pass ends with it and leaves nothing;
// tried again, it is what it would have been.
TEST(MovingRecords, AFailedReadEndsThePass) {
  const std::vector<text::TokenId> prompt = RandomTokens(9, kVocab);
  const std::vector<text::TokenId> next = {7};
  Random random(11);
  for (const char* architecture : {"llama", "mixtral"}) {
    const auto model = OpenRelu(architecture);
    ASSERT_NE(model, nullptr);
    ReadFaults faults;
    Moving run(model, OptionsOf(FfnMode::kExact), Slots(5, true, &faults));
    Moving mapped(model, OptionsOf(FfnMode::kExact), {});
    ASSERT_EQ(run.Run(prompt, Phase::kPrompt).value(),
              mapped.Run(prompt, Phase::kPrompt).value());
    const SparseTotals totals = run.engine().sparse_totals();
    const size_t num_free = run.kv().num_free();
    for (int round = 0; round < 6; ++round) {
      // About half of two layers' records is to be read.
      faults.num_reads_before = static_cast<int64_t>(random.Below(100));
      const auto failed = run.Run(next, Phase::kGenerate);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code, ErrorCode::kIo);
      EXPECT_NE(failed.error().message.find("cannot be read"),
                std::string::npos);
      EXPECT_EQ(run.sequence().length(), 9);
      EXPECT_EQ(run.kv().num_free(), num_free);
      EXPECT_EQ(run.engine().sparse_totals().num_bytes, totals.num_bytes);
    }
    faults.num_reads_before = INT64_MAX;
    EXPECT_EQ(run.Run(next, Phase::kGenerate).value(),
              mapped.Run(next, Phase::kGenerate).value());
    EXPECT_EQ(run.sequence().length(), 10);
  }
}

}  // namespace
}  // namespace thermocline::engine::testing
