#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_trace_file.h"
#include "cli/trace_report.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

class TraceJsonTest : public ::testing::Test {
 protected:
  nlohmann::json Parsed() {
    const auto report = ReadTrace(path_, {});
    EXPECT_TRUE(report) << report.error().message;
    return nlohmann::json::parse(FormatTraceJson(*report));
  }

  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
};

TEST_F(TraceJsonTest, OfATinyTrace) {
  WriteTinyTrace(path_);
  const auto json = Parsed();
  EXPECT_EQ(json["num_experts"], 0);
  EXPECT_EQ(json["hot_share"], 0.2);
  const auto& layer = json["layers"][0];
  EXPECT_DOUBLE_EQ(layer["jaccard"], (1.0 / 2 + 1.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(layer["jaccard_with_hot"], (1.5 + 1.0 / 3 + 1.0) / 5);
  EXPECT_TRUE(layer["jaccard_of_texts"].is_null());
  EXPECT_EQ(layer["hot"], 1);
  EXPECT_DOUBLE_EQ(layer["hot_per_token"], 0.8);
  EXPECT_DOUBLE_EQ(layer["cold_per_token"], 0.6);
  EXPECT_EQ(layer["cold_most"], 2);
  EXPECT_EQ(json["reactivation"].size(), 10u);
  EXPECT_EQ(json["reactivation"][2]["again"][0], 0.0);
  EXPECT_EQ(json["reactivation"][2]["again"][1], 1.0);
  EXPECT_TRUE(json["reactivation"][2]["again"][2].is_null());
  EXPECT_DOUBLE_EQ(json["reactivation"][0]["chance"], 0.8);
  EXPECT_TRUE(json["named"][0]["lookahead"].is_null());
  EXPECT_DOUBLE_EQ(json["named"][0]["recall"], 6.0 / 7);
  EXPECT_TRUE(json["experts"].is_null());
}

TEST_F(TraceJsonTest, OfAMixture) {
  WriteMixtureTrace(path_);
  const auto json = Parsed();
  EXPECT_EQ(json["num_experts"], 4);
  EXPECT_EQ(json["unit_bytes"], nlohmann::json({128}));
  EXPECT_EQ(json["experts"]["per_token"], 2.0);
  EXPECT_DOUBLE_EQ(json["experts"]["layers"][0]["jaccard"], 1.0 / 3);
  EXPECT_EQ(json["experts"]["reactivation"][2]["again"][1], 1.0);
  EXPECT_EQ(json["texts"]["names"], nlohmann::json({"a:1", "a:2"}));
  EXPECT_DOUBLE_EQ(json["texts"]["jaccard"][0][1], 1.0 / 3);
  EXPECT_EQ(json["named"][0]["lookahead"], 0);
  EXPECT_EQ(json["named"][0]["layers"][0]["precision"], 1.0);
}

TEST_F(TraceJsonTest, OfNothing) {
  WriteTestTrace(path_, {.num_layers = 2, .num_neurons = 4, .num_experts = 2},
                 {});
  const auto json = Parsed();
  EXPECT_TRUE(json["reactivation"].empty());
  EXPECT_TRUE(json["experts"].is_null());
  EXPECT_TRUE(json["texts"]["names"].empty());
}

}  // namespace
}  // namespace thermocline::cli
