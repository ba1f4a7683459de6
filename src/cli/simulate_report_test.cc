#include "cli/simulate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_profile.h"
#include "cli/test_trace_file.h"
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

  static SimulateOptions Options(const std::string& trace,
                                 const std::vector<std::string>& policies,
                                 const std::vector<double>& shares) {
    SimulateOptions options;
    options.trace_path = trace;
    options.policies = policies;
    options.shares = shares;
    return options;
  }

  os::TestFolder folder_;
  std::string trace_ = folder_ / "m.trace";
  std::string profile_ = folder_ / "m.profile";
};

TEST_F(SimulateReportTest, CountsAndFormats) {
  WriteTrace(0xab);
  ASSERT_TRUE(model::WriteProfile(SampleProfile(), profile_));
  SimulateOptions options =
      Options(trace_, {"static", "lru", "belady"}, {0.25, 0.0});
  options.counts_path = profile_;
  const auto report = Simulate(options, {});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->cases.size(), 6u);
  // Neuron 1 is the most frequent of layer 0.
  EXPECT_EQ(report->cases[0].replay.layers[0].hits, 1u);
  EXPECT_EQ(report->cases[1].replay.layers[0].hits, 1u);
  EXPECT_EQ(report->cases[2].replay.layers[0].hits, 2u);
  EXPECT_EQ(report->cases[3].replay.total().hits, 0u);

  const std::string text = FormatSimulation(*report);
  EXPECT_THAT(text, HasSubstr("m.trace: 3 tokens of 1 prompt (generated "
                              "positions), a\\x1bname: 2 layers of 4 neurons\n"
                              "first resident: the most frequent of "));
  // 4 of 15 hit, of 5; 11 misses in 3 tokens.
  EXPECT_THAT(text, HasSubstr("|      25 % | neurons       | static        |  "
                              "26.67 |        80.0 |    3.7 |      4 |"));
  EXPECT_THAT(text, HasSubstr("|       0 % | neurons       | lru           |   "
                              "0.00 |           - |"));

  const auto json = nlohmann::json::parse(FormatSimulationJson(*report));
  EXPECT_EQ(json["tokens"], 3);
  EXPECT_EQ(json["counts"], profile_);
  const auto& one = json["policies"][1];
  EXPECT_EQ(one["name"], "lru");
  EXPECT_EQ(one["share"], 0.25);
  EXPECT_EQ(one["accesses"], 15);
  EXPECT_EQ(one["admissions"], 2);
  EXPECT_EQ(one["misses_per_token"]["p99"], 4);
  EXPECT_EQ(one["layers"][0]["evictions"], 2);
  EXPECT_EQ(one["moved_bytes"], nullptr);
  EXPECT_EQ(one["token_seconds"], nullptr);
  EXPECT_EQ(json["policies"][3]["of_belady"], nullptr);
}

TEST_F(SimulateReportTest, WithoutAProfileTheFirstAreResident) {
  WriteTrace(0);
  const auto report = Simulate(Options(trace_, {"static"}, {0.5}), {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->cases[0].replay.layers[0].hits, 1u);
  EXPECT_THAT(FormatSimulation(*report), HasSubstr("for want of --counts"));
  EXPECT_THAT(FormatSimulationJson(*report), HasSubstr("\"counts\":null"));
}

TEST_F(SimulateReportTest, AProfileOfAnotherModelIsRefused) {
  ASSERT_TRUE(model::WriteProfile(SampleProfile(), profile_));
  SimulateOptions options = Options(trace_, {"static"}, {0.5});
  options.counts_path = profile_;
  WriteTrace(0xac);
  const auto other = Simulate(options, {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message, HasSubstr("is of another model"));
  // A trace that says nothing of its model takes any profile that fits.
  WriteTrace(0);
  EXPECT_TRUE(Simulate(options, {}));
}

TEST_F(SimulateReportTest, TooManyNeuronsAreRefusedBeforeAnyMemory) {
  auto writer =
      neuron::TraceWriter::Create(trace_, {1 << 12, 1u << 30, {}, 0, ""});
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->Finish());
  const auto report = Simulate(Options(trace_, {"lru"}, {0.5}), {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(report.error().message, HasSubstr("too many for 1 policies"));
}

// Under --ffn fast a run's policy hears of all that predictors name.
TEST_F(SimulateReportTest, ARunUsesCandidates) {
  WriteTinyTrace(trace_);
  SimulateOptions options = Options(trace_, {"static"}, {0.6});
  for (const bool as_run : {false, true}) {
    options.as_deterministic_run = as_run;
    const auto report = Simulate(options, {});
    ASSERT_TRUE(report) << report.error().message;
    const residency::Tally total = report->cases.front().replay.total();
    EXPECT_EQ(total.accesses, 7u);
    EXPECT_EQ(total.hits, as_run ? 6u : 7u);
  }
}

// A move for 256 slots, of which there are as many as the policy has.
TEST_F(SimulateReportTest, ARunsMovesAreThoseOfItsSlots) {
  WriteTestTrace(trace_, {.num_layers = 1, .num_neurons = 1000},
                 {{.begins = true, .fired = {1}}});
  SimulateOptions options = Options(trace_, {"lru"}, {0.5113, 0.5116});
  options.as_deterministic_run = true;
  const auto report = Simulate(options, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->cases[0].moves_per_token, 1u);
  EXPECT_EQ(report->cases[1].moves_per_token, 2u);
}

// A run of two slots of five neurons, one of which it held to be the hottest.
class SimulateRunTest : public SimulateReportTest {
 protected:
  void WriteRun(neuron::TraceLessons lessons) {
    neuron::TraceHeader header = {.num_layers = 1, .num_neurons = 5};
    header.run = neuron::TraceRun{
        .lessons = lessons, .slots = {2}, .shares = {{0, 0, 0, 1, 0.5f}}};
    auto writer = neuron::TraceWriter::Create(trace_, header).value();
    const std::vector<neuron::TraceToken> tokens = {{.begins_sequence = true},
                                                    {.is_together = true},
                                                    {.is_generated = true},
                                                    {.is_generated = true},
                                                    {.is_generated = true}};
    writer->AddTokens(tokens);
    for (const std::vector<uint32_t>& set :
         std::vector<std::vector<uint32_t>>{{0, 1}, {0, 2}, {0}, {1}, {3}}) {
      writer->AddSet(0, set);
    }
    ASSERT_TRUE(writer->Flush());
    ASSERT_TRUE(writer->Finish());
  }

  SimulateOptions RunOptions() const {
    SimulateOptions options = Options(trace_, {"static", "lru"}, {});
    options.as_deterministic_run = true;
    return options;
  }
};

TEST_F(SimulateRunTest, HasTheRunsRoomAndCountsWhatItGenerated) {
  const struct {
    neuron::TraceLessons lessons;
    uint64_t lru_hits;
  } rows[] = {{neuron::TraceLessons::kNone, 0},
              {neuron::TraceLessons::kRows, 1},
              {neuron::TraceLessons::kPasses, 2}};
  for (const auto& row : rows) {
    WriteRun(row.lessons);
    const auto report = Simulate(RunOptions(), {});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(report->cases.size(), 2u);
    EXPECT_TRUE(report->is_of_run);
    EXPECT_DOUBLE_EQ(report->cases[0].share, 0.4);
    const residency::Tally fixed = report->cases[0].replay.total();
    EXPECT_EQ(fixed.accesses, 3u);
    EXPECT_EQ(fixed.hits, 1u);  // 3 and 4 stay
    EXPECT_EQ(report->cases[0].replay.misses.size(), 3u);
    const residency::Tally moved = report->cases[1].replay.total();
    // Where they begin 3 and 4 stay, or 0 and 2, or 0 and 1.
    EXPECT_EQ(moved.hits, row.lru_hits);
    const std::string text = FormatSimulation(*report);
    EXPECT_THAT(text, HasSubstr("as in the run that wrote it"));
    EXPECT_THAT(text, HasSubstr("generated:\n  static        1 of 3 hits, 0 "
                                "admitted, 0 moved, 0 wasted\n"));
  }
}

// Whatever is asked for comes before what the run had.
TEST_F(SimulateRunTest, WhatIsAskedForGoesFirst) {
  WriteRun(neuron::TraceLessons::kRows);
  SimulateOptions options = RunOptions();
  options.shares = {0.2};
  EXPECT_DOUBLE_EQ(Simulate(options, {})->cases[0].share, 0.2);
  options.shares = {};
  options.units.group_sizes = {2};
  EXPECT_EQ(Simulate(options, {})->cases.size(), 6u);  // the usual shares
  options = RunOptions();
  options.as_deterministic_run = false;
  const auto plain = Simulate(options, {});
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_FALSE(plain->is_of_run);
  EXPECT_EQ(plain->cases.size(), 6u);
  EXPECT_EQ(plain->cases[0].replay.total().accesses, 7u);
  EXPECT_THAT(FormatSimulation(*plain), HasSubstr("for want of --counts"));
}

// Two layers of six neurons of 100 and 300 bytes; 0 and 3 fire by turns in
// both.
class SimulateBytesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    neuron::TraceHeader header = {.num_layers = 2, .num_neurons = 6};
    header.unit_bytes = {100, 300};
    auto writer = neuron::TraceWriter::Create(options_.trace_path, header);
    ASSERT_TRUE(writer) << writer.error().message;
    for (uint32_t t = 0; t < 4; ++t) {
      const neuron::TraceToken token = {.begins_sequence = t == 0};
      (*writer)->AddTokens({&token, 1});
      for (const size_t layer : {0, 1}) {
        (*writer)->AddSet(layer, std::vector<uint32_t>{t % 2 == 0 ? 0u : 3u});
      }
    }
    ASSERT_TRUE((*writer)->Flush());
    ASSERT_TRUE((*writer)->Finish());
    options_.policies = {"lru"};
  }

  nlohmann::json Run() {
    const auto report = Simulate(options_, {});
    EXPECT_TRUE(report) << report.error().message;
    if (!report) return {};
    EXPECT_THAT(FormatSimulationPage(*report), HasSubstr("</html>"));
    return nlohmann::json::parse(FormatSimulationJson(*report))["policies"];
  }

  os::TestFolder folder_;
  SimulateOptions options_ = {.trace_path = folder_ / "m.trace"};
};

TEST_F(SimulateBytesTest, ABudgetIsAnEqualShareOfEachLayer) {
  options_.tier_bytes = {400, 800, 1ull << 40};
  const auto rows = Run();
  ASSERT_EQ(rows.size(), 3u);
  // One neuron of each layer: 0 at first, then always the other one.
  EXPECT_EQ(rows[0]["hit_share"], 0.25);
  EXPECT_EQ(rows[0]["admissions"], 6);
  EXPECT_EQ(rows[0]["moved_bytes"], 1200.0);
  EXPECT_EQ(rows[0]["wasted_bytes"], 800.0);  // the last two have not left
  EXPECT_EQ(rows[0]["tier_bytes"], 400);
  EXPECT_NEAR(rows[0]["share"].get<double>(), 400.0 / 2400.0, 1e-12);
  // Two of each: 3 comes once.
  EXPECT_EQ(rows[1]["hit_share"], 0.75);
  EXPECT_EQ(rows[1]["moved_bytes"], 400.0);
  // All.
  EXPECT_EQ(rows[2]["hit_share"], 1.0);
  EXPECT_EQ(rows[2]["share"], 1.0);
  // 2 GB/s below 25: misses take longer.
  EXPECT_GT(rows[0]["token_seconds"], rows[1]["token_seconds"]);
  EXPECT_GT(rows[1]["token_seconds"], rows[2]["token_seconds"]);
  EXPECT_NEAR(rows[2]["token_seconds"].get<double>(), 400 / 25e9, 1e-15);
}

TEST_F(SimulateBytesTest, MissesThatAreComputedComeByMovesAlone) {
  options_.tier_bytes = {400};
  options_.misses = residency::Misses::kComputed;
  options_.move_bytes_per_token = 0;
  auto rows = Run();
  EXPECT_EQ(rows[0]["hit_share"], 0.5);
  EXPECT_EQ(rows[0]["moved_bytes"], 0.0);
  options_.move_bytes_per_token = 400;  // two of 200 on average
  rows = Run();
  EXPECT_EQ(rows[0]["moves_per_token"], 2);
  EXPECT_EQ(rows[0]["admissions"], 0);
  EXPECT_EQ(rows[0]["moves"], 6);
}

TEST_F(SimulateBytesTest, GroupsAreFetchedWhole) {
  options_.shares = {0.5};
  options_.units.group_sizes = {1, 3};
  const auto rows = Run();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["idle_share"], 0.0);
  EXPECT_EQ(rows[1]["units"], "groups of 3");
  EXPECT_EQ(rows[1]["hit_share"], 0.25);
  EXPECT_EQ(rows[1]["moved_bytes"], 3600.0);
  EXPECT_NEAR(rows[1]["idle_share"].get<double>(), 2.0 / 3.0, 1e-12);
}

// As many as the engine finds for the slots: those of the nearest share.
TEST_F(SimulateBytesTest, ADeterministicRunHasItsMovesAndReadsWhatItMisses) {
  options_.shares = {0.5};
  options_.as_deterministic_run = true;
  const auto rows = Run();
  EXPECT_EQ(rows[0]["moves_per_token"], 1);
  EXPECT_EQ(rows[0]["admissions"], 2);
}

// Whom a predictor names is read, and may stay, whether it fires or not.
TEST_F(SimulateBytesTest, ADeterministicRunUsesCandidates) {
  WriteTestTrace(options_.trace_path,
                 {.num_layers = 1, .num_neurons = 5, .has_candidates = true},
                 {{true, {0}, {0, 1, 4}}});
  options_.shares = {0.4};
  EXPECT_EQ(Run()[0]["accesses"], 1);
  options_.as_deterministic_run = true;
  const auto rows = Run();
  EXPECT_EQ(rows[0]["accesses"], 3);
  EXPECT_EQ(rows[0]["hits"], 2);
}

// Two of four experts are used: one of them misses, and others may come while
// it is computed.
TEST_F(SimulateBytesTest, ExpertsMoveAsLongAsTheirTokenTakes) {
  WriteMixtureTrace(options_.trace_path);
  options_.shares = {0.5};
  options_.units.by_experts = true;
  options_.misses = residency::Misses::kComputed;
  const auto rows = Run();
  EXPECT_GT(rows[0]["moves_per_token"], 0);
  EXPECT_GT(rows[0]["moves"], 0);
}

TEST_F(SimulateBytesTest, RefusalsNameWhatIsWrong) {
  const struct {
    std::function<void(SimulateOptions&)> change;
    const char* message;
  } rows[] = {
      {[](SimulateOptions& o) { o.units.by_experts = true; }, "no experts"},
      {[](SimulateOptions& o) { o.units.group_sizes = {7}; }, "groups of 7"},
      {[](SimulateOptions& o) {
         o.units.grouping = planner::Grouping::kGreedy;
       },
       "--groups-from"},
      {[](SimulateOptions& o) { o.machine_path = "/no/machine"; },
       "/no/machine"},
      {[](SimulateOptions& o) { o.units.split_path = "/no/split"; },
       "/no/split"},
      {[](SimulateOptions& o) {
         o.as_deterministic_run = true;
         o.machine_path =
             std::string(TC_SOURCE_DIR) + "/machines/rtx2080ti-ddr4.json";
       },
       "a machine with a device"},
      {[](SimulateOptions& o) { o.policies = {"momentum:lambda=2"}; },
       "lambda"},
  };
  for (const auto& row : rows) {
    SimulateOptions options = options_;
    options.shares = {0.5};
    row.change(options);
    const auto report = Simulate(options, {});
    ASSERT_FALSE(report) << row.message;
    EXPECT_THAT(report.error().message, HasSubstr(row.message));
  }
}

}  // namespace
}  // namespace thermocline::cli
