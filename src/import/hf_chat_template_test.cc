#include "import/hf_chat_template.h"

#include <gtest/gtest.h>

namespace thermocline::importer {
namespace {

Result<ChatTemplates> ReadTemplates(const Json& value) {
  const Json json = {{"chat_template", value}};
  return ReadChatTemplates(JsonFields::Of(json, "t.json").value());
}

void ExpectBadTemplates(const Json& value, const std::string& part) {
  const auto templates = ReadTemplates(value);
  ASSERT_FALSE(templates.has_value()) << part;
  EXPECT_EQ(templates.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(templates.error().message.find("t.json"), std::string::npos);
  EXPECT_NE(templates.error().message.find(part), std::string::npos)
      << templates.error().message;
}

TEST(ChatTemplateTest, OneOrNone) {
  EXPECT_EQ(ReadTemplates("{{ x }}").value(),
            (ChatTemplates{{"default", "{{ x }}"}}));
  EXPECT_TRUE(ReadTemplates(nullptr)->empty());
}

TEST(ChatTemplateTest, TheDefaultOneComesFirst) {
  const Json list = {{{"name", "rag"}, {"template", "R"}},
                     {{"name", "default"}, {"template", "D"}}};
  EXPECT_EQ(ReadTemplates(list).value(),
            (ChatTemplates{{"default", "D"}, {"rag", "R"}}));
}

TEST(ChatTemplateTest, SenselessOnes) {
  ExpectBadTemplates(3, "chat_template");
  ExpectBadTemplates(Json::array({7}), "object");
  ExpectBadTemplates({{{"name", "x"}}}, "template");
  ExpectBadTemplates({{{"template", "x"}}}, "name");
}

TEST(ChatTemplateTest, NamesMustServeAsKeys) {
  for (const char* name : {"rag", "default"}) {
    const Json entry = {{"name", name}, {"template", "R"}};
    ExpectBadTemplates(Json::array({entry, entry}),
                       std::string("\"") + name + "\" in two");
  }
  const Json entry = {{"name", std::string(70'000, 'n')}, {"template", "R"}};
  ExpectBadTemplates(Json::array({entry}), "70000");
}

}  // namespace
}  // namespace thermocline::importer
