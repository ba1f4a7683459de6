#include "cli/chat_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_main.h"
#include "os/file.h"

namespace thermocline::cli {
namespace {

using decode::Role;
using ::testing::HasSubstr;

const std::vector<decode::ChatMessage> kMessages = {
    {Role::kSystem, "Be \"kind\""},
    {Role::kUser, "Hi\nthere"},
    {Role::kAssistant, "H\xc3\xa9"}};

TEST(FormatConversationTest, AsText) {
  EXPECT_EQ(FormatAsText(kMessages),
            "system:\nBe \"kind\"\n\nuser:\nHi\nthere\n\nassistant:\nH\xc3\xa9"
            "\n");
  EXPECT_EQ(FormatAsText({}), "");
}

TEST(FormatConversationTest, AsJson) {
  const auto json = nlohmann::json::parse(FormatAsJson(kMessages));
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0]["role"], "system");
  EXPECT_EQ(json[1]["content"], "Hi\nthere");
  EXPECT_EQ(json[2]["content"], "H\xc3\xa9");
  EXPECT_EQ(FormatAsJson({}), "[]\n");
  const std::vector<decode::ChatMessage> invalid = {{Role::kUser, "a\xff"}};
  EXPECT_EQ(nlohmann::json::parse(FormatAsJson(invalid))[0]["content"],
            "a\xef\xbf\xbd");
}

TEST(FormatConversationTest, ThoughtsComeBeforeTheirAnswer) {
  const std::vector<decode::ChatMessage> messages = {
      {Role::kUser, "Hi"}, {Role::kAssistant, "Ho", "Hm"}};
  EXPECT_EQ(FormatAsText(messages),
            "user:\nHi\n\nthoughts:\nHm\n\nassistant:\nHo\n");
  const auto json = nlohmann::json::parse(FormatAsJson(messages));
  EXPECT_FALSE(json[0].contains("reasoning_content"));
  EXPECT_EQ(json[1]["reasoning_content"], "Hm");
  EXPECT_EQ(json[1]["content"], "Ho");
}

TEST(SaveConversationTest, ByTheNamesEnding) {
  for (const std::string name : {"chat.json", "chat.txt", "json"}) {
    const std::string path = TempPath(name);
    ASSERT_TRUE(SaveConversation(kMessages, path, {}).has_value());
    const auto text = os::ReadFile(path);
    ASSERT_TRUE(text.has_value());
    EXPECT_EQ(*text, name == "chat.json" ? FormatAsJson(kMessages)
                                         : FormatAsText(kMessages));
    std::remove(path.c_str());
  }
}

TEST(SaveConversationTest, RefusesTheModelAndWhatCannotBeWritten) {
  const std::string model = TempPath("model.gguf");
  std::ofstream(model) << "weights";
  const std::vector<std::string> inputs = {model};
  Status status = SaveConversation(kMessages, model, inputs);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("choose another name"));
  EXPECT_EQ(*os::ReadFile(model), "weights");
  std::remove(model.c_str());
  status = SaveConversation(kMessages, "", inputs);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "no file is named");
  status = SaveConversation(kMessages, TempPath("no/such/folder.txt"), inputs);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("no/such/folder.txt"));
}

}  // namespace
}  // namespace thermocline::cli
