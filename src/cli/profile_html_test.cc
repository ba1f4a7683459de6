#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/profile_report.h"
#include "cli/test_profile.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProfileHtmlTest, DrawsBarsCurvesAndHeat) {
  const std::string html = FormatProfileHtml(SampleProfile());
  EXPECT_THAT(html, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(html, HasSubstr("<h1>a name</h1>"));
  EXPECT_THAT(html, HasSubstr("layer 0: 25.00 %, from token to token +/- "
                              "17.68 %"));
  EXPECT_THAT(html, HasSubstr("<rect class=\"fill\" width=\"100.000%\""));
  // Of layer 0 a quarter makes three of four.
  EXPECT_THAT(html, HasSubstr("25,25.0"));
  EXPECT_THAT(html, HasSubstr("layer 1: 100.00 % of the neurons make 80 %"));
  // Neuron 1 fires for 75 % of the tokens, 0 for 25 %, 2 and 3 never.
  EXPECT_THAT(html, HasSubstr("<title>layer 0, 50 % and more: 1 of 4"));
  EXPECT_THAT(html, HasSubstr("<title>layer 0, 25 %: 1 of 4"));
  EXPECT_THAT(html, HasSubstr("<title>layer 0, never: 2 of 4"));
  EXPECT_THAT(html, HasSubstr("<title>layer 1, 50 % and more: 4 of 4"));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_EQ(html, FormatProfileHtml(SampleProfile()));
}

TEST(ProfileHtmlTest, NeedsNothingFromOutside) {
  const std::string html = FormatProfileHtml(SampleProfile());
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(",
                              "@import", "<script", "onload"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside))) << outside;
  }
}

TEST(ProfileHtmlTest, EscapesEverythingFromTheFile) {
  model::ProfileFile file = SampleProfile();
  file.model.name = file.model.architecture = file.corpus =
      "<script>\"'&\x1b\xff</p>";
  const std::string html = FormatProfileHtml(file);
  for (const char* markup : {"<script", "\x1b", "\xff", "\"'&"}) {
    EXPECT_THAT(html, Not(HasSubstr(markup))) << markup;
  }
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
}

TEST(ProfileHtmlTest, OfNothing) {
  model::ProfileFile file = SampleProfile();
  for (neuron::LayerProfile& layer : file.profile.layers) {
    layer = {.counts = {0, 0, 0, 0}};
  }
  const std::string html = FormatProfileHtml(file);
  EXPECT_THAT(html, HasSubstr("layer 0, never: 4 of 4"));
  EXPECT_THAT(html, HasSubstr("<dt>locality</dt><dd>-</dd>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">-</td>"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace thermocline::cli
