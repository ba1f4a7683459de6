#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/model.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// `args` behind "prepare MODEL -o x".
void ExpectUsageError(std::vector<std::string> args, const std::string& part) {
  args.insert(args.begin(), {"prepare", kDemoModel, "-o", "x"});
  const MainResult result = RunMain(args);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr(part));
}

TEST(PrepareCommandTest, UsageErrors) {
  ExpectUsageError({}, "--predictors");
  ExpectUsageError({"--corpus", kValidText, "--predictors", "p.gguf"},
                   "--predictors and --corpus exclude each other");
  ExpectUsageError({"--predictors", "p.gguf", "--recall", "0.9"},
                   "--predictors and --recall exclude each other");
  ExpectUsageError(
      {"--corpus", kValidText, "--density", "0.5", "--ppl-cost", "0.1"},
      "--density and --ppl-cost exclude each other");
  for (const auto& [flag, value] :
       {std::pair("--ctx-size", "32"), std::pair("--isa", "scalar")}) {
    ExpectUsageError({"--predictors", "p.gguf", flag, value},
                     std::string("--predictors and ") + flag + " exclude");
  }
  for (const char* flag : {"--for-storage", "--bundle-at-load"}) {
    ExpectUsageError({"--corpus", kValidText, "--no-bundle", flag}, flag);
  }
  ExpectUsageError(
      {"--corpus", kValidText, "--no-bundle", "--down-type", "f16"},
      "--no-bundle and --down-type exclude each other");
  ExpectUsageError(
      {"--corpus", kValidText, "--no-bundle", "--from-source", "m"},
      "--no-bundle and --from-source exclude each other");
}

// Thresholds take the place of predictors.
TEST(PrepareCommandTest, TrainingFlagsWhereNothingIsTrained) {
  using Lists = std::vector<std::vector<std::string>>;
  for (const auto& untrained :
       Lists{{"--density", "0.5"}, {"--ppl-cost", "0.1"}, {"--no-predictor"}}) {
    for (const auto& more : Lists{{"--recall", "0.9"},
                                  {"--max-candidates", "2"},
                                  {"--lookahead", "1"},
                                  {"--report-lookahead"},
                                  {"--steps", "77"},
                                  {"--seed", "1"}}) {
      std::vector<std::string> args = {"--corpus", kValidText};
      args.insert(args.end(), untrained.begin(), untrained.end());
      args.insert(args.end(), more.begin(), more.end());
      ExpectUsageError(args, untrained[0] + " and " + more[0] + " exclude");
    }
  }
  ExpectUsageError(
      {"--corpus", kValidText, "--density", "0.5", "--no-predictor"},
      "--density and --no-predictor exclude each other");
}

TEST(PrepareCommandTest, ValuesThatMeanNothing) {
  // A token alone has none before it to share neurons with.
  ExpectUsageError({"--corpus", kValidText, "--no-predictor", "-c", "1"},
                   "chunks of 1 are too short, at least 4");
  for (const char* density : {"0", "1", "nan", "-0.5", "inf", "1e-9", ""}) {
    ExpectUsageError({"--corpus", kValidText, "--density", density},
                     "--density: ");
    if (density == std::string("1")) continue;  // twice the perplexity
    ExpectUsageError({"--corpus", kValidText, "--ppl-cost", density},
                     "--ppl-cost: ");
  }
  for (const char* type : {"q9", "i8", "i32", "", "iq2_xs"}) {
    ExpectUsageError({"--corpus", kValidText, "--down-type", type},
                     "is no type that models run in");
  }
}

TEST(PrepareCommandTest, OtherDownColumns) {
  os::TestFolder folder;
  const auto prepare = [&](std::vector<std::string> args) {
    args.insert(args.begin(),
                {"prepare", kArcee, "--corpus", kValidText, "--no-predictor",
                 "-c", "16", "-n", "4096", "-t", "2"});
    return RunMain(args);
  };
  const std::string output = folder / "out.gguf";
  const MainResult rounded = prepare({"--down-type", "q8_0", "-o", output});
  ASSERT_EQ(rounded.exit_code, 0) << rounded.err;
  EXPECT_THAT(rounded.out,
              HasSubstr("rounding the down columns of " + kArcee + " cost"));
  EXPECT_THAT(RunMain({"inspect", output}).out,
              HasSubstr("records       F16 up, Q8_0 down, 256 bytes a neuron"));
  const MainResult plain = prepare({"--no-bundle", "-o", output});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(RunMain({"inspect", output}).out, Not(HasSubstr("records")));

  const std::string refused = folder / "refused.gguf";
  const MainResult other = prepare({"--from-source", kStories, "-o", refused});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, AllOf(HasSubstr(kStories), HasSubstr("another model"),
                               HasSubstr(kArcee)));
  EXPECT_EQ(prepare({"--from-source", output, "-o", output}).exit_code, 1);
  EXPECT_EQ(folder.num_entries(), 1);  // no folder of work either
}

TEST(PrepareCommandTest, RecordsAndProfileAlone) {
  os::TestFolder folder;
  const std::string output = folder / "out.gguf";
  const MainResult made =
      RunMain({"prepare", kArcee, "--corpus", kValidText, "-o", output,
               "--no-predictor", "-c", "16", "-n", "4096", "-t", "2"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("4096 tokens"));
  EXPECT_THAT(made.out, HasSubstr("wrote " + output));
  const MainResult inspected = RunMain({"inspect", output});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
}

TEST(PrepareCommandTest, ThresholdsOnAReluModel) {
  os::TestFolder folder;
  const MainResult result =
      RunMain({"prepare", kDemoModel, "--corpus", kValidText, "-o",
               folder / "out.gguf", "--density", "0.5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("need no thresholds"));
  EXPECT_EQ(folder.num_entries(), 0);  // nothing that would be in the way
}

TEST(PrepareCommandTest, PredictorsThatAreNone) {
  os::TestFolder folder;
  const MainResult result =
      RunMain({"prepare", kDemoModel, "--predictors", kDemoModel + ".no", "-o",
               folder / "out.gguf"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(kDemoModel + ".no"));
}

// Of other models that have the same extents: other norms, and the same norms
// but other gates. Predictors of 2 layers of random weights.
TEST(PrepareCommandTest, PredictorsOfAnotherModel) {
  os::TestFolder folder;
  const auto model = model::Model::Open(kPowerInferLlama).value();
  // A copy whose tensor has every `step`th byte from `first` on changed by
  // `bits`.
  const auto write_twin = [&](const std::string& name, const TensorView& tensor,
                              size_t first, size_t step, char bits) {
    std::string bytes = os::TestFolder::Read(kPowerInferLlama);
    const std::string_view data(reinterpret_cast<const char*>(tensor.data),
                                tensor.num_bytes());
    const size_t place = bytes.find(data);
    TC_CHECK(place != std::string::npos);
    for (size_t i = first; i < data.size(); i += step) bytes[place + i] ^= bits;
    return folder.Write(name, bytes);
  };
  const model::FfnWeights& ffn = model->weights().layers[0].ffn;
  const std::string other = write_twin("norms.gguf", ffn.norm, 0, 4, 1);
  // The signs of F16 are turned: what fired does not, and the other way round.
  const std::string turned = write_twin("gates.gguf", ffn.gate, 1, 2, '\x80');

  const std::string parts = folder / "p.pred.gguf";
  const MainResult trained =
      RunMain({"train", kPowerInferLlama, "--corpus", kValidText, "-c", "16",
               "-n", "4096", "--steps", "20", "-t", "2", "-o", parts});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::string output = folder / "out.gguf";
  const auto prepare = [&](const std::string& path) {
    return RunMain(
        {"prepare", path, "--predictors", parts, "-o", output, "-t", "2"});
  };
  const MainResult by_norms = prepare(other);
  EXPECT_EQ(by_norms.exit_code, 1);
  EXPECT_THAT(by_norms.err,
              AllOf(HasSubstr(parts), HasSubstr(other),
                    HasSubstr("for another model"), HasSubstr("norms")));
  const MainResult by_test = prepare(turned);
  EXPECT_EQ(by_test.exit_code, 1);
  EXPECT_THAT(by_test.err, AllOf(HasSubstr(parts), HasSubstr(turned),
                                 HasSubstr("made for another model"),
                                 HasSubstr("agree by 0 %")));
  EXPECT_FALSE(std::filesystem::exists(output));
  const MainResult own = prepare(kPowerInferLlama);
  EXPECT_EQ(own.exit_code, 0) << own.err;
}

TEST(PrepareCommandTest, RefusesToReplaceWhatItReads) {
  os::TestFolder folder;
  const std::string split = folder.Write("own.gpuidx", "split");
  const std::string parts = folder.Write("own.pred.gguf", "parts");
  for (const std::string& output : {split, parts}) {
    const MainResult result = RunMain({"prepare", kDemoModel, "--predictors",
                                       parts, "--split", split, "-o", output});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err,
                HasSubstr(output + ": is one of the files to read"));
  }
  const MainResult on_text =
      RunMain({"prepare", kDemoModel, "--corpus", kValidText, "--split", split,
               "-o", split});
  EXPECT_EQ(on_text.exit_code, 1);
  EXPECT_THAT(on_text.err, HasSubstr(split + ": is one of the files to read"));
}

// Before anything is read: that text is not there.
TEST(PrepareCommandTest, AnOutputThatCannotBeWritten) {
  os::TestFolder folder;
  for (const std::string& output : {folder.path(), folder / "absent/out"}) {
    const MainResult result = RunMain(
        {"prepare", kDemoModel, "--corpus", folder / "none", "-o", output});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(output));
  }
  EXPECT_EQ(folder.num_entries(), 0);
}

}  // namespace
}  // namespace thermocline::cli
