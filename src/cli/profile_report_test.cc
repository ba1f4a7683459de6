#include "cli/profile_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_profile.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ProfileReportTest, DescribesAndTabulates) {
  const std::string text = FormatProfile(SampleProfile());
  EXPECT_THAT(text, HasSubstr("a name (llama, 2 layers of 4 neurons): 4 tokens "
                              "of text.txt, 256 at a time\n"));
  // {0,1} {1} {} {1}: density 4 of 16, neuron 1 has three of the four.
  EXPECT_THAT(text, HasSubstr("    0      25.00  17.68      50.00    50.00"
                              "       50.00        62.50\n"));
  EXPECT_THAT(text, HasSubstr("    1     100.00  0.00      100.00     0.00"
                              "      100.00       100.00\n"));
  EXPECT_THAT(text, HasSubstr(" mean      62.50  8.84       75.00    25.00"
                              "       75.00        81.25\n"));
  EXPECT_THAT(text, HasSubstr("Of 4 neurons per layer a token fires 62.50 %"));
}

TEST(ProfileReportTest, MixturesAndNoNames) {
  model::ProfileFile file = SampleProfile();
  file.model.num_experts = 2;
  file.model.name = file.corpus = "";
  EXPECT_THAT(FormatProfile(file),
              HasSubstr("a model (llama, 2 layers of 2 experts of 4 neurons): "
                        "4 tokens of a text, "));
}

TEST(ProfileReportTest, NothingFromAFileSteersTheTerminal) {
  model::ProfileFile file = SampleProfile();
  file.model.name = file.model.architecture = file.corpus = "\x1b[2J\xff";
  EXPECT_THAT(FormatProfile(file), ::testing::Not(HasSubstr("\x1b")));
  EXPECT_FALSE(nlohmann::json::parse(FormatProfileJson(file)).empty());
}

TEST(ProfileReportTest, NoLocalityOfALayerThatRests) {
  model::ProfileFile file = SampleProfile();
  neuron::LayerProfile& layer = file.profile.layers[0];
  layer = {.counts = std::vector<uint32_t>(4), .num_tokens = 4};
  EXPECT_THAT(FormatProfile(file),
              HasSubstr("    0       0.00  0.00        0.00   100.00"
                        "           -         0.00\n"));
  const auto json = nlohmann::json::parse(FormatProfileJson(file));
  EXPECT_TRUE(json["layers"][0]["locality"].is_null());
  EXPECT_EQ(json["locality"], 1.0);  // the other layer's
  file.profile.layers[1] = layer;
  EXPECT_THAT(FormatProfile(file),
              AllOf(HasSubstr("make 80 % of all\nactivations.\n"),
                    ::testing::Not(HasSubstr("before"))));
}

TEST(ProfileReportTest, Json) {
  const auto json = nlohmann::json::parse(FormatProfileJson(SampleProfile()));
  EXPECT_EQ(json["model"], "a name");
  EXPECT_EQ(json["hash"], "00000000000000ab");
  EXPECT_EQ(json["tokens"], 4);
  EXPECT_EQ(json["density"], 0.625);
  EXPECT_EQ(json["never_fired"], 0.25);
  ASSERT_EQ(json["layers"].size(), 2u);
  const auto& layer = json["layers"][0];
  EXPECT_EQ(layer["density"], 0.25);
  EXPECT_EQ(layer["skew"], 0.5);
  EXPECT_EQ(layer["never_fired"], 0.5);
  EXPECT_EQ(layer["locality"], 0.5);
  EXPECT_EQ(layer["chance_locality"], 0.625);
  ASSERT_EQ(layer["cdf"].size(), 101u);
  EXPECT_EQ(layer["cdf"][0], 0.0);
  EXPECT_EQ(layer["cdf"][25], 0.75);
  EXPECT_EQ(layer["cdf"][100], 1.0);
}

}  // namespace
}  // namespace thermocline::cli
