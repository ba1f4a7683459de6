#include "cli/bench_placements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
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

// All by name: those that run have times, the others predictions alone.
TEST(BenchPlacements, AreRowsSideBySide) {
  const MainResult run = BenchPlaced("all", "4MiB");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_GE(rows.size(), planner::Methods().size() - 1);  // ilp needs CBC
  for (const auto& row : rows) {
    const std::string name = row["placement"];
    SCOPED_TRACE(name);
    EXPECT_GT(row["predicted_ts"], 0.0);
    const bool runs = name != "stream-dense" && name != "fetch-active";
    EXPECT_EQ(row["ts"] > 0.0, runs);
    if (name == "all-host") EXPECT_EQ(row["peak_device_bytes"], 0);
  }
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

TEST(BenchPlacements, HaveNames) {
  EXPECT_EQ(ParseMethods("all")->size(), planner::Methods().size());
  EXPECT_EQ(*ParseMethods("all-host,native"),
            (std::vector{planner::Method::kAllHost, planner::Method::kNative}));
  EXPECT_FALSE(ParseMethods("native,best"));
  EXPECT_FALSE(ParseMethods(""));
}

}  // namespace
}  // namespace thermocline::cli
