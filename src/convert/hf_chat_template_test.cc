#include "convert/hf_chat_template.h"

#include <gtest/gtest.h>

namespace thermocline::convert {
namespace {

Result<ChatTemplates> Read(const Json& value) {
  const Json json = {{"chat_template", value}};
  return ReadChatTemplates(JsonFields::Of(json, "t.json").value());
}

void ExpectBad(const Json& value, const std::string& part) {
  const auto templates = Read(value);
  ASSERT_FALSE(templates.has_value()) << part;
  EXPECT_EQ(templates.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(templates.error().message.find("t.json"), std::string::npos);
  EXPECT_NE(templates.error().message.find(part), std::string::npos)
      << templates.error().message;
}

TEST(ChatTemplateTest, OneOrNone) {
  EXPECT_EQ(Read("{{ x }}").value(), (ChatTemplates{{"default", "{{ x }}"}}));
  EXPECT_TRUE(Read(nullptr)->empty());
}

TEST(ChatTemplateTest, TheDefaultOneComesFirst) {
  const Json list = {{{"name", "rag"}, {"template", "R"}},
                     {{"name", "default"}, {"template", "D"}}};
  EXPECT_EQ(Read(list).value(),
            (ChatTemplates{{"default", "D"}, {"rag", "R"}}));
}

TEST(ChatTemplateTest, SenselessOnes) {
  ExpectBad(3, "chat_template");
  ExpectBad(Json::array({7}), "object");
  ExpectBad({{{"name", "x"}}}, "template");
  ExpectBad({{{"template", "x"}}}, "name");
}

TEST(ChatTemplateTest, NamesMustServeAsKeys) {
  for (const char* name : {"rag", "default"}) {
    const Json entry = {{"name", name}, {"template", "R"}};
    ExpectBad(Json::array({entry, entry}),
              std::string("\"") + name + "\" in two");
  }
  const Json entry = {{"name", std::string(70'000, 'n')}, {"template", "R"}};
  ExpectBad(Json::array({entry}), "70000");
}

}  // namespace
}  // namespace thermocline::convert
