#include "text/continue_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "text/model_template.h"
#include "text/named_format.h"
#include "text/test_chat.h"

namespace thermocline::text {
namespace {

using jinja::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

TEST(ContinueMessageTest, TheTagStandsBehindTheLastText) {
  struct TagCase {
    const char *content, *tagged, *text;
  };
  constexpr TagCase kCases[] = {
      {R"("a ")", R"("a #")", "a "},
      {R"("")", R"("#")", ""},
      {R"([{"text":"a"},{"text":"b"},{"type":"image"}])",
       R"([{"text":"a"},{"text":"b#"},{"type":"image"}])", "b"},
      {R"([{"text":"a"},{"text":7},"text",[]])",
       R"([{"text":"a#"},{"text":7},"text",[]])", "a"}};
  for (const TagCase& each : kCases) {
    SCOPED_TRACE(each.content);
    ChatMessages messages = MakeMessages({{"user", "q"}, {"assistant", ""}});
    messages[1]["content"] = Json::parse(each.content);
    const auto text = AppendContinueTag(&messages);
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(*text, each.text);
    std::string tagged = each.tagged;
    tagged.replace(tagged.find('#'), 1, kTag);
    EXPECT_EQ(messages[1]["content"], Json::parse(tagged));
    EXPECT_EQ(messages[0]["content"], "q");
  }
}

TEST(ContinueMessageTest, NothingToBeContinued) {
  for (const char* content :
       {"null", "7", "[]", R"({"text":"a"})", R"([{"text":null}])"}) {
    ChatMessages messages = MakeMessages({{"assistant", ""}});
    messages[0]["content"] = Json::parse(content);
    const auto text = AppendContinueTag(&messages);
    ASSERT_FALSE(text.has_value()) << content;
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(text.error().message, HasSubstr("message 1: there is no text"));
  }
  ChatMessages calls = MakeMessages({{"assistant", ""}});
  calls[0].erase("content");
  EXPECT_FALSE(AppendContinueTag(&calls).has_value());
  ChatMessages none = Json::array();
  const auto text = AppendContinueTag(&none);
  ASSERT_FALSE(text.has_value());
  EXPECT_THAT(text.error().message, HasSubstr("no message"));
}

// Parts are written "<markup>" and "content", without the brackets in them.
std::vector<TextPart> PartsFrom(const std::vector<std::string>& shown) {
  std::vector<TextPart> parts;
  for (const std::string& each : shown) {
    const bool is_markup = each.starts_with('<');
    parts.push_back(
        {is_markup ? each.substr(1, each.size() - 2) : each, is_markup});
  }
  return parts;
}

TEST(ContinueMessageTest, CutsAcrossParts) {
  const std::string tag = kTag;
  const std::string trimmed = tag.substr(0, tag.size() - 1);
  struct CutCase {
    std::string text;
    std::vector<std::string> parts, cut;
  };
  const CutCase cases[] = {
      {"a", {"<x>", "a" + tag, "<y>"}, {"<x>", "a"}},
      {"a ", {"<x>", "a " + tag, "<y>"}, {"<x>", "a "}},
      {"a ", {"<x>", "a " + trimmed, "<y>"}, {"<x>", "a"}},
      {" a \n\t", {"<x>", "a \n\t" + trimmed}, {"<x>", "a"}},
      {"a\u00a0\u3000", {"a\u00a0\u3000" + trimmed}, {"a"}},
      {"\u00a0\u3000 a", {"<x>", "a" + tag}, {"<x>", "a"}},
      {"", {"<x \n>", tag, "<y>"}, {"<x \n>"}},
      {"", {"<x>", " ", "< \n>", trimmed, "<y>"}, {"<x>"}},
      {"", {tag}, {}},
      {"", {"< >", trimmed}, {}},
      // Earlier places are the messages' own.
      {"b", {tag, "<x>", "b" + tag, "<y>"}, {tag, "<x>", "b"}},
      {"a" + tag, {"<x>", "a" + tag + tag}, {"<x>", "a" + tag}},
      {"b", {"b" + tag, "<x>", "b" + tag}, {"b" + tag, "<x>", "b"}},
      // Calls between them; an escaped line end.
      {"a", {"<x>", "a", "<f()>", tag, "<y>"}, {"<x>", "a", "<f()>"}},
      {"a\n", {"<\">", "a\\n" + tag, "<\">"}, {"<\">", "a\\n"}},
      // As transformers, deceived where nothing is to come out.
      {"", {"<x>", "b" + tag, "<y>"}, {"<x>", "b"}},
      // The template cuts the text in two.
      {"a b", {"a", "< >", "b" + tag}, {"a", "< >", "b"}}};
  for (const CutCase& each : cases) {
    std::vector<TextPart> parts = PartsFrom(each.parts);
    const Status status = CutAtContinueTag(each.text, &parts);
    ASSERT_TRUE(status.has_value()) << status.error().message;
    EXPECT_EQ(parts, PartsFrom(each.cut)) << Join(parts);
  }
}

// Of several tags, which messages and tools may write, one that stands behind
// another text cuts nothing.
TEST(ContinueMessageTest, WhatDoesNotComeOutIsRefused) {
  const std::string tag = kTag;
  struct CutCase {
    std::string text;
    std::vector<std::string> parts;
  };
  const CutCase cases[] = {{"a", {}},
                           {"a", {"<x>", "a", "<y>"}},
                           {"a", {"<x>", "A" + tag}},
                           {"a b", {"a", "<_>", "b" + tag}},
                           {"thoughts</think>a", {"<x>", "a" + tag}},
                           {"b", {"<x>", "a" + tag, "<y>"}},
                           {"a", {"<x>", "a" + tag, "<y>", "z" + tag}}};
  for (const CutCase& each : cases) {
    std::vector<TextPart> parts = PartsFrom(each.parts);
    const Status status = CutAtContinueTag(each.text, &parts);
    ASSERT_FALSE(status.has_value()) << Join(parts);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr("cannot be continued"));
    EXPECT_EQ(parts, PartsFrom(each.parts));
  }
}

Result<std::vector<TextPart>> Continued(const ChatFormat& format,
                                        const ChatMessages& messages) {
  return format.Render({.messages = &messages, .continue_final_message = true});
}

TEST(ContinueMessageTest, TemplatesGoOnWithTheLastMessage) {
  struct TemplateCase {
    const char *source, *role, *content, *want;
  };
  constexpr TemplateCase kCases[] = {
      {"<{{ m.role }}>{{ m.content }}<end>", "assistant", "One, ",
       "<assistant>One, "},
      {"<{{ m.role }}>{{ m.content | trim }}<end>", "assistant", "One, ",
       "<assistant>One,"},
      {"<{{ m.role }}>\n{{ m.content }}<end>", "assistant", "",
       "<assistant>\n"},
      {"<{{ m.role }}>{{ m.content }}<end>", "user", "Why", "<user>Why"},
      // The variable is transformers' own, and no template sees it.
      {"{{ continue_final_message is defined }}{{ add_generation_prompt }}"
       "{{ m.content }}<end>",
       "assistant", "a", "FalseFalsea"},
      {"{{ m.content.split('</think>')[-1] }}<end>", "assistant", "hm</think>a",
       nullptr},
      {"{% if m.role == 'user' %}{{ m.content }}{% endif %}", "assistant", "a",
       nullptr},
      {"{{ m.content | lower }}", "assistant", "a", nullptr}};
  for (const TemplateCase& each : kCases) {
    SCOPED_TRACE(each.source);
    const auto format = ModelTemplate::Create(
        "{% set m = messages[-1] %}" + std::string(each.source), nullptr, {});
    ASSERT_TRUE(format.has_value());
    const auto parts = Continued(
        **format, MakeMessages({{"user", "q"}, {each.role, each.content}}));
    ASSERT_EQ(parts.has_value(), each.want != nullptr);
    if (parts.has_value()) {
      EXPECT_EQ(Join(*parts), each.want);
    } else {
      EXPECT_EQ(parts.error().code, ErrorCode::kInvalidArgument);
    }
  }
}

TEST(ContinueMessageTest, TheTagIsContentAndGoes) {
  const auto format = ModelTemplate::Create(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}",
      nullptr, {});
  ASSERT_TRUE(format.has_value());
  const ChatMessages messages =
      MakeMessages({{"user", kTag}, {"assistant", "</s>"}});
  const auto parts = Continued(**format, messages);
  ASSERT_TRUE(parts.has_value());
  EXPECT_THAT(
      *parts,
      ElementsAre(TextPart{"<user>", true}, TextPart{kTag, false},
                  TextPart{"</s><assistant>", true}, TextPart{"</s>", false}));
  EXPECT_EQ(messages[1]["content"], "</s>");
}

TEST(ContinueMessageTest, NamedFormatsLeaveOutWhatEndsTheMessage) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  struct NamedCase {
    const char* name;
    ChatMessages messages;
    const char* want;
  };
  const NamedCase cases[] = {
      {"chatml", MakeMessages({{"user", "Hi"}, {"assistant", " One, "}}),
       "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n One, "},
      {"vicuna", MakeMessages({{"user", "Hi"}, {"assistant", ""}}),
       "USER: Hi ASSISTANT:"},
      {"chatml", MakeMessages({{"user", "Wh"}}), "<|im_start|>user\nWh"},
      {"gemma", MakeMessages({{"user", " Wh "}}), "<start_of_turn>user\nWh"},
      {"chatml", MakeMessages({{"system", "Be"}}), "<|im_start|>system\nBe"},
      // Stands in the user's message only.
      {"gemma", MakeMessages({{"system", "Be"}}), nullptr},
      {"chatml", MakeMessages({{"assistant", "a"}}), nullptr},
      {"chatml", MakeMessages({}), nullptr}};
  for (const NamedCase& each : cases) {
    SCOPED_TRACE(each.name + each.messages.dump());
    const auto format = NamedFormat::Create(
        *FindChatTemplate(each.name, *tokenizer), *tokenizer);
    ASSERT_TRUE(format.has_value());
    const auto parts = Continued(**format, each.messages);
    ASSERT_EQ(parts.has_value(), each.want != nullptr);
    if (parts.has_value()) EXPECT_EQ(Join(*parts), each.want);
  }
}

TEST(ContinueMessageTest, AnAnswerIsBegunOrContinued) {
  const auto format = ModelTemplate::Create(
      "{{ messages[-1].content }}|{{ add_generation_prompt }}", nullptr, {});
  ASSERT_TRUE(format.has_value());
  const ChatMessages messages = MakeMessages({{"assistant", "a"}});
  struct FlagCase {
    std::optional<bool> begins;
    bool is_continued;
    const char* want;
  };
  constexpr FlagCase kCases[] = {{std::nullopt, false, "a|True"},
                                 {true, false, "a|True"},
                                 {false, false, "a|False"},
                                 {std::nullopt, true, "a"},
                                 {false, true, "a"},
                                 {true, true, nullptr}};
  for (const FlagCase& each : kCases) {
    const auto parts =
        (*format)->Render({.messages = &messages,
                           .add_generation_prompt = each.begins,
                           .continue_final_message = each.is_continued});
    ASSERT_EQ(parts.has_value(), each.want != nullptr);
    if (parts.has_value()) {
      EXPECT_EQ(Join(*parts), each.want);
    } else {
      EXPECT_EQ(parts.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(parts.error().message, HasSubstr("add_generation_prompt"));
    }
  }
  EXPECT_FALSE(Continued(**format, Json::object()).has_value());
}

}  // namespace
}  // namespace thermocline::text
