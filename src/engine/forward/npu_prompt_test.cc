// Prompts that a device computes are what the host's are, and what follows them
// goes on as if they were.
#include "engine/forward/npu_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/left_tensors.h"
#include "engine/runtime.h"
#include "engine/testing/test_prompt_device.h"
#include "model/test_log.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::MakeTinyModel;
using testing::Nmse;
using testing::PromptRig;
using testing::ReferenceDevice;
using testing::TinySpec;
using testing::WithPrompts;

// Keys and values are rounded to F16 in the middle of the last sum, and F32
// weights with them.
constexpr double kGraphNmse = 1e-5;

struct PromptCase {
  std::string name;
  FfnMode ffn = FfnMode::kAuto;
  DType kv = DType::kF16;
  std::optional<bool> inputs = false;
};

TinySpec PromptSpecOf(const std::string& name) {
  TinySpec spec;
  spec.num_layers = 3;
  spec.dtype = DType::kF16;
  if (name == "f32") spec.dtype = DType::kF32;
  if (name == "q8_0") spec = testing::WideSpec(DType::kQ8_0);
  if (name == "relu" || name == "records") spec.activation = "relu";
  if (name == "yarn") {
    spec.rope_scaling = "yarn";
    spec.rope_factor = 2.0f;
    spec.rope_original_context = 32;
  }
  if (name == "qwen2" || name == "qwen3" || name == "opt") {
    testing::UseArchitecture(name, spec);
  }
  return spec;
}

// "records": its neurons lie in records, in memory.
std::shared_ptr<const model::Model> PromptModelOf(const std::string& name) {
  if (name != "records") return MakeTinyModel(PromptSpecOf(name));
  return testing::OpenTinyModel(PromptSpecOf(name), {.bundle_at_load = true})
      .value();
}

SessionOptions HostOptions(const PromptCase& test) {
  return {.num_threads = 2,
          .k_type = test.kv,
          .v_type = test.kv,
          .ffn = test.ffn,
          .dense_prompts = true};
}

class PromptModels : public ::testing::TestWithParam<PromptCase> {};

// Turns of a chat, one taken back, prompts of one row and of many.
std::vector<text::TokenId> Talk(PromptRig& rig) {
  std::vector<text::TokenId> tokens;
  const auto add = [&](size_t num_prompt, size_t num_generated) {
    rig.Prompt(num_prompt);
    const auto more = rig.Generate(num_generated);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  add(19, 4);
  add(7, 3);
  rig.session().Truncate(24);
  add(9, 2);
  rig.session().Truncate(0);
  add(1, 2);
  add(16, 1);
  return tokens;
}

TEST_P(PromptModels, SayWhatTheHostSays) {
  const auto model = PromptModelOf(GetParam().name);
  PromptRig host(model, HostOptions(GetParam()));
  const std::vector<text::TokenId> expected = Talk(host);
  for (const bool weights_are_inputs : {false, true}) {
    SessionOptions options =
        WithPrompts(ReferenceDevice(), HostOptions(GetParam()));
    options.prompts.weights_are_inputs = weights_are_inputs;
    PromptRig device(model, options);
    EXPECT_EQ(Talk(device), expected);
    const double bound =
        GetParam().kv == DType::kQ8_0 ? testing::kRoundedNmse : kGraphNmse;
    EXPECT_LE(Nmse(device.logits(), host.logits()), bound);
    EXPECT_EQ(device.session().prompt_times().num_rows, 19u + 7 + 9 + 1 + 16);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PromptModels,
    ::testing::Values(PromptCase{"llama"}, PromptCase{"f32"},
                      PromptCase{"llama", FfnMode::kAuto, DType::kF32},
                      PromptCase{"q8_0", FfnMode::kAuto, DType::kQ8_0},
                      PromptCase{"relu", FfnMode::kExact},
                      PromptCase{"records", FfnMode::kExact},
                      PromptCase{"yarn"}, PromptCase{"qwen2"},
                      PromptCase{"qwen3"}, PromptCase{"opt"}),
    [](const auto& info) {
      return info.param.name + "_" + std::to_string(info.index);
    });

// Prompts of 9, 3 and 12 tokens of sequences of their own, and two generated
// rows of another.
struct MixedPasses {
  explicit MixedPasses(const Runtime& runtime)
      : tokens(testing::RandomTokens(26, 50)) {
    for (int i = 0; i < 4; ++i) sequences.push_back(runtime.NewSequence());
  }

  Result<std::vector<float>> Run(Engine& engine) {
    std::vector<BatchRun> runs;
    size_t first = 0;
    for (const size_t count : {9u, 3u, 12u, 2u}) {
      runs.push_back({.sequence = &sequences[runs.size()],
                      .tokens = std::span(tokens).subspan(first, count),
                      .phase = first < 24 ? Phase::kPrompt : Phase::kGenerate,
                      .logits = LogitsOf::kAll});
      first += count;
    }
    std::vector<float> rows(tokens.size() * 50);
    TC_RETURN_IF_ERROR(engine.Run({runs}, rows));
    return rows;
  }

  std::vector<text::TokenId> tokens;
  std::vector<KvSequence> sequences;
};

// One of the prompts is too short.
TEST(NpuPromptTest, TakesItsRunsOfABatchAndLeavesTheOthers) {
  const auto model = MakeTinyModel(PromptSpecOf("llama"));
  std::vector<std::vector<float>> all;
  for (const bool on_device : {false, true}) {
    SessionOptions options = {.num_threads = 2, .num_sequences = 4};
    if (on_device) options = WithPrompts(ReferenceDevice(), options);
    options.prompts.least_rows = 5;
    const auto runtime = Runtime::Create(model, options).value();
    MixedPasses passes(*runtime);
    std::vector<float> logits;
    for (int pass = 0; pass < 2; ++pass) {
      const auto rows = passes.Run(runtime->engine());
      ASSERT_TRUE(rows.has_value()) << rows.error().message;
      logits.insert(logits.end(), rows->begin(), rows->end());
    }
    EXPECT_EQ(runtime->engine().prompt_times().num_rows, on_device ? 42u : 0u);
    all.push_back(logits);
  }
  EXPECT_LE(Nmse(all[1], all[0]), kGraphNmse);
  // Rows of the others are the host's to the bit.
  const auto others = [&](const std::vector<float>& logits) {
    std::vector<float> rows(logits.begin() + 9 * 50, logits.begin() + 12 * 50);
    rows.insert(rows.end(), logits.begin() + 24 * 50, logits.begin() + 26 * 50);
    return rows;
  };
  EXPECT_EQ(others(all[1]), others(all[0]));
}

// Logits of a prompt of 9 behind one of 19, with another sequence's between
// them or not.
std::vector<float> SecondTurn(const std::shared_ptr<const model::Model>& model,
                              DType kv, bool has_other) {
  SessionOptions options = WithPrompts(
      ReferenceDevice(), {.k_type = kv, .v_type = kv, .num_sequences = 2});
  const auto runtime = Runtime::Create(model, options).value();
  const size_t vocab_size = model->config().vocab_size;
  KvSequence one = runtime->NewSequence();
  KvSequence other = runtime->NewSequence();
  std::vector<float> logits;
  const auto prompt = [&](KvSequence& sequence, size_t count) {
    const auto tokens = testing::RandomTokens(count, vocab_size, count);
    const BatchRun run = {.sequence = &sequence,
                          .tokens = tokens,
                          .phase = Phase::kPrompt,
                          .logits = LogitsOf::kAll};
    logits.resize(count * vocab_size);
    EXPECT_TRUE(runtime->engine().Run({{&run, 1}}, logits).has_value());
  };
  prompt(one, 19);
  if (has_other) prompt(other, 10);
  prompt(one, 9);
  EXPECT_EQ(runtime->engine().prompt_times().num_rows, has_other ? 38u : 28u);
  return logits;
}

// The device sees what the host keeps, in few bits too.
TEST(NpuPromptTest, AnotherSequenceBetweenChangesNoBit) {
  const auto model = MakeTinyModel(PromptSpecOf("q8_0"));
  for (const DType kv : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    EXPECT_EQ(SecondTurn(model, kv, false), SecondTurn(model, kv, true))
        << NameOf(kv);
  }
}

// Of sessions that come in turn.
TEST(NpuPromptTest, SessionsMayShareWhatWasCompiled) {
  const auto model = MakeTinyModel(PromptSpecOf("llama"));
  for (const bool weights_are_inputs : {false, true}) {
    const auto device = std::make_shared<npu::FaultyDevice>();
    const auto kept = npu::KeepPrograms(device);
    std::vector<std::vector<float>> logits;
    for (const int num_compiles : {1, 1}) {
      SessionOptions options = WithPrompts(kept);
      options.prompts.weights_are_inputs = weights_are_inputs;
      PromptRig rig(model, options);
      rig.Prompt(19);
      EXPECT_EQ(device->num_compiles, num_compiles);
      logits.push_back(rig.logits());
    }
    EXPECT_EQ(logits[0], logits[1]);
  }
}

// A lost device: the host computes that prompt anew and all later ones, and the
// bits are the host's.
TEST(NpuPromptTest, TheHostTakesOverFromADeviceThatFails) {
  const auto model = MakeTinyModel(PromptSpecOf("llama"));
  PromptRig host(model, {.num_threads = 2});
  host.Prompt(19);
  const auto expected = host.Generate(3);
  host.Prompt(9);
  for (const int failing : {0, 2}) {
    for (const bool weights_are_inputs : {false, true}) {
      const model::TestLog log;
      const auto device = std::make_shared<npu::FaultyDevice>();
      device->failing_infer = failing;
      SessionOptions options = WithPrompts(device);
      options.prompts.weights_are_inputs = weights_are_inputs;
      PromptRig rig(model, options);
      rig.Prompt(19);
      EXPECT_EQ(rig.Generate(3), expected);
      rig.Prompt(9);
      EXPECT_EQ(rig.logits(), host.logits());
      ASSERT_EQ(log.lines().size(), 2u);  // which device, and that it is lost
      EXPECT_THAT(log.lines()[1],
                  HasSubstr("the device is lost: from now on the host computes "
                            "prompts"));
      EXPECT_EQ(device->num_infers, failing + 1);
      EXPECT_EQ(rig.session().prompt_device(), "");
    }
  }
}

TEST(NpuPromptTest, WithoutAHostToTakeOverItsErrorIsThePasss) {
  const auto model = MakeTinyModel(PromptSpecOf("llama"));
  const auto device = std::make_shared<npu::FaultyDevice>();
  SessionOptions options = WithPrompts(device);
  options.prompts.host_takes_over = false;
  PromptRig rig(model, options);
  PromptRig undisturbed(model, WithPrompts(ReferenceDevice()));
  undisturbed.Prompt(10);
  undisturbed.Prompt(10);
  rig.Prompt(10);
  device->failing_infer = device->num_infers + 1;
  const Status status = rig.Decode(Phase::kPrompt, 10);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_EQ(rig.session().position(), 10);
  // The next one works, and nothing shows of the one before.
  rig.Prompt(10);
  EXPECT_EQ(rig.logits(), undisturbed.logits());
}

TEST(NpuPromptTest, ACancelledPromptLeavesNothing) {
  const auto model = MakeTinyModel(PromptSpecOf("llama"));
  std::atomic<bool> cancel = true;
  SessionOptions options = WithPrompts(ReferenceDevice());
  options.cancel = &cancel;
  PromptRig rig(model, options);
  const Status status = rig.Decode(Phase::kPrompt, 10);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(rig.session().position(), 0);
  cancel = false;
  rig.Prompt(10);
  EXPECT_EQ(rig.session().prompt_times().num_rows, 10u);
}

// Prompts in pieces, as long as a batch may be.
TEST(NpuPromptTest, LongPromptsGoOnFromPieceToPiece) {
  const auto model = MakeTinyModel(PromptSpecOf("llama"));
  PromptRig whole(model, WithPrompts(ReferenceDevice()));
  PromptRig pieces(model, WithPrompts(ReferenceDevice(), {.batch = 10}));
  whole.Prompt(37);
  pieces.Prompt(37);
  EXPECT_EQ(pieces.logits(), whole.logits());
}

// Two turns.
std::vector<text::TokenId> TalkShortly(PromptRig& rig) {
  rig.Prompt(10);
  std::vector<text::TokenId> tokens = rig.Generate(2);
  rig.Prompt(5);
  return tokens;
}

// Layers that stay in the file are read and unpacked under the inference.
TEST(NpuPromptTest, ReadsLayersThatStayInTheFile) {
  TinySpec spec = testing::WideSpec(DType::kQ4_0);
  spec.num_layers = 4;
  const auto mapped = MakeTinyModel(spec);
  PromptRig in_memory(mapped, WithPrompts(ReferenceDevice()));
  const std::vector<text::TokenId> expected = TalkShortly(in_memory);
  SessionOptions options = WithPrompts(ReferenceDevice());
  options.budget.ram = 1;
  const auto open = [&] {
    return testing::OpenTinyModel(
        spec,
        {.leaves = [&](const gguf::File& file, const model::Config& config) {
          return TensorsToLeave(file, config, options);
        }});
  };
  options.budget.ram =
      PlanRuntime(*open().value(), options).value().memory.host.total() + 4096;
  const auto model = open().value();
  ASSERT_TRUE(model->is_partly_left());
  const gguf::TensorInfo& first = mapped->file().tensors()[0];
  const std::span<const std::byte> bytes(first.data - first.offset,
                                         mapped->file().num_file_bytes());
  options.open_records = [&](const std::vector<std::string>&) {
    return Result<std::unique_ptr<storage::BlockReader>>(
        storage::MakeFakeReader({bytes}, {.seed = 3}));
  };
  PromptRig streamed(model, options);
  EXPECT_EQ(TalkShortly(streamed), expected);
  EXPECT_EQ(streamed.session().prompt_times().num_rows, 15u);
  EXPECT_EQ(streamed.logits(), in_memory.logits());
  EXPECT_GT(streamed.session().stream_totals().prompt.num_missed, 0u);
}

TEST(NpuPromptTest, MemoryIsPlannedBeforeAnythingIsCompiled) {
  const auto model = MakeTinyModel(PromptSpecOf("llama"));
  const auto device = std::make_shared<npu::FaultyDevice>();
  SessionOptions options = WithPrompts(device);
  const uint64_t host_alone =
      PlanRuntime(*model, {.num_threads = 2})->memory.host.total();
  const MemoryPlan plan = PlanRuntime(*model, options)->memory;
  EXPECT_GT(plan.host.graphs, 0u);
  EXPECT_EQ(plan.host.total(), host_alone + plan.host.graphs);
  EXPECT_THAT(Describe(plan), HasSubstr("static graphs "));
  options.budget.ram = plan.host.total() - 1;
  const auto refused = Runtime::Create(model, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(device->num_compiles, 0);
}

}  // namespace
}  // namespace thermocline::engine
