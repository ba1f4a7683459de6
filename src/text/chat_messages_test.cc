#include "text/chat_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace thermocline::text {
namespace {

using jinja::Json;
using ::testing::HasSubstr;

constexpr const char* kCall =
    R"([{"role":"assistant","content":null,"reasoning_content":"Hm","tool_calls":)"
    R"([{"type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":[]}"}},)"
    R"({"name":"g","arguments":{"x":"é"}},{"name":"h","arguments":"plain"},7]}])";

TEST(ParseJsonTest, KeepsTheOrderOfKeys) {
  const auto json = ParseJson(R"({"b":1,"a":{"d":2,"c":3}})", "x");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->dump(), R"({"b":1,"a":{"d":2,"c":3}})");
}

TEST(ParseJsonTest, EveryTruncationIsAnError) {
  const std::string text = kCall;
  for (size_t n = 0; n < text.size(); ++n) {
    const auto json = ParseJson(text.substr(0, n), "chat.json");
    ASSERT_FALSE(json.has_value()) << n;
    EXPECT_EQ(json.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(json.error().message,
                HasSubstr("chat.json: not valid JSON: parse error at line 1"));
  }
  EXPECT_TRUE(ParseJson(text, "x").has_value());
}

TEST(ParseJsonTest, DepthHasALimit) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJson(nested(200), "x").has_value());
  for (const size_t depth : {size_t{202}, size_t{100000}}) {
    const auto deep = ParseJson(nested(depth), "x");
    ASSERT_FALSE(deep.has_value()) << depth;
    EXPECT_THAT(deep.error().message, HasSubstr("x: nested deeper than 200"));
  }
}

// Each object counts for itself.
TEST(ParseJsonTest, KeysHaveALimit) {
  const auto object = [](int num_keys) {
    std::string text = "{";
    for (int i = 0; i < num_keys; ++i) {
      text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{}";
    }
    return text + "}";
  };
  EXPECT_TRUE(
      ParseJson("[" + object(4096) + "," + object(7) + "]", "x").has_value());
  for (const char* around : {"", R"({"a":{},"b":)"}) {
    std::string text = around + object(40000);
    if (*around != '\0') text += "}";
    const auto large = ParseJson(text, "x");
    ASSERT_FALSE(large.has_value());
    EXPECT_EQ(large.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(large.error().message, "x: an object has more than 4096 keys");
  }
}

TEST(ParseJsonTest, ErrorsQuoteNoLongTokens) {
  for (const size_t num_spaces : {0, 1, 2}) {
    std::string text(num_spaces, ' ');
    text += "\"";
    for (int i = 0; i < 1000; ++i) text += "☃";
    const auto json = ParseJson(text, "x");
    ASSERT_FALSE(json.has_value());
    const std::string& message = json.error().message;
    EXPECT_LE(message.size(), 230u);
    EXPECT_TRUE(message.starts_with("x: not valid JSON: parse error at line 1"))
        << message;
    EXPECT_TRUE(message.ends_with("☃...")) << message;
  }
}

TEST(CheckMessagesTest, NamesTheMessage) {
  const auto problem = [](const char* text) {
    const Status status = CheckMessages(Json::parse(text));
    return status.has_value() ? "" : status.error().message;
  };
  EXPECT_EQ(problem("[]"), "");
  EXPECT_EQ(problem(R"([{"role":"user","content":"a"},{"role":"tool"}])"), "");
  EXPECT_THAT(problem(R"({"role":"user"})"), HasSubstr("no list"));
  EXPECT_THAT(problem("\"hi\""), HasSubstr("no list"));
  EXPECT_THAT(problem("null"), HasSubstr("no list"));
  EXPECT_THAT(problem(R"([{"role":"user"},"hi"])"),
              HasSubstr("message 2 is no object"));
  EXPECT_THAT(problem(R"([{"content":"a"}])"),
              HasSubstr("message 1 has no \"role\""));
  EXPECT_THAT(problem(R"([{"role":7}])"),
              HasSubstr("message 1 has no \"role\""));
}

TEST(MessagesForTemplateTest, AsTransformersHandsThemOver) {
  const Json messages = Json::parse(kCall);
  EXPECT_EQ(
      MessagesForTemplate(messages, CallArguments::kObjects).dump(),
      R"([{"role":"assistant","reasoning_content":"Hm","tool_calls":)"
      R"([{"type":"function","function":{"name":"f","arguments":{"b":1,"a":[]}}},)"
      R"({"name":"g","arguments":{"x":"é"}},{"name":"h","arguments":"plain"},7],)"
      R"("thinking":"Hm"}])");
  const Json texts = MessagesForTemplate(messages, CallArguments::kTexts);
  const Json& calls = texts[0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"], R"({"b":1,"a":[]})");
  EXPECT_EQ(calls[1]["arguments"], R"({"x":"é"})");
  EXPECT_EQ(calls[2]["arguments"], "plain");
  EXPECT_TRUE(HasCalls(messages));
}

TEST(FillContentOfCallsTest, OnlyWhereThereIsNone) {
  struct FillCase {
    const char *message, *want;
  };
  constexpr FillCase kCases[] = {
      {R"({"role":"a","tool_calls":[]})",
       R"({"role":"a","tool_calls":[],"content":""})"},
      {R"({"role":"a","content":null,"tool_calls":[]})",
       R"({"role":"a","content":"","tool_calls":[]})"},
      {R"({"role":"a","content":"b","tool_calls":[]})", nullptr},
      {R"({"role":"a","content":null})", nullptr}};
  for (const FillCase& each : kCases) {
    ChatMessages messages = Json::array({Json::parse(each.message)});
    EXPECT_EQ(FillContentOfCalls(&messages), each.want != nullptr);
    EXPECT_EQ(messages[0].dump(), each.want ? each.want : each.message);
  }
}

TEST(MessagesForTemplateTest, WhatIsThereAlreadyStays) {
  const Json messages = Json::parse(
      R"([{"role":"assistant","reasoning_content":"a","thinking":"b"},)"
      R"({"role":"user","content":"c","tool_calls":"none"}])");
  EXPECT_EQ(MessagesForTemplate(messages, CallArguments::kObjects), messages);
  EXPECT_FALSE(HasCalls(Json::parse(R"([{"role":"user"}])")));
}

}  // namespace
}  // namespace thermocline::text
