#include "cli/bench_placements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

MainResult BenchPlaced(const std::string& placements, const std::string& vram) {
  return RunMain({"bench", "-m", kPowerInferLlama, "-t", "1", "-n", "5",
                  "--device", "sim", "--machine",
                  std::string(TC_SOURCE_DIR) + "/machines/slow-host.json",
                  "--vram", vram, "--placement", placements, "-o", "json"});
}

// All by name, each with times and a prediction.
TEST(BenchPlacements, AreRowsSideBySide) {
  const MainResult run = BenchPlaced("all", "4MiB");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_GE(rows.size(), planner::Methods().size() - 1);  // ilp needs CBC
  for (const auto& row : rows) {
    const std::string name = row["placement"];
    SCOPED_TRACE(name);
    EXPECT_GT(row["predicted_ts"], 0.0);
    EXPECT_GT(row["ts"], 0.0);
    EXPECT_LE(row["peak_device_bytes"], 4 << 20);
    if (name == "all-host") EXPECT_EQ(row["peak_device_bytes"], 0);
  }
}

// A machine whose link is so slow that nothing else counts.
std::string SlowLinkMachine() {
  const std::string path = TempPath("slow_link.json");
  std::ofstream(path) << R"({"format": "thermocline-machine", "version": 1,
    "device": {"name": "slow", "memory_bytes": 16777216,
      "bytes_per_second": 1e9, "launch_seconds": 2e-6,
      "graph_op_seconds": 1e-6, "synchronise_seconds": 5e-6},
    "link": {"up_bytes_per_second": 1e7, "down_bytes_per_second": 1e9,
      "copy_seconds": 2e-6},
    "host": {"bus_bytes_per_second": 1e9, "pool_bytes_per_second": 1e9}})";
  return path;
}

// What crosses the link takes what the link takes, as predicted; active neurons
// alone are fewer.
TEST(BenchPlacements, OverTheLinkTakeWhatIsPredicted) {
  const std::string machine = SlowLinkMachine();
  const MainResult run = RunMain(
      {"bench", "-m", kPowerInferLlama, "-t", "1", "-n", "5", "--device", "sim",
       "--machine", machine, "--vram", "150KiB", "--ffn", "exact",
       "--placement", "fetch-active,stream-dense,fetch-active", "-o", "json"});
  std::remove(machine.c_str());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 3u) << run.err;
  for (const auto& row : rows) {
    const double token_seconds = 1.0 / row["ts"].get<double>();
    EXPECT_GE(token_seconds, row["up_bytes_per_token"].get<double>() / 1e7);
    EXPECT_GT(row["link_busy"], 0.5);
    EXPECT_EQ(row["active_on_device"], 1.0);
    EXPECT_LE(row["percent_of_bound"], 101.0);
    EXPECT_GE(row["percent_of_bound"], 90.0);
    EXPECT_LE(row["peak_device_bytes"], 150 << 10);
  }
  // How many fire is not known of this model: dense alone can be foretold.
  EXPECT_NEAR(
      rows[1]["predicted_ts"].get<double>() / rows[1]["ts"].get<double>(), 1.0,
      0.05);
  EXPECT_GT(rows[1]["up_bytes_per_token"].get<double>(),
            1.1 * rows[0]["up_bytes_per_token"].get<double>());
  // A session is not the one before it.
  EXPECT_EQ(rows[0], rows[2]);
}

// What does not fit is said, and the others go on.
TEST(BenchPlacements, LeavesOutWhatDoesNotFit) {
  const MainResult run = BenchPlaced("all-device,native", "600KiB");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["placement"], "native");
  EXPECT_THAT(run.err, HasSubstr("all-device: "));
}

// Experts of which neurons rest are not read whole, and routers are read.
TEST(BenchPlacements, OfSparseMixturesTakeWhatIsPredicted) {
  const std::string model = TempPath("mixture.gguf");
  const MainResult made = RunMain(
      {"synth", "--like", "tiny-moe", "--expert-skew", "0.3", "-o", model});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const MainResult run = RunMain(
      {"bench", "-m", model, "-t", "1", "-p", "4", "-n", "24", "--device",
       "sim", "--machine",
       std::string(TC_SOURCE_DIR) + "/machines/slow-host.json", "--vram",
       "3MiB", "--placement", "native,all-host", "-o", "json"});
  std::remove(model.c_str());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) {
    const double predicted = row["predicted_ts"];
    EXPECT_NEAR(predicted / row["ts"].get<double>(), 1.0, 0.1)
        << row["placement"];
  }
}

// A table of nothing would look like an answer.
TEST(BenchPlacements, AreAnErrorIfNoneFits) {
  const MainResult run = BenchPlaced("all", "1KiB");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("error: a budget of 1.00 KiB of VRAM"));
}

// Of several, what is not there leaves the others alone; alone it is an error.
TEST(BenchPlacements, LeaveOutWhatIsNotThere) {
  using enum planner::Method;
  const auto measured = [](std::vector<planner::Method> methods,
                           ErrorCode code) {
    int num_measured = 0;
    return MeasurePlacements(
        std::move(methods), PlanInputs(), {}, {std::nullopt},
        [&](const engine::SessionOptions&, const std::optional<uint64_t>&)
            -> Result<std::vector<bench::HybridRow>> {
          if (num_measured++ == 0) return Fail(code, "there is no solver");
          return std::vector(1, bench::HybridRow());
        });
  };
  const auto rows = measured({kIlp, kNative}, ErrorCode::kUnsupported);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->front().placement, "native");
  EXPECT_FALSE(measured({kIlp}, ErrorCode::kUnsupported));
  EXPECT_FALSE(measured({kIlp, kNative}, ErrorCode::kCorrupt));
}

TEST(BenchPlacements, AreOfADevice) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{},
        std::vector<std::string>{"--vram", "1MiB", "-np", "2"}}) {
    std::vector<std::string> args = {"bench", "-m", kPowerInferLlama,
                                     "--placement", "native"};
    args.insert(args.end(), more.begin(), more.end());
    const MainResult run = RunMain(args);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("--placement: says what lies on a device"));
  }
}

TEST(BenchPlacements, HaveNames) {
  EXPECT_EQ(ParseMethods("all")->size(), planner::Methods().size());
  EXPECT_EQ(*ParseMethods("all-host,native"),
            (std::vector{planner::Method::kAllHost, planner::Method::kNative}));
  EXPECT_FALSE(ParseMethods("native,best"));
  EXPECT_FALSE(ParseMethods(""));
}

}  // namespace
}  // namespace thermocline::cli
