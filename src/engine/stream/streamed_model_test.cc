// Models whose records stay in the file, as a whole: what they compute is what
// they would with all in memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/runtime.h"
#include "engine/testing/test_prepared_file.h"
#include "engine/testing/test_residents.h"
#include "engine/testing/test_stream_rig.h"
#include "engine/testing/test_streamed_records.h"
#include "engine/testing/tiny_model.h"
#include "os/test_folder.h"
#include "residency/policy.h"
#include "storage/block_reader.h"

namespace thermocline::engine {
namespace {

using testing::FakeReads;
using ::testing::HasSubstr;
using testing::LeastBytes;
using testing::PreparedFile;
using testing::PrepareTiny;
using StreamLogits = std::vector<float>;
using StreamModelPtr = std::shared_ptr<const model::Model>;

constexpr size_t kStreamVocab = 50;

using testing::FakeReads;
using testing::LeastBytes;
using testing::PreparedFile;
using testing::PrepareTiny;
using testing::StreamedOptions;
using testing::StreamedRig;
using testing::StreamedSpec;

struct StreamCase {
  const char* name;
  FfnMode mode;
  bool dense_prompts;
  size_t record_alignment;
};

// A mode with one way to read: gates first or not, over gaps or not, one layer
// ahead or not. Parts are as small as these models' gates; a first part that
// takes no time makes gates come first always.
struct StorageWay {
  StorageMode mode = StorageMode::kCluster;
  ReadPlan reads;
};

std::vector<StorageWay> StorageWays() {
  const ReadPlan default_plan;
  const ReadPlan gates_first = {
      .part_bytes = 64, .first_cost = -10.0, .gap_bytes = 0};
  const ReadPlan over_gaps = {.part_bytes = 64,
                              .first_cost = 0.4,
                              .gap_bytes = 64 << 10,
                              .longest_bytes = 8 << 10,
                              .most_early = 2};
  return {{StorageMode::kCluster, gates_first},
          {StorageMode::kMatrix, gates_first},
          {StorageMode::kWindow, default_plan},
          {StorageMode::kCluster, over_gaps},
          {StorageMode::kMatrix, over_gaps},
          {StorageMode::kCluster, default_plan},
          {StorageMode::kWindow, over_gaps}};
}

// Of a budget that is kept; with the least of it generated rows miss records.
void ExpectBits(const StreamModelPtr& model, const SessionOptions& options,
                const StreamLogits& expected) {
  StreamedRig streamed(model, options);
  const uint64_t ram = options.budget.ram.value();
  EXPECT_LE(streamed.runtime().plan().memory.host.total(), ram);
  EXPECT_EQ(streamed.All(), expected);
  const StreamTotals totals = streamed.engine().stream_totals();
  EXPECT_EQ(totals.prompt.num_rows, 20u + 13u);
  EXPECT_EQ(totals.generated.num_rows, 1u + 1u + 5u + 1u);
  EXPECT_GT(totals.prompt.num_missed, 0u);
  if (ram == LeastBytes(*model, options)) {
    EXPECT_GT(totals.generated.num_missed, 0u);
  }
  const ArenaPlan& arena = streamed.runtime().plan().engine.stream->arena;
  const bool holds_all =
      std::ranges::all_of(arena.resident, [&](uint32_t count) {
        return count == model->config().layers[0].ffn.width;
      });
  if (holds_all && options.dense_prompts) {
    EXPECT_EQ(totals.generated.num_missed, 0u);
  }
}

class StreamedModel : public ::testing::TestWithParam<StreamCase> {};

TEST_P(StreamedModel, GivesTheBitsOfOneInMemory) {
  const os::TestFolder folder;
  const StreamCase& subject = GetParam();
  const PreparedFile file =
      PrepareTiny(folder, StreamedSpec(subject.mode), subject.record_alignment);
  StreamedRig in_memory(
      file.mapped, StreamedOptions(subject.mode, 2, subject.dense_prompts));
  const StreamLogits expected = in_memory.All();
  const StreamModelPtr model = file.OpenStreamed();
  ASSERT_FALSE(model->weights().layers[0].ffn.up.in_memory());
  const std::vector<StorageWay> ways = StorageWays();
  size_t num_runs = 0;
  for (const int num_threads : {1, 2, 3}) {
    SessionOptions options =
        StreamedOptions(subject.mode, num_threads, subject.dense_prompts);
    if (num_threads == 3) options.batch = 13;  // the first prompt in two
    const uint64_t least = LeastBytes(*model, options);
    const size_t slot_bytes =
        PlanRuntime(*model, options).value().engine.stream->arena.slot_bytes;
    for (const size_t num_more : {size_t{0}, size_t{150}, size_t{100'000}}) {
      const auto seed = static_cast<uint64_t>(num_threads) * 7 + num_more;
      options.budget.ram = least + num_more * slot_bytes;
      options.open_records =
          FakeReads(file, {.seed = seed, .short_share = 0.2});
      const StorageWay& way = ways[num_runs++ % ways.size()];
      options.storage = way.mode;
      options.reads = way.reads;
      SCOPED_TRACE(::testing::Message() << num_threads << " " << num_more << " "
                                        << NameOf(way.mode));
      ExpectBits(model, options, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StreamedModel,
    ::testing::Values(
        StreamCase{"exact", FfnMode::kExact, false, 64},
        StreamCase{"fast", FfnMode::kFast, false, 4096},
        StreamCase{"dense", FfnMode::kDense, false, 64},
        StreamCase{"threshold", FfnMode::kThreshold, false, 4096},
        StreamCase{"fast_dense_prompts", FfnMode::kFast, true, 4096},
        StreamCase{"exact_dense_prompts", FfnMode::kExact, true, 64}),
    [](const auto& info) { return std::string(info.param.name); });

// Any way to read with any budget, threads and order of reads, where all that
// is to be known of a layer is known a layer early.
TEST(StreamedModelTest, EveryStorageModeGivesTheSameBits) {
  const os::TestFolder folder;
  // Weights in blocks meet rounded inputs, which are prepared once.
  for (const auto& [mode, dtype] : {std::pair{FfnMode::kFast, DType::kF32},
                                    std::pair{FfnMode::kExact, DType::kF32},
                                    std::pair{FfnMode::kExact, DType::kQ8_0}}) {
    testing::TinySpec spec = StreamedSpec(mode);
    if (dtype != DType::kF32) {
      spec = testing::WideSpec(dtype);
      spec.num_layers = 3;
      spec.activation = "relu";
      spec.vocab_size = kStreamVocab;
    }
    const PreparedFile file = PrepareTiny(folder, spec, 64);
    StreamedRig in_memory(file.mapped, StreamedOptions(mode, 2, false));
    const StreamLogits expected = in_memory.All();
    const StreamModelPtr model = file.OpenStreamed();
    uint64_t seed = 1;
    for (const StorageWay& way : StorageWays()) {
      for (const size_t num_more : {0, 60, 140}) {
        SessionOptions options =
            StreamedOptions(mode, 1 + static_cast<int>(seed % 3), false);
        options.budget.ram = LeastBytes(*model, options) + num_more * 1000;
        options.storage = way.mode;
        options.reads = way.reads;
        options.open_records =
            FakeReads(file, {.seed = ++seed, .most_waits = 1 + seed % 9});
        StreamedRig streamed(model, options);
        EXPECT_EQ(streamed.All(), expected)
            << NameOf(way.mode) << " " << way.reads.gap_bytes << " "
            << num_more;
        const StreamTotals totals = streamed.engine().stream_totals();
        const bool looks_ahead =
            mode == FfnMode::kFast && way.mode == StorageMode::kCluster;
        EXPECT_EQ(totals.prompt.num_early > 0, looks_ahead);
      }
    }
  }
}

TEST(StreamedModelTest, EveryPolicyGivesTheSameBits) {
  const os::TestFolder folder;
  const PreparedFile file =
      PrepareTiny(folder, StreamedSpec(FfnMode::kFast), 64);
  StreamedRig in_memory(file.mapped, StreamedOptions(FfnMode::kFast, 2, true));
  const StreamLogits expected = in_memory.All();
  const StreamModelPtr model = file.OpenStreamed();
  SessionOptions options = StreamedOptions(FfnMode::kFast, 2, true);
  options.budget.ram = LeastBytes(*model, options) + (100 << 10);
  uint64_t seed = 0;
  for (const std::string& policy : testing::PolicySpecs()) {
    for (const bool deterministic : {false, true}) {
      options.policy = policy;
      options.make_policy = testing::MakeTestPolicy;
      options.deterministic = deterministic;
      options.moves_per_token = 40 * (++seed % 3);
      options.open_records =
          FakeReads(file, {.seed = seed, .most_waits = 1 + 12 * (seed % 4)});
      StreamedRig streamed(model, options);
      EXPECT_EQ(streamed.All(), expected)
          << policy << (deterministic ? ", deterministic" : "");
    }
  }
}

// From the file itself, by whatever reader the system has.
TEST(StreamedModelTest, ReadsTheFile) {
  const os::TestFolder folder;
  const PreparedFile file =
      PrepareTiny(folder, StreamedSpec(FfnMode::kExact), 4096);
  StreamedRig in_memory(file.mapped, StreamedOptions(FfnMode::kExact, 2, true));
  const StreamModelPtr model = file.OpenStreamed();
  SessionOptions options = StreamedOptions(FfnMode::kExact, 2, true);
  options.budget.ram = LeastBytes(*model, options) + (200 << 10);
  StreamedRig streamed(model, options);
  EXPECT_EQ(streamed.All(), in_memory.All());
  testing::ExpectReadToSlots(streamed.engine());
}

// As in all of the model's errors of reads; tried again it is right.
void ExpectRetried(StreamedRig& streamed, Phase phase, size_t count,
                   const StreamLogits& expected, size_t& num_failed) {
  StreamLogits logits;
  Status status = streamed.Decode(0, phase, count, logits);
  if (!status) {
    ++num_failed;
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message, HasSubstr("prepared.gguf: layer "));
    EXPECT_THAT(status.error().message, HasSubstr("cannot be read"));
    status = streamed.Decode(0, phase, count, logits);
  }
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(logits, expected);
}

// Whichever read fails, the pass ends with it and leaves nothing; tried again,
// it is what it would have been.
TEST(StreamedModelTest, AFailedReadEndsThePassAlone) {
  const os::TestFolder folder;
  const PreparedFile file =
      PrepareTiny(folder, StreamedSpec(FfnMode::kExact), 64);
  const StreamModelPtr model = file.OpenStreamed();
  const std::vector<StorageWay> ways = StorageWays();
  for (const bool dense_prompts : {false, true}) {
    StreamedRig in_memory(file.mapped,
                          StreamedOptions(FfnMode::kExact, 2, dense_prompts));
    StreamLogits prompt, next;
    ASSERT_TRUE(in_memory.Decode(0, Phase::kPrompt, 20, prompt));
    ASSERT_TRUE(in_memory.Decode(0, Phase::kGenerate, 1, next));
    SessionOptions options = StreamedOptions(FfnMode::kExact, 2, dense_prompts);
    options.budget.ram = LeastBytes(*model, options) + (100 << 10);
    size_t num_failed = 0;
    for (const uint64_t fail_read : {1, 2, 3, 4, 5, 6, 8, 11, 15, 25}) {
      options.open_records =
          FakeReads(file, {.seed = 3, .fail_read = fail_read});
      const StorageWay& way = ways[fail_read % ways.size()];
      options.storage = way.mode;
      options.reads = way.reads;
      StreamedRig streamed(model, options);
      ExpectRetried(streamed, Phase::kPrompt, 20, prompt, num_failed);
      ExpectRetried(streamed, Phase::kGenerate, 1, next, num_failed);
    }
    EXPECT_GE(num_failed, 4u);
  }
}

TEST(StreamedModelTest, TooSmallABudgetNamesWhatIsNeeded) {
  const os::TestFolder folder;
  const PreparedFile file =
      PrepareTiny(folder, StreamedSpec(FfnMode::kExact), 64);
  const StreamModelPtr model = file.OpenStreamed();
  SessionOptions options = StreamedOptions(FfnMode::kExact, 1, true);
  const uint64_t least = LeastBytes(*model, options);
  options.budget.ram = least - 1;
  const auto refused = Runtime::Create(model, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("at least"));
  EXPECT_THAT(refused.error().message, HasSubstr("slots"));
  options.budget.ram = least;
  options.open_records = FakeReads(file, {});
  EXPECT_TRUE(Runtime::Create(model, options));
}

TEST(StreamedModelTest, TakesWhatWasPlanned) {
  const os::TestFolder folder;
  const PreparedFile file =
      PrepareTiny(folder, StreamedSpec(FfnMode::kExact), 4096);
  const StreamModelPtr model = file.OpenStreamed();
  SessionOptions options = StreamedOptions(FfnMode::kExact, 1, true);
  options.budget.ram = LeastBytes(*model, options) + (1 << 20);
  options.open_records = FakeReads(file, {});
  StreamedRig streamed(model, options);
  const MemoryPlan& memory = streamed.runtime().plan().memory;
  EXPECT_EQ(memory.host.slots,
            streamed.runtime().plan().engine.stream->arena.num_bytes());
  EXPECT_EQ(memory.host.weights, model->file().num_held_bytes());
  EXPECT_TRUE(memory.holds_weights);
  uint64_t record_bytes = 0;
  for (size_t i = 0; i < 3; ++i)
    record_bytes += model->RecordSpan(i)->num_bytes;
  EXPECT_EQ(model->file().num_held_bytes() + record_bytes,
            WeightMemory::Of(*file.mapped).num_bytes);
}

TEST(StreamedModelTest, SignsOfTheWeightsAreRefused) {
  const os::TestFolder folder;
  const PreparedFile file =
      PrepareTiny(folder, StreamedSpec(FfnMode::kExact), 64);
  SessionOptions options = StreamedOptions(FfnMode::kFast, 1, true);
  options.predictor = PredictorChoice::kTrainingFree;
  const auto refused = Runtime::Create(file.OpenStreamed(), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace thermocline::engine
