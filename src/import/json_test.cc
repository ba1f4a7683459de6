#include "import/json.h"

#include <gtest/gtest.h>

namespace thermocline::importer {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

void ExpectBadJson(const std::string& text, const std::string& part) {
  const auto json = ParseJson(text, "x.json");
  ASSERT_FALSE(json.has_value()) << text;
  EXPECT_EQ(json.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(json.error().message.find("x.json"), std::string::npos);
  EXPECT_NE(json.error().message.find(part), std::string::npos)
      << json.error().message;
}

TEST(ParseJsonTest, GoodTexts) {
  EXPECT_EQ(ParseJson(R"({"a": [1, 2.5, "x"], "b": null})", "x")->size(), 2u);
  EXPECT_EQ(ParseJson(" 7 ", "x").value(), 7);
  // The same key in different objects is fine.
  EXPECT_TRUE(ParseJson(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "x"));
}

TEST(ParseJsonTest, BadTexts) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "{}x",
                           "\"\xff\"", "[1e999]", "\"\\ud800\""}) {
    ExpectBadJson(text, "not valid JSON");
  }
}

TEST(ParseJsonTest, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJson(nested(kMaxJsonDepth), "x").has_value());
  ExpectBadJson(nested(kMaxJsonDepth + 1), "64 deep");
  // The parser stops there: it does not come to see what else is wrong.
  ExpectBadJson(std::string(1'000'000, '['), "64 deep");
  ExpectBadJson(std::string(kMaxJsonDepth + 1, '[') + "nonsense", "64 deep");
  ExpectBadJson(nested(200'000), "64 deep");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  ExpectBadJson(objects, "64 deep");
}

TEST(ParseJsonTest, RepeatedKeysAreNamed) {
  ExpectBadJson(R"({"a": 1, "b": 2, "a": 3})", "\"a\"");
  ExpectBadJson(R"([{"c": {"d": 1, "d": 1}}])", "\"d\"");
  ExpectBadJson(R"({"a": 1, "a": nonsense)", "\"a\" twice");
}

// Python's json writes them, under keys that mostly nobody reads.
TEST(ParseJsonTest, NonFiniteNumbersAreStrings) {
  const auto json = ParseJson(
      R"({"a": Infinity, "b": [-Infinity, NaN, 1], "NaN": "Infinity \" NaN"})",
      "x.json");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  EXPECT_EQ(*json, (Json{{"a", "Infinity"},
                         {"b", {"-Infinity", "NaN", 1}},
                         {"NaN", "Infinity \" NaN"}}));
  const auto fields = JsonFields::Of(*json, "x.json").value();
  EXPECT_EQ(fields.Float("a").error().message,
            "x.json: key \"a\" is string \"Infinity\", not a number");
  EXPECT_NE(fields.Int("a", 0, 1).error().message.find("Infinity"),
            std::string::npos);
  for (const char* text : {"[Infinity", "{Infinity: 1}}", "[Inf]", "[1 NaN]"}) {
    ExpectBadJson(text, "not valid JSON");
  }
}

class JsonFieldsTest : public ::testing::Test {
 protected:
  const Json json_ = Json::parse(R"({
    "int": 5, "negative": -3, "big": 18446744073709551615, "float": 0.5,
    "text": "t", "yes": true, "none": null, "list": [1]})");
  const JsonFields fields_ = JsonFields::Of(json_, "c.json").value();
};

TEST_F(JsonFieldsTest, ValuesOfTheRightType) {
  EXPECT_EQ(fields_.Int("int", 0, 5).value(), 5);
  EXPECT_EQ(fields_.Int("negative", -3, 0).value(), -3);
  EXPECT_EQ(fields_.Float("int").value(), 5.0);
  EXPECT_EQ(fields_.Float("float").value(), 0.5);
  EXPECT_EQ(fields_.Float("big").value(), 18446744073709551616.0);
  EXPECT_EQ(fields_.String("text").value(), "t");
  EXPECT_EQ(fields_.Bool("yes").value(), true);
  EXPECT_EQ(fields_.Int("none", 0, 1).value(), std::nullopt);
  EXPECT_EQ(fields_.Int("absent", 0, 1).value(), std::nullopt);
  EXPECT_EQ(fields_.Extent("absent", 0, 1).value(), std::nullopt);
  EXPECT_EQ(fields_.Find("none"), nullptr);
  EXPECT_EQ(*fields_.Find("list"), Json({1}));
}

template <typename T>
void ExpectNames(const Result<T>& result, const std::string& key) {
  ASSERT_FALSE(result.has_value()) << key;
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(result.error().message.find("c.json"), std::string::npos);
  EXPECT_NE(result.error().message.find("\"" + key + "\""), std::string::npos)
      << result.error().message;
}

TEST_F(JsonFieldsTest, WrongTypesAndRangesAreNamed) {
  ExpectNames(fields_.Int("int", 6, 9), "int");
  ExpectNames(fields_.Int("big", 0, kMax), "big");
  ExpectNames(fields_.Int("float", 0, kMax), "float");
  ExpectNames(fields_.Int("text", 0, kMax), "text");
  ExpectNames(fields_.Float("yes"), "yes");
  ExpectNames(fields_.Bool("int"), "int");
  ExpectNames(fields_.String("list"), "list");
  ExpectNames(fields_.RequireInt("absent", 0, 1), "absent");
  ExpectNames(fields_.Extent("int", 6, 9), "int");
  ExpectNames(fields_.RequireExtent("absent", 0, 1), "absent");
  ExpectNames(fields_.RequireFloat("none"), "none");
  ExpectNames(fields_.RequireString("absent"), "absent");
}

TEST(JsonFieldsOfTest, OnlyObjectsHaveFields) {
  EXPECT_FALSE(JsonFields::Of(Json::array(), "x").has_value());
  EXPECT_FALSE(JsonFields::Of(Json(), "x").has_value());
}

}  // namespace
}  // namespace thermocline::importer
