// Prompts on a device of models whose neurons' records stay in the file.
#include "engine/stream/record_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/left_tensors.h"
#include "engine/testing/test_prepared_file.h"
#include "engine/testing/test_prompt_device.h"
#include "model/test_log.h"

namespace thermocline::engine {
namespace {

using testing::FakeReads;
using ::testing::HasSubstr;
using testing::PreparedFile;
using testing::PromptRig;
using testing::ReferenceDevice;
using testing::WithPrompts;

struct NpuRecordCase {
  std::string name;
  DType dtype = DType::kF32;
  FfnMode mode = FfnMode::kExact;
  size_t alignment = 64;
};

testing::TinySpec NpuRecordSpec(const NpuRecordCase& test) {
  testing::TinySpec spec;
  if (test.dtype != DType::kF32) spec = testing::WideSpec(test.dtype);
  spec.num_layers = 3;
  spec.activation = "relu";
  if (test.mode == FfnMode::kFast) {
    spec.predictor_rank = 8;
    spec.lookahead = 1;
  }
  return spec;
}

SessionOptions NpuRecordOptions(FfnMode mode) {
  SessionOptions options = {.ffn = mode, .dense_prompts = true};
  return WithPrompts(ReferenceDevice(), options);
}

// Turns, one of them taken back, with rows in between that the host computes.
std::vector<text::TokenId> TalkOfRecords(PromptRig& rig) {
  rig.Prompt(19);
  std::vector<text::TokenId> tokens = rig.Generate(3);
  rig.Prompt(7);
  rig.session().Truncate(20);
  rig.Prompt(1);
  const auto more = rig.Generate(2);
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

class NpuRecords : public ::testing::TestWithParam<NpuRecordCase> {};

// Of any budget, reads in any order.
TEST_P(NpuRecords, SayWhatTheySayFromMemory) {
  const os::TestFolder folder;
  const PreparedFile file = testing::PrepareTiny(
      folder, NpuRecordSpec(GetParam()), GetParam().alignment);
  SessionOptions options = NpuRecordOptions(GetParam().mode);
  options.prompts.weights_are_inputs = true;
  PromptRig in_memory(file.mapped, options);
  const std::vector<text::TokenId> expected = TalkOfRecords(in_memory);
  options.prompts.weights_are_inputs.reset();
  const auto model = file.OpenStreamed();
  const uint64_t least = testing::LeastBytes(*model, options);
  for (const uint64_t more : {0, 100'000, 10'000'000}) {
    options.budget.ram = least + more;
    options.open_records =
        FakeReads(file, {.seed = more + 1, .short_share = 0.2});
    PromptRig streamed(model, options);
    EXPECT_LE(streamed.session().memory().host.total(), least + more);
    EXPECT_EQ(TalkOfRecords(streamed), expected);
    EXPECT_EQ(streamed.logits(), in_memory.logits());
    EXPECT_EQ(streamed.session().prompt_times().num_rows, 19u + 7 + 1);
    const StreamTotals totals = streamed.session().stream_totals();
    EXPECT_GT(totals.prompt.num_missed, 0u);
    EXPECT_EQ(totals.generated.num_missed == 0, more == 10'000'000);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, NpuRecords,
    ::testing::Values(NpuRecordCase{"exact"},
                      NpuRecordCase{"fast", DType::kF32, FfnMode::kFast, 4096},
                      NpuRecordCase{"q8_0", DType::kQ8_0},
                      NpuRecordCase{"q4_0", DType::kQ4_0, FfnMode::kExact,
                                    4096}),
    [](const auto& info) { return info.param.name; });

// Whichever read fails: the pass ends with it, or the host computes it.
TEST(NpuRecordsTest, AFailedReadEndsThePassOrTheHostTakesOver) {
  const os::TestFolder folder;
  const PreparedFile file = testing::PrepareTiny(folder, NpuRecordSpec({}), 64);
  const auto model = file.OpenStreamed();
  SessionOptions options = NpuRecordOptions(FfnMode::kExact);
  PromptRig device(file.mapped, [&] {
    SessionOptions in_memory = options;
    in_memory.prompts.weights_are_inputs = true;
    return in_memory;
  }());
  device.Prompt(12);
  PromptRig host(
      file.mapped,
      {.num_threads = 2, .ffn = FfnMode::kExact, .dense_prompts = true});
  host.Prompt(12);
  options.budget.ram = testing::LeastBytes(*model, options);
  for (const uint64_t fail_read : {1, 2, 3}) {
    options.open_records = FakeReads(file, {.fail_read = fail_read});
    options.prompts.host_takes_over = false;
    PromptRig rig(model, options);
    const Status status = rig.Decode(Phase::kPrompt, 12);
    ASSERT_FALSE(status.has_value()) << fail_read;
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message, HasSubstr("prepared.gguf: layer "));
    EXPECT_EQ(rig.session().position(), 0);
    rig.Prompt(12);
    EXPECT_EQ(rig.logits(), device.logits());
    options.prompts.host_takes_over = true;
    const model::TestLog log;
    PromptRig yielding(model, options);
    yielding.Prompt(12);
    EXPECT_EQ(yielding.logits(), host.logits());
    ASSERT_EQ(log.lines().size(), 2u);
    EXPECT_THAT(log.lines()[1],
                HasSubstr("from now on the host computes prompts"));
  }
}

TEST(NpuRecordsTest, ACancelledPromptLeavesNothing) {
  const os::TestFolder folder;
  const PreparedFile file = testing::PrepareTiny(folder, NpuRecordSpec({}), 64);
  const auto model = file.OpenStreamed();
  std::atomic<bool> cancel = true;
  SessionOptions options = NpuRecordOptions(FfnMode::kExact);
  options.budget.ram = testing::LeastBytes(*model, options);
  options.open_records = FakeReads(file, {.seed = 5});
  PromptRig undisturbed(model, options);
  undisturbed.Prompt(10);
  undisturbed.Generate(2);
  options.cancel = &cancel;
  PromptRig rig(model, options);
  const Status status = rig.Decode(Phase::kPrompt, 10);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  cancel = false;
  rig.Prompt(10);
  rig.Generate(2);
  EXPECT_EQ(rig.logits(), undisturbed.logits());
}

// Experts, which stay in the file too: of mixtures there are no graphs.
TEST(NpuRecordsTest, MixturesAreRefusedByName) {
  testing::TinySpec spec;
  testing::UseArchitecture("mixtral", spec);
  SessionOptions options = NpuRecordOptions(FfnMode::kAuto);
  options.prompts.host_takes_over = false;
  options.budget.ram = 1;
  const auto open = [&] {
    return testing::OpenTinyModel(
        spec,
        {.leaves = [&](const gguf::File& file, const model::Config& config) {
          return TensorsToLeave(file, config, options);
        }});
  };
  const auto model = open().value();
  ASSERT_TRUE(model->is_partly_left());
  options.budget.ram = PlanRuntime(*model, options).value().memory.host.total();
  const auto mapped = testing::MakeTinyModel(spec);
  const gguf::TensorInfo& first = mapped->file().tensors()[0];
  const std::span<const std::byte> bytes(first.data - first.offset,
                                         mapped->file().num_file_bytes());
  options.open_records = [&](const std::vector<std::string>&) {
    return Result<std::unique_ptr<storage::BlockReader>>(
        storage::MakeFakeReader({bytes}, {}));
  };
  const model::TestLog log;
  const auto session = Session::Create(model, options);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(session.error().message,
              HasSubstr("layer 0 is a mixture of 8 experts"));
}

// As constants they would have to be in memory.
TEST(NpuRecordsTest, AreInputsAlone) {
  const os::TestFolder folder;
  const PreparedFile file = testing::PrepareTiny(folder, NpuRecordSpec({}), 64);
  SessionOptions options = NpuRecordOptions(FfnMode::kExact);
  options.prompts.weights_are_inputs = false;
  options.prompts.host_takes_over = false;
  const auto model = file.OpenStreamed();
  options.budget.ram = testing::LeastBytes(*model, options);
  options.open_records = FakeReads(file, {});
  const auto session = Session::Create(model, options);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(session.error().message,
              HasSubstr("records of it stay in the file: static graphs take "
                        "them as inputs alone"));
}

}  // namespace
}  // namespace thermocline::engine
