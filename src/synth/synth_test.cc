#include "synth/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "model/model.h"
#include "model/prepared_names.h"
#include "os/file.h"

namespace thermocline::synth {
namespace {

using ::testing::HasSubstr;

std::string TempPath(const std::string& name) {
  return ::testing::TempDir() + "synth_" + std::to_string(::getpid()) + "_" +
         name;
}

std::string Take(const std::string& path) {
  std::string bytes = os::ReadFile(path).value();
  std::filesystem::remove(path);
  return bytes;
}

TEST(SynthTest, SameBytesForEveryNumberOfThreadsOthersForEverySeed) {
  const std::string path = TempPath("threads.gguf");
  std::string first;
  for (const int num_threads : {1, 3}) {
    const SynthWeights weights(PlanSynth({.like = "tiny"}).value());
    ASSERT_TRUE(WriteSynthModel(weights, SynthLayout::kPrepared, path,
                                {.num_threads = num_threads})
                    .has_value());
    const std::string bytes = Take(path);
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first);
  }
  const SynthWeights other(PlanSynth({.like = "tiny", .seed = 2}).value());
  ASSERT_TRUE(
      WriteSynthModel(other, SynthLayout::kPrepared, path, {}).has_value());
  EXPECT_FALSE(Take(path) == first);
}

TEST(SynthTest, EveryFileSaysThatItIsSynthetic) {
  const SynthWeights weights(
      PlanSynth({.like = "tiny-opt", .num_layers = 1}).value());
  for (const SynthLayout layout : {SynthLayout::kPrepared, SynthLayout::kPlain,
                                   SynthLayout::kPowerInfer}) {
    const std::string path = TempPath("marks.gguf");
    ASSERT_TRUE(WriteSynthModel(weights, layout, path, {}).has_value());
    const auto file = gguf::File::Open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ((*file)->String("general.name").value(),
              "synthetic like tiny-opt, density 0.1, skew 0.26, locality 0.6, "
              "seed 1");
    EXPECT_EQ((*file)->String(model::prepared::kSynthetic).value(),
              "like tiny-opt, 1 layer, Q4_0, density 0.1, skew 0.26, locality "
              "0.6, seed 1");
    EXPECT_EQ((*file)->container(), layout == SynthLayout::kPowerInfer
                                        ? gguf::Container::kPowerInfer
                                        : gguf::Container::kGguf);
    std::filesystem::remove(path);
  }
}

TEST(SynthTest, RecordsLieAtPages) {
  const SynthWeights weights(PlanSynth({.like = "tiny"}).value());
  const std::string path = TempPath("pages.gguf");
  ASSERT_TRUE(
      WriteSynthModel(weights, SynthLayout::kPrepared, path, {}).has_value());
  const auto file = gguf::File::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const gguf::TensorInfo* records =
      (*file)->FindTensor("blk.1.ffn_records.weight");
  ASSERT_NE(records, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(records->data) % 4096, 0u);
  std::filesystem::remove(path);
}

TEST(SynthTest, RecordsForStorageAreWholePages) {
  const SynthWeights weights(
      PlanSynth(
          {.like = "tiny-moe", .with_predictor = false, .for_storage = true})
          .value());
  const std::string path = TempPath("storage.gguf");
  ASSERT_TRUE(
      WriteSynthModel(weights, SynthLayout::kPrepared, path, {}).has_value());
  const auto model = model::Model::Open(path);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  for (const neuron::RecordLayout& layout : (*model)->config().records) {
    EXPECT_EQ(layout.stride, 4096u);
    EXPECT_TRUE(layout.gate.has_value());
  }
  std::filesystem::remove(path);
}

// A synthetic predictor reads the input of its own layer.
TEST(SynthTest, PreparedFilesSayWhatPredictorsRead) {
  for (const bool with_predictor : {true, false}) {
    const SynthWeights weights(
        PlanSynth({.like = "tiny", .with_predictor = with_predictor}).value());
    const std::string path = TempPath("lookahead.gguf");
    ASSERT_TRUE(
        WriteSynthModel(weights, SynthLayout::kPrepared, path, {}).has_value());
    const auto file = gguf::File::Open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ((*file)->Int(model::prepared::kLookahead).value(),
              with_predictor ? std::optional<int64_t>(0) : std::nullopt);
    std::filesystem::remove(path);
  }
}

TEST(SynthTest, ProgressGoesToTheEndAndCancellingLeavesNothing) {
  const SynthWeights weights(PlanSynth({.like = "tiny"}).value());
  const std::string path = TempPath("cancelled.gguf");
  uint64_t last = 0;
  uint64_t total = 0;
  ASSERT_TRUE(WriteSynthModel(weights, SynthLayout::kPlain, path,
                              {.progress =
                                   [&](std::string_view, uint64_t num_done,
                                       uint64_t num_total) {
                                     EXPECT_GE(num_done, last);
                                     last = num_done;
                                     total = num_total;
                                   }})
                  .has_value());
  EXPECT_GT(total, 0u);
  EXPECT_EQ(last, total);
  std::filesystem::remove(path);

  const std::atomic<bool> cancel = true;
  const Status status =
      WriteSynthModel(weights, SynthLayout::kPlain, path, {.cancel = &cancel});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SynthTest, PowerInferHasLimits) {
  const auto experts =
      CheckPowerInfer(PlanSynth({.like = "tiny-mixtral"}).value());
  ASSERT_FALSE(experts.has_value());
  EXPECT_THAT(experts.error().message, HasSubstr("runs no experts"));
  const auto eight_bits = CheckPowerInfer(
      PlanSynth({.like = "tiny", .dtype = DType::kQ8_0}).value());
  ASSERT_FALSE(eight_bits.has_value());
  EXPECT_THAT(eight_bits.error().message, HasSubstr("f16 and q4_0 only"));
}

TEST(SynthTest, TheTextHasAsManyWordsAsAskedFor) {
  const SynthWeights weights(PlanSynth({.like = "tiny"}).value());
  const std::string path = TempPath("text.txt");
  ASSERT_TRUE(WriteSynthText(weights, 50, 0, path).has_value());
  const std::string text = Take(path);
  EXPECT_EQ(std::ranges::count(text, ' '), 49);
  EXPECT_EQ(text.back(), '\n');
  // In lines the same words: 24, 24 and 2.
  ASSERT_TRUE(WriteSynthText(weights, 50, 24, path).has_value());
  std::string lines = Take(path);
  EXPECT_EQ(std::ranges::count(lines, '\n'), 3);
  EXPECT_EQ(std::ranges::count(
                lines.substr(lines.rfind('\n', lines.size() - 2)), ' '),
            1);
  std::replace(lines.begin(), lines.end() - 1, '\n', ' ');
  EXPECT_EQ(lines, text);
}

}  // namespace
}  // namespace thermocline::synth
