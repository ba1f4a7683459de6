#include "cli/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/test_trace_file.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TraceReportTest : public ::testing::Test {
 protected:
  // Two prompts: {0, 1} {1} and {3}; each of one layer of four neurons.
  void SetUp() override {
    auto writer =
        neuron::TraceWriter::Create(path_, {.num_layers = 1,
                                            .num_neurons = 4,
                                            .model_hash = 0xab,
                                            .model_name = "a\x1bname"});
    ASSERT_TRUE(writer) << writer.error().message;
    const std::vector<neuron::TraceToken> tokens = {{.begins_sequence = true},
                                                    {.is_generated = true},
                                                    {.begins_sequence = true}};
    (*writer)->AddTokens(tokens);
    (*writer)->AddSet(0, std::vector<uint32_t>{0, 1});
    (*writer)->AddSet(0, std::vector<uint32_t>{1});
    (*writer)->AddSet(0, std::vector<uint32_t>{3});
    ASSERT_TRUE((*writer)->Flush());
    ASSERT_TRUE((*writer)->Finish());
  }

  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
};

TEST_F(TraceReportTest, CountsAndFormats) {
  const auto report = ReadTrace(path_, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->num_generated, 1u);
  const std::string text = FormatTrace(*report);
  EXPECT_THAT(text, HasSubstr("m.trace: 3 tokens of 2 prompts, 1 of them "
                              "generated (all positions)\n"));
  EXPECT_THAT(text, HasSubstr("name: 1 layer of 4 neurons; "));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  // A sequence's first token follows nothing: locality 1, not a half.
  EXPECT_THAT(text, HasSubstr("      33.33"));
  EXPECT_THAT(text, HasSubstr("     100.00"));
  const auto json = nlohmann::json::parse(FormatTraceJson(*report));
  EXPECT_EQ(json["tokens"], 3);
  EXPECT_EQ(json["prompts"], 2);
  EXPECT_EQ(json["generated"], 1);
  EXPECT_EQ(json["fired"], 4);
  EXPECT_EQ(json["hash"], "00000000000000ab");
  EXPECT_EQ(json["locality"], 1.0);
  EXPECT_EQ(json["layers"][0]["never_fired"], 0.25);
}

// Not densities of 0 %: that would say that no neuron fires.
TEST_F(TraceReportTest, NothingRecordedHasNoFigures) {
  auto writer =
      neuron::TraceWriter::Create(path_, {.num_layers = 1, .num_neurons = 4});
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE((*writer)->Finish());
  const auto report = ReadTrace(path_, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(FormatTrace(*report),
            path_ + ": nothing was recorded (all positions)\n");
  const auto json = nlohmann::json::parse(FormatTraceJson(*report));
  EXPECT_EQ(json["tokens"], 0);
  for (const char* key : {"density", "skew", "locality"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_TRUE(json["layers"].empty());
}

// Not 0 %: that would say that every token fires other neurons.
TEST_F(TraceReportTest, NoLocalityOfTokensThatFollowNone) {
  auto writer =
      neuron::TraceWriter::Create(path_, {.num_layers = 1, .num_neurons = 4});
  ASSERT_TRUE(writer) << writer.error().message;
  const std::vector<neuron::TraceToken> tokens = {{.begins_sequence = true}};
  (*writer)->AddTokens(tokens);
  (*writer)->AddSet(0, std::vector<uint32_t>{0, 1});
  ASSERT_TRUE((*writer)->Flush());
  ASSERT_TRUE((*writer)->Finish());
  const auto report = ReadTrace(path_, {});
  ASSERT_TRUE(report) << report.error().message;
  const std::string text = FormatTrace(*report);
  EXPECT_THAT(text, HasSubstr("    0      50.00  0.00       50.00    50.00"
                              "           -       100.00\n"));
  EXPECT_THAT(text, HasSubstr(" mean      50.00  0.00       50.00    50.00"
                              "           -       100.00\n"));
  const auto json = nlohmann::json::parse(FormatTraceJson(*report));
  EXPECT_TRUE(json["locality"].is_null());
  EXPECT_TRUE(json["layers"][0]["locality"].is_null());
}

// The tables of a trace that is counted by hand (test_trace_file.h).
TEST_F(TraceReportTest, TablesOfHowItChanges) {
  WriteTinyTrace(path_);
  const std::string text = FormatTrace(ReadTrace(path_, {}).value());
  // jaccard (1/2 + 1/3 + 0) / 3, with hot (1/2 + 1 + 1/3 + 0 + 1) / 5.
  EXPECT_THAT(text, HasSubstr("\n    0      27.78       56.67        -        "
                              "0.8    0.4         0.6    0.8       2\n"));
  EXPECT_THAT(text, HasSubstr("hot: the 20 % of a layer's neurons"));
  EXPECT_THAT(text, HasSubstr("\n    1  100.00  100.00       -       -       "
                              "-       -       -       -      80.00\n"));
  EXPECT_THAT(text, HasSubstr("\n    3    0.00  100.00       -"));
  EXPECT_THAT(text, HasSubstr("\ncandidates         85.71        85.71"
                              "       1.00\n"));
  EXPECT_THAT(text, Not(HasSubstr("experts:")));
}

TEST_F(TraceReportTest, TablesOfExperts) {
  WriteMixtureTrace(path_);
  const std::string text = FormatTrace(ReadTrace(path_, {}).value());
  EXPECT_THAT(text, HasSubstr("\nexperts: 2.00 of 4 used per token and layer"));
  EXPECT_THAT(text, HasSubstr("\n0 layers early     50.00       100.00"
                              "       0.50\n"));
  EXPECT_THAT(text, HasSubstr("the hot experts of two texts"));
}

}  // namespace
}  // namespace thermocline::cli
