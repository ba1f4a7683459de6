// Models whose layers stay in the file: what they compute is what they would
// with all in memory.
#include "engine/stream/layer_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/left_tensors.h"
#include "engine/runtime.h"
#include "engine/testing/test_stream_rig.h"
#include "engine/testing/tiny_model.h"
#include "os/file.h"
#include "os/test_folder.h"
#include "storage/block_reader.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using LayerLogits = std::vector<float>;
using LayerModelPtr = std::shared_ptr<const model::Model>;

// A model's bytes for a fake reader, and opened in both ways.
struct LayerFile {
  explicit LayerFile(const testing::TinySpec& tiny)
      : spec(tiny), mapped(testing::MakeTinyModel(tiny)) {
    const gguf::TensorInfo& first = mapped->file().tensors()[0];
    bytes = {first.data - first.offset, mapped->file().num_file_bytes()};
  }

  uint64_t weight_bytes() const { return WeightMemory::Of(*mapped).num_bytes; }

  // What all of it takes.
  uint64_t WholeBytes(SessionOptions options) const {
    options.budget.ram.reset();
    return PlanRuntime(*mapped, options).value().memory.host.total();
  }

  // With what the budget leaves in the file.
  LayerModelPtr Open(const SessionOptions& options) const {
    model::OpenOptions open;
    open.leaves = [&](const gguf::File& file, const model::Config& config) {
      return TensorsToLeave(file, config, options);
    };
    auto model = testing::OpenTinyModel(spec, open);
    EXPECT_TRUE(model) << model.error().message;
    return *model;
  }

  // The least budget, which the refusal of a smaller one says.
  uint64_t LeastBytes(SessionOptions options) const {
    options.budget.ram = 0;
    return PlanRuntime(*Open(options), options).value().memory.host.total();
  }

  OpenRecordReader Reads(storage::FakeOptions options) const {
    return [this, options](const std::vector<std::string>&) {
      return Result<std::unique_ptr<storage::BlockReader>>(
          storage::MakeFakeReader({bytes}, options));
    };
  }

  testing::TinySpec spec;
  LayerModelPtr mapped;
  std::span<const std::byte> bytes;
};

class LayerRig : public testing::StreamRig {
 public:
  using StreamRig::StreamRig;
  // Prompts, generated rows one by one and some together, of two sequences.
  LayerLogits All() {
    LayerLogits all;
    Add(0, Phase::kPrompt, 11, all);
    Add(0, Phase::kGenerate, 1, all);
    Add(1, Phase::kPrompt, 3, all);
    for (const size_t count : {1, 1, 4}) Add(0, Phase::kGenerate, count, all);
    Add(1, Phase::kGenerate, 1, all);
    return all;
  }
};

SessionOptions LayerOptions(int num_threads) {
  return {.num_threads = num_threads, .batch = 16, .num_sequences = 2};
}

testing::TinySpec LayerSpecOf(const std::string& name) {
  testing::TinySpec spec;
  if (name == "q4_0") spec = testing::WideSpec(DType::kQ4_0);
  spec.num_layers = 5;
  if (name == "unlike") testing::UseUnlikeLayers(16, spec);
  if (name == "llama_both_downs") spec.both_downs = true;
  if (name == "llama_tied") spec.tied = true;
  if (name == "falcon") {
    testing::UseArchitecture("falcon", spec);
    spec.two_norms = true;
  }
  if (name == "opt" || name == "qwen2") testing::UseArchitecture(name, spec);
  return spec;
}

class LayerStreamModels : public ::testing::TestWithParam<const char*> {};

TEST_P(LayerStreamModels, GiveTheBitsOfOnesInMemory) {
  const LayerFile file(LayerSpecOf(GetParam()));
  LayerRig in_memory(file.mapped, LayerOptions(2));
  const LayerLogits expected = in_memory.All();
  size_t most_left = 0;
  size_t least_left = 100;
  for (const int num_threads : {1, 2}) {
    const uint64_t least = file.LeastBytes(LayerOptions(num_threads));
    const uint64_t whole = file.WholeBytes(LayerOptions(num_threads));
    ASSERT_LT(least, whole);
    for (const double share : {0.0, 0.3, 0.6, 1.0}) {
      SessionOptions options = LayerOptions(num_threads);
      options.budget.ram =
          least +
          static_cast<uint64_t>(share * static_cast<double>(whole - 1 - least));
      const auto seed = static_cast<uint64_t>(num_threads + 10 * share);
      options.open_records = file.Reads({.seed = seed, .short_share = 0.2});
      const LayerModelPtr model = file.Open(options);
      LayerRig streamed(model, options);
      EXPECT_LE(streamed.runtime().plan().memory.host.total(),
                *options.budget.ram);
      EXPECT_EQ(streamed.All(), expected) << num_threads << " " << share;
      const StreamTotals totals = streamed.engine().stream_totals();
      const size_t num_layers = model->config().layers.size();
      EXPECT_EQ(totals.prompt.num_wanted, 2 * num_layers);
      EXPECT_EQ(totals.generated.num_wanted, 5 * num_layers);
      EXPECT_GT(totals.generated.num_missed, 0u);
      EXPECT_GT(totals.generated.num_bytes, 0u);
      EXPECT_GT(totals.generated.num_reads, 0u);
      const size_t num_left = WeightMemory::Of(*model).left->num_layers;
      most_left = std::max(most_left, num_left);
      least_left = std::min(least_left, num_left);
    }
  }
  const size_t num_layers = file.mapped->config().layers.size();
  EXPECT_EQ(most_left, num_layers);
  if (num_layers > 4) EXPECT_LT(least_left, most_left);
}

INSTANTIATE_TEST_SUITE_P(All, LayerStreamModels,
                         ::testing::Values("llama", "q4_0", "unlike",
                                           "llama_both_downs", "llama_tied",
                                           "falcon", "opt", "qwen2"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

// Runtime::Create finds that the budget holds what was kept when it opened.
TEST(LayerStreamTest, EveryBudgetFromTheLeastOnFits) {
  const LayerFile file(LayerSpecOf("unlike"));
  SessionOptions options = LayerOptions(1);
  options.open_records = file.Reads({});
  const uint64_t least = file.LeastBytes(options);
  const uint64_t whole = file.WholeBytes(options);
  for (uint64_t ram = least; ram < whole; ram += 4999) {
    options.budget.ram = ram;
    const auto model = file.Open(options);
    const auto runtime = Runtime::Create(model, options);
    ASSERT_TRUE(runtime) << runtime.error().message;
    EXPECT_LE((*runtime)->plan().memory.host.total(), ram);
    EXPECT_EQ((*runtime)->plan().memory.host.weights,
              model->file().num_held_bytes());
  }
  options.budget.ram = whole;
  EXPECT_FALSE(file.Open(options)->is_partly_left());

  options.budget.ram = least - 1;
  const auto refused = Runtime::Create(file.Open(options), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("at least"));
}

TEST(LayerStreamTest, SpreadsWhatStaysAndSaysSo) {
  const LayerFile file([] {
    testing::TinySpec spec = LayerSpecOf("llama");
    spec.num_layers = 8;
    return spec;
  }());
  SessionOptions options = LayerOptions(1);
  options.open_records = file.Reads({});
  options.budget.ram =
      (file.LeastBytes(options) + file.WholeBytes(options)) / 2;
  const auto model = file.Open(options);
  const auto stream =
      LayerStream::Create(*model, *PlanRuntime(*model, options)->engine.stream)
          .value();
  std::vector<bool> is_left;
  for (size_t i = 0; i < 8; ++i) is_left.push_back(stream->IsLeft(i));
  EXPECT_THAT(is_left, ::testing::ElementsAre(false, true, true, true, false,
                                              true, true, true))
      << stream->Describe();
  EXPECT_THAT(stream->Describe(), HasSubstr("layers 2 of 8 in "));
  EXPECT_THAT(stream->Describe(), HasSubstr(" and 2 slots of "));
}

// At any layer, once or twice in a row.
TEST(LayerStreamTest, ACancelledPassLeavesNothing) {
  const LayerFile file(LayerSpecOf("llama"));
  SessionOptions options = LayerOptions(2);
  options.open_records = file.Reads({.seed = 4, .most_waits = 40});
  const uint64_t least = file.LeastBytes(options);
  const uint64_t whole = file.WholeBytes(options);
  for (const uint64_t ram : {least, (least + whole) / 2}) {
    options.budget.ram = ram;
    LayerRig in_memory(file.mapped, LayerOptions(2));
    LayerRig streamed(file.Open(options), options);
    LayerLogits expected, logits;
    for (size_t stop = 0; stop < 10; ++stop) {
      std::atomic<bool> cancel = false;
      const PassHooks hooks = {.cancel = &cancel,
                               .layers_done = [&](size_t num_done) {
                                 cancel = num_done == stop / 2;
                               }};
      const Status status =
          streamed.Decode(1, Phase::kGenerate, 2, logits, hooks);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
      if (stop % 3 == 0) continue;
      ASSERT_TRUE(in_memory.Decode(0, Phase::kGenerate, 1, expected));
      ASSERT_TRUE(streamed.Decode(0, Phase::kGenerate, 1, logits));
      EXPECT_EQ(logits, expected);
    }
  }
}

// Whichever read fails, a pass ends with it and leaves nothing; tried again, it
// is what it would have been.
TEST(LayerStreamTest, AFailedReadEndsThePassAlone) {
  const LayerFile file(LayerSpecOf("llama"));
  LayerRig in_memory(file.mapped, LayerOptions(2));
  LayerLogits prompt, next;
  ASSERT_TRUE(in_memory.Decode(0, Phase::kPrompt, 11, prompt));
  ASSERT_TRUE(in_memory.Decode(0, Phase::kGenerate, 1, next));
  SessionOptions options = LayerOptions(2);
  const uint64_t least = file.LeastBytes(options);
  for (const uint64_t more :
       {uint64_t{0}, (file.WholeBytes(options) - least) / 2}) {
    options.budget.ram = least + more;
    size_t num_failed = 0;
    for (uint64_t fail_read = 1; fail_read <= 9; ++fail_read) {
      options.open_records = file.Reads({.seed = 3, .fail_read = fail_read});
      LayerRig streamed(file.Open(options), options);
      LayerLogits logits;
      const auto decode = [&](Phase phase, size_t count) {
        Status status = streamed.Decode(0, phase, count, logits);
        if (!status) {
          ++num_failed;
          EXPECT_EQ(status.error().code, ErrorCode::kIo);
          EXPECT_THAT(status.error().message, HasSubstr(".gguf: layer "));
          EXPECT_THAT(status.error().message, HasSubstr("cannot be read"));
          status = streamed.Decode(0, phase, count, logits);
        }
        EXPECT_TRUE(status) << status.error().message;
      };
      decode(Phase::kPrompt, 11);
      EXPECT_EQ(logits, prompt);
      decode(Phase::kGenerate, 1);
      EXPECT_EQ(logits, next);
    }
    EXPECT_GE(num_failed, 4u);
  }
}

// From the file itself, by whatever reader the system has; one that has lost
// its end since is refused.
TEST(LayerStreamTest, ReadsTheFile) {
  const LayerFile file(LayerSpecOf("llama"));
  const os::TestFolder folder;
  const std::string path = folder / "plain.gguf";
  const std::string text(reinterpret_cast<const char*>(file.bytes.data()),
                         file.bytes.size());
  folder.Write("plain.gguf", text);
  SessionOptions options = LayerOptions(2);
  options.budget.ram = file.LeastBytes(options);
  model::OpenOptions open;
  open.leaves = [&](const gguf::File& opened, const model::Config& config) {
    return TensorsToLeave(opened, config, options);
  };
  const LayerModelPtr model = model::Model::Open(path, open).value();
  LayerRig in_memory(file.mapped, LayerOptions(2));
  LayerRig streamed(model, options);
  EXPECT_EQ(streamed.All(), in_memory.All());
  testing::ExpectReadToSlots(streamed.engine());

  folder.Write("plain.gguf", text.substr(0, text.size() / 2));
  const auto refused = Runtime::Create(model, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_THAT(refused.error().message, HasSubstr("was changed"));
}

}  // namespace
}  // namespace thermocline::engine
