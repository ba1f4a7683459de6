#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_trace_file.h"
#include "cli/trace_report.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TraceHtmlTest : public ::testing::Test {
 protected:
  std::string Html() {
    const auto report = ReadTrace(path_, {});
    EXPECT_TRUE(report) << report.error().message;
    return FormatTraceHtml(*report);
  }

  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
};

TEST_F(TraceHtmlTest, DrawsATinyTrace) {
  WriteTinyTrace(path_);
  const std::string html = Html();
  EXPECT_THAT(html, HasSubstr("<h1>a &lt;name&gt;</h1>"));
  // Hot is 1 1 1 0 1 of at most 2, and a text begins at the fourth token.
  EXPECT_THAT(html, HasSubstr("points=\"0,50.0 1,50.0 2,50.0 3,100.0 4,50.0\""
                              "><title>hot</title>"));
  EXPECT_THAT(html, HasSubstr("points=\"0,50.0 1,100.0 2,0.0 3,100.0 "
                              "4,100.0\"><title>cold</title>"));
  EXPECT_THAT(html, HasSubstr("<line x1=\"3\" x2=\"3\""));
  EXPECT_THAT(html, HasSubstr("<rect x=\"0\" y=\"0\" width=\"1\" "
                              "height=\"1\" fill-opacity=\"1.000\"><title>"
                              "tenth 1, 1 token later: 100.00 %</title>"));
  EXPECT_THAT(html, HasSubstr("tenth 3, 2 tokens later: 100.00 %"));
  EXPECT_THAT(html, HasSubstr("tenth 1, by chance: 80.00 %"));
  EXPECT_THAT(html, HasSubstr("<rect class=\"fill\" width=\"27.778%\""));
  EXPECT_THAT(html, HasSubstr("candidates: recall 85.71 %"));
  EXPECT_THAT(html, Not(HasSubstr("Texts against each other")));
  EXPECT_THAT(html, Not(HasSubstr("Experts")));
  EXPECT_EQ(html, Html());
}

TEST_F(TraceHtmlTest, DrawsTextsAndExperts) {
  WriteMixtureTrace(path_);
  const std::string html = Html();
  EXPECT_THAT(html, HasSubstr("<title>a:1 and a:2: 33.33 %</title>"));
  EXPECT_THAT(html, HasSubstr("<title>layer 0, expert 3: 100.00 %</title>"));
  EXPECT_THAT(html, HasSubstr("<title>layer 0, expert 2: 0.00 %</title>"));
  EXPECT_THAT(html, HasSubstr("2.00 of 4 per token"));
  EXPECT_THAT(html, HasSubstr("0 layers early: recall 50.00 %"));
}

TEST_F(TraceHtmlTest, DrawsNothingOfNothing) {
  WriteTestTrace(path_, {.num_layers = 2, .num_neurons = 3}, {});
  EXPECT_THAT(Html(), HasSubstr("Nothing was recorded"));
}

}  // namespace
}  // namespace thermocline::cli
