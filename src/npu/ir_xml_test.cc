#include "npu/ir_xml.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thermocline::npu {
namespace {

TEST(IrXmlTest, TextIsEscapedAndReadBack) {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  const std::string xml = "<a b=\"" + EscapeXml(all) + "\"/>";
  for (const char c : xml) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  XmlScanner scanner(xml);
  const auto tag = scanner.Next();
  ASSERT_TRUE(tag.has_value());
  ASSERT_EQ(tag->attributes.size(), 1u);
  EXPECT_EQ(tag->attributes[0].value, all);
  EXPECT_TRUE(scanner.ExpectEnd().has_value());
  EXPECT_EQ(EscapeXml("<&\">\n"), "&lt;&amp;&quot;&gt;&#10;");
}

TEST(IrXmlTest, NamesInAList) {
  EXPECT_EQ(NameInList("a,b"), "a\\,b");
  EXPECT_EQ(NameInList(""), "");
}

TEST(IrXmlTest, TagsAndNumbersInTurn) {
  XmlScanner scanner(
      "<?xml version=\"1.0\"?>\n<a b = \"1\"\n c=\"2\" >\n <d> 12 </d><e/>\n"
      "</a>\n");
  ASSERT_TRUE(scanner.SkipDeclaration().has_value());
  const auto a = scanner.Next();
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->line, 2u);
  EXPECT_EQ(a->attributes.size(), 2u);
  EXPECT_FALSE(a->is_closing || a->is_whole);
  const auto d = scanner.Next();
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ(d->line, 4u);
  EXPECT_EQ(*scanner.NextNumber(), 12);
  EXPECT_TRUE(scanner.Next()->is_closing);
  EXPECT_TRUE(scanner.Next()->is_whole);
  EXPECT_EQ(scanner.Next()->name, "a");
  EXPECT_TRUE(scanner.ExpectEnd().has_value());
}

TEST(IrXmlTest, WhatIsNoTagIsRefused) {
  struct Case {
    const char* xml;
    const char* words;
  };
  std::string many = "<a";
  for (int i = 0; i < 20; ++i) many += fmt::format(" b{}=\"1\"", i);
  const std::vector<Case> cases = {
      {"", "the end where a tag"},
      {"text", "something else where a tag"},
      {"<", "the end where a tag"},
      {"<!-- c -->", "something else"},
      {"\n\n<a", "line 3: no attribute"},
      {"<a b>", "no attribute"},
      {"<a b='1'>", "double quotes"},
      {"<a b=\"1", "does not end"},
      {"<a b=\"<\"/>", "does not end"},
      {"<a b=\"&\"/>", "reference"},
      {"<a b=\"&no;\"/>", "reference"},
      {"<a b=\"&#0;\"/>", "reference"},
      {"<a b=\"&#128;\"/>", "reference"},
      {"<a b=\"&#99999999999999999999;\"/>", "reference"},
      {"<a b=\"1\" b=\"2\"/>", "twice"},
      {"</a b=\"1\">", "tag \"a\" does not end"},
      {"</a/>", "does not end"},
      {many.c_str(), "does not end"},
  };
  for (const Case& a_case : cases) {
    XmlScanner scanner(a_case.xml);
    const auto tag = scanner.Next();
    ASSERT_FALSE(tag.has_value()) << a_case.xml;
    EXPECT_EQ(tag.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(tag.error().message.find(a_case.words), std::string::npos)
        << tag.error().message;
  }
}

TEST(IrXmlTest, NumbersAreChecked) {
  for (const char* text : {"", "-1", "x", "9223372036854775808"}) {
    XmlScanner scanner(text);
    EXPECT_FALSE(scanner.NextNumber().has_value()) << text;
  }
  EXPECT_EQ(ParseWhole("-9223372036854775808"), INT64_MIN);
  for (const char* text : {"", " 1", "1 ", "+1", "1.5", "0x1", "--1"}) {
    EXPECT_EQ(ParseWhole(text), std::nullopt) << text;
  }
}

TEST(IrXmlTest, AttributesAreTakenOnce) {
  XmlTag tag = {.name = "data",
                .attributes = {{"n", "-3"},
                               {"dims", "1,4"},
                               {"none", ""},
                               {"bad", "1,,2"},
                               {"many", "1,1,1,1,1,1,1,1,1"},
                               {"yes", "true"},
                               {"type", "f16"}},
                .line = 7};
  XmlAttributes attributes(tag);
  EXPECT_EQ(*attributes.Number("n"), -3);
  EXPECT_EQ(*attributes.Shape("dims"), (Dims{1, 4}));
  EXPECT_EQ(*attributes.Shape("none"), Dims{});
  EXPECT_EQ(*attributes.Bool("yes"), true);
  EXPECT_EQ(*attributes.ElementOf("type"), Element::kF16);
  EXPECT_TRUE(attributes.Expect("type", "f16").has_value());
  EXPECT_EQ(attributes.ExpectAllTaken().error().message,
            "line 7: attribute \"bad\" of \"data\"");
  EXPECT_FALSE(attributes.Shape("bad").has_value());
  EXPECT_FALSE(attributes.Shape("many").has_value());
  EXPECT_TRUE(attributes.ExpectAllTaken().has_value());
  EXPECT_FALSE(attributes.Number("n", 5).has_value());
  EXPECT_FALSE(attributes.Number("yes").has_value());
  EXPECT_FALSE(attributes.Bool("n").has_value());
  EXPECT_FALSE(attributes.ElementOf("n").has_value());
  EXPECT_FALSE(attributes.Text("absent").has_value());
  EXPECT_FALSE(attributes.Expect("type", "f32").has_value());
  EXPECT_TRUE(attributes.Has("n"));
  EXPECT_FALSE(attributes.Has("absent"));
}

}  // namespace
}  // namespace thermocline::npu
