#include "inspect/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace thermocline::inspect {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HtmlTextTest, EscapesMarkup) {
  EXPECT_EQ(HtmlText("<script>alert(\"1\" & '2')</script>"),
            "&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)"
            "&lt;/script&gt;");
  EXPECT_EQ(HtmlText(""), "");
}

TEST(HtmlTextTest, GivesValidTextForAnyBytes) {
  EXPECT_EQ(HtmlText("\u00e4 \u65e5"), "\u00e4 \u65e5");
  EXPECT_EQ(HtmlText("a\xff"
                     "b\xe2\x82"),
            "a\ufffdb\ufffd\ufffd");
  EXPECT_EQ(HtmlText(std::string("\0\x1b\u009b", 4)), "\ufffd\ufffd\ufffd");
}

TEST(HtmlNameTest, CutsAndShowsWhatTurnsTheWritingDirection) {
  EXPECT_THAT(HtmlName("a\u202e<b"), EndsWith("&lt;b"));
  EXPECT_THAT(HtmlName("a\u202e<b"), Not(HasSubstr("\u202e")));
  const std::string cut = HtmlName(std::string(500, 'x'));
  EXPECT_EQ(cut, std::string(80, 'x') + "...");
}

TEST(HtmlBytesTest, CarriesTheExactNumber) {
  EXPECT_EQ(HtmlBytes(1536), "<data value=\"1536\">1.50 KiB</data>");
}

TEST(GroupedTest, ByThousands) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(18446744073709551615u), "18,446,744,073,709,551,615");
}

TEST(PercentTest, OfNothingIsNothing) {
  EXPECT_EQ(Percent(1, 8), "12.5 %");
  EXPECT_EQ(Percent(0, 0), "0 %");
}

}  // namespace
}  // namespace thermocline::inspect
