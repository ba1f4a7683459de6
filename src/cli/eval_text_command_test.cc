#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(EvalPplCommandTest, MeasuresInTheFormatAskedFor) {
  const std::string model = kStories;
  const std::string text = kValidText;
  const std::string part = TempPath("part.txt");
  std::ofstream(part) << os::TestFolder::Read(text).substr(0, 4000);
  const MainResult line =
      RunMain({"eval", "ppl", "-m", model, "-f", part, "-c", "64", "-t", "1"});
  ASSERT_EQ(line.exit_code, 0) << line.err;
  EXPECT_THAT(line.out, ::testing::MatchesRegex(
                            "perplexity: [0-9.]+ \\+/- [0-9.]+ \\([0-9]+ "
                            "chunks of 64, [0-9]+ predictions, mean nll "
                            "[0-9.]+\\)\n"));
  const MainResult json = RunMain({"eval", "ppl", "-m", model, "-f", part, "-c",
                                   "64", "-t", "1", "--json"});
  EXPECT_THAT(json.out, ::testing::StartsWith("{\"perplexity\":"));
  std::filesystem::remove(part);
}

TEST(EvalPplCommandTest, NoMoreChunksThanAskedFor) {
  const std::string text = os::TestFolder::Read(kValidText).substr(0, 1000);
  for (const auto& [count, want] :
       {std::pair("1", "(1 chunk of 32, 15 predictions"),
        std::pair("2", "(2 chunks of 32, 30 predictions")}) {
    const MainResult result =
        RunMain({"eval", "ppl", "-m", kStories, "-f", "-", "-c", "32", "-t",
                 "1", "--chunks", count},
                text);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(want));
  }
  EXPECT_THAT(
      RunMain({"eval", "ppl", "-m", kStories, "-f", "-", "--chunks", "0"}).err,
      HasSubstr("--chunks: 0 is out of range"));
}

TEST(EvalPplCommandTest, OnePredictionHasNoError) {
  const MainResult result = RunMain({"eval", "ppl", "-m", kStories, "-f", "-",
                                     "-c", "4", "-t", "1", "--chunks", "1"},
                                    "Once upon a time there was a cat.");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("+/- - (1 chunk of 4, 1 prediction, mean nll "));
}

TEST(EvalPplCommandTest, SaysWhenTheTextIsTooShort) {
  const MainResult result =
      RunMain({"eval", "ppl", "-m", kStories, "-f", "-"}, "Too short.");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("standard input: the text has "));
  EXPECT_THAT(result.err, HasSubstr("two chunks"));
  const std::string empty = TempPath("empty.txt");
  std::ofstream(empty) << "";
  EXPECT_THAT(RunMain({"eval", "ppl", "-m", kStories, "-f", empty}).err,
              HasSubstr(empty + ": the text has 1 token, but"));
  std::filesystem::remove(empty);
}

TEST(EvalPplCommandTest, RefusesBeforeItSaysWhatRuns) {
  const MainResult result =
      RunMain({"eval", "ppl", "-m", kStories, "-f", "-"}, "Too short.");
  EXPECT_THAT(result.err, ::testing::StartsWith("thermocline: error: "));
}

TEST(EvalPplCommandTest, ChunksTooShortAreWrongUsage) {
  for (const char* command : {"ppl", "kl"}) {
    const MainResult result = RunMain({"eval", command, "-m", kStories, "-f",
                                       "-", "-c", "3", "--base-mode", "dense"});
    EXPECT_EQ(result.exit_code, 2) << result.err;
  }
  EXPECT_THAT(
      RunMain({"eval", "ppl", "-m", kStories, "-f", "-", "-c", "3"}).err,
      HasSubstr("-c, --ctx-size: chunks of 3 are too short"));
}

class EvalKlCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(text_) << os::TestFolder::Read(kValidText).substr(0, 600);
  }
  void TearDown() override { std::filesystem::remove(text_); }

  const std::string text_ = TempPath("kl.txt");
};

TEST_F(EvalKlCommandTest, ComparesFiles) {
  const MainResult text =
      RunMain({"eval", "kl", "-m", kLlamaQ4_0, "--base", kLlamaF16, "-f", text_,
               "-c", "32", "-t", "1"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("mean KLD:        0.0"));
  EXPECT_THAT(text.err, HasSubstr("model: " + kLlamaQ4_0 + " ("));
  EXPECT_THAT(text.err, HasSubstr("base: " + kLlamaF16 + " ("));
  EXPECT_THAT(text.err, HasSubstr("memory of 2 sessions and their logits: "));
  // Before the sessions are there.
  EXPECT_LT(text.err.find("memory of"), text.err.find("model: "));
  const MainResult json =
      RunMain({"eval", "kl", "-m", kLlamaQ4_0, "--base", kLlamaF16, "-f", text_,
               "-c", "32", "-t", "1", "--json"});
  EXPECT_THAT(json.out, ::testing::StartsWith("{\"chunk\":32,"));
}

TEST_F(EvalKlCommandTest, NoMoreChunksThanAskedFor) {
  for (const char* command : {"kl", "sparsity"}) {
    std::vector<std::string> args = {"eval", command, "-m",       kLlamaF16,
                                     "-f",   text_,   "-c",       "32",
                                     "-t",   "1",     "--chunks", "1"};
    if (command == std::string("kl")) {
      args.insert(args.end(), {"--base-mode", "dense"});
    }
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("predictions:     15 (1 chunk of 32)"));
  }
}

TEST_F(EvalKlCommandTest, ComparesModes) {
  const MainResult result =
      RunMain({"eval", "kl", "-m", kLlamaF16, "--base-mode", "dense", "-f",
               text_, "-c", "32", "-t", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("mean KLD:        0 +/- 0\n"));
  EXPECT_THAT(result.out, HasSubstr("same top token:  100.000 +/- 0.000 %"));
}

TEST_F(EvalKlCommandTest, ComparesAPredictorWithDenseAndWithItself) {
  const auto compare = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "kl", "-m", kDemoModel, "-f", text_,
                               "-c", "16", "-t", "1", "--predictor", "free"});
    return RunMain(more);
  };
  const MainResult modes = compare({"--ffn", "fast", "--base-mode", "dense"});
  ASSERT_EQ(modes.exit_code, 0) << modes.err;
  EXPECT_THAT(modes.err, HasSubstr("): fast (signs of the weights, "));
  EXPECT_THAT(modes.err, HasSubstr("): dense, "));
  const MainResult turned = compare({"--ffn", "dense", "--base-mode", "fast"});
  EXPECT_EQ(turned.exit_code, 0) << turned.err;
  const MainResult itself = compare({"--ffn", "fast", "--base", kDemoModel});
  ASSERT_EQ(itself.exit_code, 0) << itself.err;
  EXPECT_THAT(itself.out, HasSubstr("mean KLD:        0 +/- 0\n"));
  EXPECT_THAT(compare({"--ffn", "exact", "--base-mode", "dense"}).err,
              HasSubstr("predictor training-free: FFNs in mode exact ask none: "
                        "use --ffn fast"));
}

// Of two modes of one file; another file keeps its own threshold.
TEST_F(EvalKlCommandTest, AScoreThresholdIsForOneSideAtLeast) {
  const auto compare = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"eval", "kl", "-m", kPowerInferLlama, "-f", text_, "-c", "32",
                 "-t", "1", "--sparse-threshold", "0.1"});
    return RunMain(more);
  };
  const MainResult base = compare({"--ffn", "dense", "--base-mode", "fast"});
  EXPECT_EQ(base.exit_code, 0) << base.err;
  EXPECT_THAT(base.err, HasSubstr("threshold 0.1)"));
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{
           {"--ffn", "dense", "--base-mode", "exact"},
           {"--ffn", "dense", "--base-mode", "fast", "--base",
            kPowerInferLlama}}) {
    const MainResult refused = compare(more);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("--sparse-threshold: has no effect"));
  }
}

TEST_F(EvalKlCommandTest, OverridesChangeTheModelAlone) {
  const MainResult result =
      RunMain({"eval", "kl", "-m", kLlamaF16, "--base", kLlamaF16, "--ffn-act",
               "relu", "-f", text_, "-c", "32", "-t", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("mean KLD:        0 ")));
}

TEST_F(EvalKlCommandTest, WrongUsageAndOtherVocabularies) {
  const MainResult nothing =
      RunMain({"eval", "kl", "-m", kLlamaF16, "-f", text_});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("--base, --base-mode or both"));
  const MainResult mode = RunMain(
      {"eval", "kl", "-m", kLlamaF16, "-f", text_, "--base-mode", "quick"});
  EXPECT_EQ(mode.exit_code, 2);
  EXPECT_THAT(mode.err, HasSubstr("'quick' is not one of auto, dense"));
  const MainResult other =
      RunMain({"eval", "kl", "-m", kLlamaF16, "--base", kStories, "-f", text_});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("320 and 512 tokens"));
}

TEST_F(EvalKlCommandTest, ErrorsSayWhichOfTheTwo) {
  const auto error = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "kl", "-f", text_, "-c", "32"});
    const MainResult result = RunMain(more);
    EXPECT_EQ(result.exit_code, 1);
    return result.err;
  };
  EXPECT_THAT(
      error({"-m", kLlamaQ4_0, "--base", kLlamaF16, "--base-mode", "fast"}),
      HasSubstr("error: base " + kLlamaF16 +
                ": brings no predictors, which the fast mode needs: "
                "use --base-mode dense"));
  EXPECT_THAT(error({"-m", kLlamaQ4_0, "--base", kLlamaF16, "--ffn", "fast",
                     "--base-mode", "dense"}),
              HasSubstr("error: model " + kLlamaQ4_0 + ": fast FFNs: "));
}

}  // namespace
}  // namespace thermocline::cli
