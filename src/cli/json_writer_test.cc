#include "cli/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace thermocline::cli {
namespace {

TEST(JsonWriterTest, NestsAndSeparates) {
  JsonWriter json;
  json.BeginObject();
  json.Key("a");
  json.Int(-1);
  json.Key("b");
  json.BeginArray();
  json.Uint(std::numeric_limits<uint64_t>::max());
  json.Bool(true);
  json.Null();
  json.BeginObject();
  json.EndObject();
  json.EndArray();
  json.EndObject();
  EXPECT_EQ(json.text(),
            "{\n  \"a\": -1,\n  \"b\": [\n    18446744073709551615,\n    true,"
            "\n    null,\n    {}\n  ]\n}\n");
}

std::string StringOf(std::string_view text) {
  JsonWriter json;
  json.String(text);
  return json.text();
}

TEST(JsonWriterTest, EscapesWhatJsonEscapes) {
  EXPECT_EQ(StringOf("a\"b\\c\nd\x01"
                     "e\x7f"),
            "\"a\\\"b\\\\c\\u000ad\\u0001e\x7f\"\n");
  EXPECT_EQ(StringOf(std::string_view("\0", 1)), "\"\\u0000\"\n");
}

TEST(JsonWriterTest, KeepsUtf8AndReplacesTheRest) {
  const std::string good = "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  EXPECT_EQ(StringOf(good), "\"" + good + "\"\n");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(StringOf("\xff"), "\"" + bad + "\"\n");
  EXPECT_EQ(StringOf("\xe2\x82"), "\"" + bad + bad + "\"\n");  // cut off
  EXPECT_EQ(StringOf("\xc0\x80"), "\"" + bad + bad + "\"\n");  // overlong
  EXPECT_EQ(StringOf("\xed\xa0\x80"), "\"" + bad + bad + bad + "\"\n");
  EXPECT_EQ(StringOf("\xf4\x90\x80\x80"),
            "\"" + bad + bad + bad + bad + "\"\n");
  EXPECT_EQ(StringOf("\xc3(x"), "\"" + bad + "(x\"\n");
}

TEST(JsonWriterTest, NumbersReadBackOrAreNull) {
  JsonWriter json;
  json.BeginArray();
  json.Float(0.1f);
  json.Float(std::numeric_limits<float>::infinity());
  json.OptionalInt(std::nullopt);
  json.OptionalInt(3);
  json.OptionalString(std::nullopt);
  json.EndArray();
  EXPECT_EQ(json.text(), "[\n  0.1,\n  null,\n  null,\n  3,\n  null\n]\n");
}

}  // namespace
}  // namespace thermocline::cli
