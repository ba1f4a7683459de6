#include "cli/prepare_command_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/test_log.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

training::Findings TwoLayers() {
  training::Findings findings;
  findings.parts.predictors.resize(2);
  findings.parts.training_free.resize(2);
  findings.layers.resize(2);
  findings.layers[0] = {.density = 0.125,
                        .skew = 0.26,
                        .locality = 0.6,
                        .ffn_bytes = 100 * 1024,
                        .fired_per_group = 3.0,
                        .fired_per_group_as_they_lie = 1.5,
                        .trained = {96, DType::kQ8_0, 8192, 0.981, 0.654, 1.5},
                        .free = {64, DType::kQ8_0, 7168, 0.97, 0.5, 2.0},
                        .free_sign_candidates_per_fired = 3.59,
                        .recall_ahead = {0.98}};
  findings.layers[1] = {.fired_per_group = 2.0,
                        .fired_per_group_as_they_lie = 1.25,
                        .reason = "nothing fired",
                        .free_sign_candidates_per_fired = 30.0,
                        .recall_ahead = {0.97, 0.9}};
  findings.parts.order_group_size = 8;
  findings.stages.push_back({"profile", 1.25});
  return findings;
}

TEST(OpenFindInputsTest, RefusesAnOutputWithNoPlaceForItsWork) {
  FindFlags flags;
  flags.model.path = "no/such.gguf";  // it does not come to that
  flags.corpus = "no/such.txt";
  ProgressLine progress;
  for (const char* output : {"/dev/null", "/dev/stdout"}) {
    flags.output = output;
    const auto inputs = OpenFindInputs(flags, {}, progress);
    ASSERT_FALSE(inputs.has_value());
    EXPECT_THAT(inputs.error().message,
                HasSubstr(std::string(output) +
                          ": is a device, a pipe or standard output, and " +
                          output + ".work beside it cannot keep"));
  }
}

TEST(FormatFindingsTest, TablesOfWhatWasFound) {
  const std::string text = FormatFindings(TwoLayers(), false);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("    0      12.50    26.0        60.0\n"),
            HasSubstr("    1       0.00     0.0           -\n"),
            HasSubstr("    0    96   8.00 KiB    8.0     98.10         65.4   "
                      "           1.50\n"),
            HasSubstr("    1  none: nothing fired\n"),
            HasSubstr("    1  none: nearly every neuron would pass\n"),
            HasSubstr("    1     97.00     90.00\n"),
            HasSubstr("input of the same layer"),
            HasSubstr("groups of 8: where one of a group fires, 2.50 do\n(as "
                      "they lie 1.38;")));
  EXPECT_THAT(text, HasSubstr("profile                           1.2 s\n"));
  EXPECT_THAT(text, Not(HasSubstr("interrupted")));
}

// 0.125 of the neurons fire, 1.5 candidates for each; without the layer that
// has no predictor.
TEST(FormatFindingsTest, PredictorsThatCostMoreThanTheySave) {
  training::Findings findings = TwoLayers();
  EXPECT_THAT(FormatFindings(findings, false),
              Not(HasSubstr("neurons are candidates")));
  findings.layers[0].trained.candidates_per_fired = 3.44;  // 43.0 %
  EXPECT_THAT(FormatFindings(findings, false),
              Not(HasSubstr("neurons are candidates")));
  findings.layers[0].trained.candidates_per_fired = 3.6;
  EXPECT_THAT(FormatFindings(findings, false),
              HasSubstr("\n45 % of the neurons are candidates: from memory a "
                        "file of 'prepare --no-predictor',\nwith --ffn exact, "
                        "is likely to be faster\n"));
}

TEST(FormatFindingsTest, NothingFiredIsNoMatterOfTooManyCandidates) {
  training::Findings findings = TwoLayers();
  findings.layers[1].free_sign_candidates_per_fired = 0;
  EXPECT_THAT(FormatFindings(findings, false),
              HasSubstr("    1  none: nothing fired in held-out text\n"));
}

TEST(FormatFindingsTest, AMixturesDensityIsOfTheExpertsInUse) {
  training::Findings findings = TwoLayers();
  EXPECT_THAT(FormatFindings(findings, false),
              HasSubstr(" % of the neurons fire\n"));
  findings.is_mixture = true;
  EXPECT_THAT(FormatFindings(findings, false),
              HasSubstr(" % of the neurons of a token's experts fire\n"));
}

TEST(FormatFindingsTest, WhatIsNotThereIsNotShown) {
  training::Findings findings = TwoLayers();
  findings.parts.predictors.clear();
  findings.parts.training_free.clear();
  for (auto& layer : findings.layers) {
    layer.recall_ahead.clear();
    layer.fired_per_group = 0;  // as without samples
  }
  findings.stages.clear();
  findings.num_layers_kept = 1;
  const std::string text = FormatFindings(findings, true);
  EXPECT_THAT(text, Not(HasSubstr("predictors")));
  EXPECT_THAT(text, Not(HasSubstr("recall")));
  EXPECT_THAT(text, Not(HasSubstr("order")));
  EXPECT_THAT(text, HasSubstr("1 of 2 layers done"));
}

TEST(FormatFindingsTest, WhyThereAreNoPredictors) {
  training::Findings findings = TwoLayers();
  findings.parts.predictors.clear();
  findings.parts.training_free.clear();
  findings.no_predictors = "of a mixture's experts";
  EXPECT_THAT(FormatFindings(findings, false),
              HasSubstr("\nno predictors: of a mixture's experts\n"));
}

TEST(FormatFindingsTest, Thresholds) {
  training::Findings findings;
  findings.parts.thresholds = {0.125f, 0.25f};
  findings.threshold_density = 0.5;
  findings.dense_perplexity = 10;
  findings.threshold_perplexity = 10.1;
  EXPECT_THAT(FormatFindings(findings, false),
              AllOf(HasSubstr("thresholds for a density of 50.0 %"),
                    HasSubstr("10.1000, dense 10.0000 (+1.00 %)"),
                    HasSubstr("    1         0.25\n")));
}

TEST(TellOfWorkTest, SaysWhetherAnythingIsFinished) {
  const os::TestFolder folder;
  const std::string output = folder / "out.gguf";
  const Error stopped = {ErrorCode::kCancelled, "interrupted"};
  const model::TestLog log;
  TellOfWork(stopped, output);
  EXPECT_THAT(log.lines(), IsEmpty());
  folder.Write("out.gguf.work/description.txt", "prepare\n");
  TellOfWork({ErrorCode::kIo, "failed"}, output);
  EXPECT_THAT(log.lines(), IsEmpty());
  TellOfWork(stopped, output);
  folder.Write("out.gguf.work/scan.gguf", "x");
  folder.Write("out.gguf.work/scan.gguf.crc", "x");
  TellOfWork(stopped, output);
  TellOfWork({ErrorCode::kIo, "disk full"}, output);
  TellOfWork({ErrorCode::kInvalidArgument, "other options"}, output);
  EXPECT_THAT(log.lines(),
              ElementsAre(AllOf(HasSubstr("nothing is finished yet"),
                                HasSubstr(output + ".work keeps the place")),
                          HasSubstr(output + ".work holds what is finished"),
                          HasSubstr(output + ".work holds what is finished")));
}

}  // namespace
}  // namespace thermocline::cli
