#include "cli/simulate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_profile.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

class SimulateReportTest : public ::testing::Test {
 protected:
  // Two layers of four neurons, as SampleProfile has them: 3 fires twice, then
  // 1; all of the other layer fire each time.
  void WriteTrace(uint64_t hash) {
    auto writer = neuron::TraceWriter::Create(
        trace_, {2, 4, neuron::TracePositions::kGenerated, hash, "a\x1bname"});
    ASSERT_TRUE(writer) << writer.error().message;
    const std::vector<neuron::TraceToken> tokens = {
        {.begins_sequence = true}, {}, {}};
    (*writer)->AddTokens(tokens);
    for (const uint32_t unit : {3u, 3u, 1u}) {
      (*writer)->AddSet(0, std::vector<uint32_t>{unit});
      (*writer)->AddSet(1, std::vector<uint32_t>{0, 1, 2, 3});
    }
    ASSERT_TRUE((*writer)->Flush());
    ASSERT_TRUE((*writer)->Finish());
  }

  os::TestFolder folder_;
  std::string trace_ = folder_ / "m.trace";
  std::string profile_ = folder_ / "m.profile";
};

TEST_F(SimulateReportTest, CountsAndFormats) {
  WriteTrace(0xab);
  ASSERT_TRUE(model::WriteProfile(SampleProfile(), profile_));
  const auto report = Simulate(
      {trace_, profile_, {"static", "lru", "belady"}, {0.25, 0.0}}, {});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->replays.size(), 6u);
  // Neuron 1 is the most frequent of layer 0.
  EXPECT_EQ(report->replays[0].layers[0].hits, 1u);
  EXPECT_EQ(report->replays[1].layers[0].hits, 1u);
  EXPECT_EQ(report->replays[2].layers[0].hits, 2u);
  EXPECT_EQ(report->replays[3].total().hits, 0u);

  const std::string text = FormatSimulation(*report);
  EXPECT_THAT(text, HasSubstr("m.trace: 3 tokens of 1 prompt (generated "
                              "positions), a\\x1bname: 2 layers of 4 neurons\n"
                              "first resident: the most frequent of "));
  // 4 of 15, of 5; 11 misses in 3 tokens.
  EXPECT_THAT(text,
              HasSubstr("|      25 | static        |  26.67 |        80.0 "
                        "|     3.7 |       4 |"));
  EXPECT_THAT(text,
              HasSubstr("|       0 | lru           |   0.00 |           - "
                        "|"));

  const auto json = nlohmann::json::parse(FormatSimulationJson(*report));
  EXPECT_EQ(json["tokens"], 3);
  EXPECT_EQ(json["counts"], profile_);
  const auto& one = json["cases"][1];
  EXPECT_EQ(one["policy"], "lru");
  EXPECT_EQ(one["share"], 0.25);
  EXPECT_EQ(one["accesses"], 15);
  EXPECT_EQ(one["admissions"], 2);
  EXPECT_EQ(one["misses_per_token"]["p99"], 4);
  EXPECT_EQ(one["layers"][0]["evictions"], 2);
  EXPECT_EQ(json["cases"][3]["of_belady"], nullptr);
}

TEST_F(SimulateReportTest, WithoutAProfileTheFirstAreResident) {
  WriteTrace(0);
  const auto report = Simulate({trace_, {}, {"static"}, {0.5}}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->replays[0].layers[0].hits, 1u);
  EXPECT_THAT(FormatSimulation(*report), HasSubstr("for want of --counts"));
  EXPECT_THAT(FormatSimulationJson(*report), HasSubstr("\"counts\":null"));
}

TEST_F(SimulateReportTest, AProfileOfAnotherModelIsRefused) {
  ASSERT_TRUE(model::WriteProfile(SampleProfile(), profile_));
  WriteTrace(0xac);
  const auto other = Simulate({trace_, profile_, {"static"}, {0.5}}, {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message, HasSubstr("is of another model"));
  // A trace that says nothing of its model takes any profile that fits.
  WriteTrace(0);
  EXPECT_TRUE(Simulate({trace_, profile_, {"static"}, {0.5}}, {}));
}

TEST_F(SimulateReportTest, TooManyNeuronsAreRefusedBeforeAnyMemory) {
  auto writer =
      neuron::TraceWriter::Create(trace_, {1 << 12, 1u << 30, {}, 0, ""});
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->Finish());
  const auto report = Simulate({trace_, {}, {"lru"}, {0.5}}, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(report.error().message, HasSubstr("too many for 1 pair of"));
}

}  // namespace
}  // namespace thermocline::cli
