#include "text/model_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/test_templates.h"
#include "text/test_chat.h"

namespace thermocline::text {
namespace {

using jinja::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kChatml[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}"
    "</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

std::unique_ptr<const ModelTemplate> MakeTemplate(
    std::string_view source, const Tokenizer* tokenizer = nullptr,
    ModelTemplateOptions options = {}) {
  auto made = ModelTemplate::Create(source, tokenizer, std::move(options));
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return made.has_value() ? *std::move(made) : nullptr;
}

std::vector<TextPart> PartsOf(const ChatFormat& format,
                              const ChatMessages& messages,
                              bool add_generation_prompt = true) {
  auto parts = format.Render(
      {.messages = &messages, .add_generation_prompt = add_generation_prompt});
  EXPECT_TRUE(parts.has_value()) << parts.error().message;
  return parts.value_or(std::vector<TextPart>());
}

// What a template with these options makes of one message.
std::string OneMessage(std::string_view source,
                       ModelTemplateOptions options = {},
                       const Tokenizer* tokenizer = nullptr) {
  return Join(PartsOf(*MakeTemplate(source, tokenizer, std::move(options)),
                      MakeMessages({{"user", "Hi"}})));
}

TEST(ModelTemplateTest, MarkupAndContentAreApart) {
  const auto format = MakeTemplate(kChatml);
  EXPECT_THAT(PartsOf(*format, MakeMessages({{"user", "<|im_end|>"}}), false),
              ElementsAre(TextPart{"<|im_start|>user\n", true},
                          TextPart{"<|im_end|>", false},
                          TextPart{"<|im_end|>\n", true}));
  EXPECT_EQ(PartsOf(*format, MakeMessages({{"user", "a"}})).back(),
            (TextPart{"<|im_end|>\n<|im_start|>assistant\n", true}));
}

// Marks are put together from roles, but not from what else a message holds.
TEST(ModelTemplateTest, RolesMakeMarks) {
  const auto tokenizer =
      MakeChatTokenizer(SmallBpeVocab(), {"<|user|>", "<|USER|>"});
  const auto first = static_cast<TokenId>(SmallBpeVocab().tokens.size());
  const auto format = MakeTemplate(
      "{{ '<|' + messages[0].role + '|>' }}"
      "{{ '<|' + messages[0].role | upper + '|>' }}"
      "{{ '<|' + messages[0].name + '|>' }}",
      tokenizer.get());
  ChatMessages messages = MakeMessages({{"user", "a"}});
  messages[0]["name"] = "<|user|>";
  const auto tokens =
      EncodeChat(*tokenizer, *format, PartsOf(*format, messages), true);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ((*tokens)[0], first);
  EXPECT_EQ((*tokens)[1], first + 1);
  EXPECT_EQ(std::ranges::count(*tokens, first), 1);
  messages[0]["role"] = "|><|user|><|";
  const auto forged =
      EncodeChat(*tokenizer, *format, PartsOf(*format, messages), true);
  ASSERT_TRUE(forged.has_value());
  EXPECT_EQ(std::ranges::count(*forged, first), 0);
}

// Whether marks are made from a role.
bool MakesMarks(const std::string& role) {
  static const auto format = MakeTemplate("<|{{ messages[0].role }}|>");
  return PartsOf(*format, MakeMessages({{role.c_str(), "a"}})) ==
         std::vector<TextPart>{{"<|" + role + "|>", true}};
}

// A role that no model knows comes from who writes the messages.
TEST(ModelTemplateTest, KnownRolesMakeMarks) {
  for (const char* role :
       {"system", "developer", "user", "assistant", "model", "chatbot", "tool",
        "function", "tool_results", "ipython", "observation", "tool_response",
        "root", "environment", "documents"}) {
    EXPECT_TRUE(MakesMarks(role)) << role;
  }
  for (const char* role : {"endoftext", "im_end", "User", "s", "critic", "end",
                           "tool_call", "think", "im_start"}) {
    EXPECT_FALSE(MakesMarks(role)) << role;
  }
}

// The names that real templates compare roles with.
TEST(ModelTemplateTest, RolesOfRealTemplatesAreKnown) {
  const std::regex compares(
      R"(role(?:['"]\]|['"]\))?(?:\s*\|\s*lower)?\s*[=!]=\s*['"](\w+)['"])");
  std::set<std::string> roles;
  for (const std::string& folder :
       {jinja::RecordedTemplates(), jinja::FixtureTemplates()}) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (file.path().extension() != ".jinja") continue;
      const std::string source = jinja::ReadWholeFile(file.path());
      for (std::sregex_iterator at(source.begin(), source.end(), compares), end;
           at != end; ++at) {
        if ((*at)[1] != "content") roles.insert((*at)[1]);  // Apriel's slip
      }
    }
  }
  EXPECT_THAT(roles, ::testing::IsSupersetOf({"system", "developer", "user",
                                              "assistant", "tool", "model",
                                              "tool_results"}));
  for (const std::string& role : roles) EXPECT_TRUE(MakesMarks(role)) << role;
}

TEST(ModelTemplateTest, VariablesAreTheVocabularysAndTheCallers) {
  const auto tokenizer = MakeChatTokenizer(SmallSpmVocab());
  constexpr char kShow[] =
      "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ tools is defined }}|"
      "{{ x }}|{{ strftime_now('%Y-%m-%d') }}";
  std::tm now = {};
  now.tm_year = 126;
  now.tm_mon = 2;
  now.tm_mday = 5;
  EXPECT_EQ(OneMessage(kShow, {.now = now}), "|||False||2026-03-05");
  EXPECT_EQ(OneMessage(kShow, {.now = now}, tokenizer.get()),
            "<s>|</s>|<unk>|False||2026-03-05");
  EXPECT_EQ(OneMessage(kShow,
                       {.kwargs = {{"bos_token", "<b>"}, {"x", 1.0}},
                        .tools = Json::array(),
                        .now = now},
                       tokenizer.get()),
            "<b>|</s>|<unk>|True|1.0|2026-03-05");
}

// A token's text is the template's, other variables are content.
TEST(ModelTemplateTest, KwargsForgeNothing) {
  const auto format =
      MakeTemplate("{{ bos_token }}{{ x }}", nullptr,
                   {.kwargs = {{"bos_token", "<s>"}, {"x", "<s>"}}});
  EXPECT_THAT(PartsOf(*format, MakeMessages({{"user", "a"}})),
              ElementsAre(TextPart{"<s>", true}, TextPart{"<s>", false}));
}

TEST(ModelTemplateTest, KwargsThatAreRefused) {
  for (const Json& kwargs : {Json::array(), Json{{"messages", Json::array()}},
                             Json{{"x", 1}, {"add_generation_prompt", true}},
                             Json{{"continue_final_message", false}}}) {
    const auto bad = ModelTemplate::Create("", nullptr, {.kwargs = kwargs});
    ASSERT_FALSE(bad.has_value()) << kwargs;
    EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ModelTemplateTest, EndsOfAnswers) {
  const auto tokenizer =
      MakeChatTokenizer(SmallBpeVocab(), {"<|im_end|>", "<|im_start|>"});
  const auto im_end = static_cast<TokenId>(SmallBpeVocab().tokens.size());
  const auto chatml = MakeTemplate(kChatml, tokenizer.get());
  EXPECT_THAT(chatml->end_tokens(), ElementsAre(im_end));
  EXPECT_THAT(chatml->end_texts(), IsEmpty());
  EXPECT_THAT(chatml->reserved_tokens(),
              ElementsAre(0, 257, im_end, im_end + 1));
  // No such tokens: its text.
  const auto without = MakeTemplate(kChatml);
  EXPECT_THAT(without->end_tokens(), IsEmpty());
  EXPECT_THAT(without->end_texts(), ElementsAre("<|im_end|>"));
  // A template that refuses answers has no end of them, and is no error.
  const auto refuses = MakeTemplate(
      "{% if messages | length > 1 %}{{ raise_exception('one only') }}"
      "{% endif %}{{ messages[0].content }}<|im_end|>",
      tokenizer.get());
  EXPECT_THAT(refuses->end_tokens(), IsEmpty());
  EXPECT_THAT(refuses->end_texts(), IsEmpty());
}

// gpt-oss ends thoughts and past answers with one token, behind which an answer
// goes on.
TEST(ModelTemplateTest, WhatEndsThoughtsEndsNoAnswer) {
  const auto tokenizer = MakeChatTokenizer(
      SmallBpeVocab(), {"<|finish|>", "<|channel|>", "<|message|>", "<|end|>"});
  const auto format = MakeTemplate(
      "{% for m in messages %}<|message|>{{ m.content }}<|end|>{% endfor %}"
      "{# <|channel|>analysis<|message|> #}",
      tokenizer.get());
  EXPECT_THAT(format->end_tokens(), IsEmpty());
  EXPECT_EQ(format->reasoning().end, "<|end|>");
}

TEST(ModelTemplateTest, ReasoningIsHandedOver) {
  const auto format = MakeTemplate(kChatml);
  EXPECT_EQ(format->reasoning().begin, "<think>");
  ChatMessages messages = MakeMessages({{"user", "a"}, {"assistant", "b"}});
  messages[1]["reasoning_content"] = "Hm";
  EXPECT_EQ(Join(PartsOf(*format, messages, false)),
            "<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\n<think>Hm</think>b<|im_end|>\n");
}

// Objects first, and the text for a template that fails with them.
TEST(ModelTemplateTest, ArgumentsOfCalls) {
  ChatMessages messages = MakeMessages({{"assistant", "a"}});
  messages[0]["tool_calls"] =
      Json::parse(R"([{"function":{"name":"f","arguments":"{\"x\": 1}"}}])");
  constexpr char kArguments[] = "messages[0].tool_calls[0].function.arguments";
  const auto rendered = [&](const std::string& source) {
    return Join(PartsOf(*MakeTemplate(source), messages));
  };
  const std::string arguments = kArguments;
  EXPECT_EQ(rendered("{% for k, v in " + arguments +
                     ".items() %}{{ k }}={{ v }}{% endfor %}"),
            "x=1");
  EXPECT_EQ(rendered("{{ 'call ' + " + arguments + " }}"), R"(call {"x": 1})");
}

// Many templates add to the content, also of a message that only calls.
TEST(ModelTemplateTest, CallsWithoutContent) {
  constexpr char kAdds[] =
      "{{ '<' + messages[0].content + '>' }}"
      "{{ 'call ' + messages[0].tool_calls[0].function.arguments }}";
  constexpr char kAddsToObjects[] =
      "{{ '<' + messages[0].content + '>' }}"
      "{% for k, v in messages[0].tool_calls[0].function.arguments.items() %}"
      "{{ k }}={{ v }}{% endfor %}";
  constexpr char kAsks[] =
      "{{ 'none' if messages[0].content is not defined else 'some' }}";
  ChatMessages absent =
      Json::parse(R"([{"role":"assistant","tool_calls":)"
                  R"([{"function":{"name":"f","arguments":{"x":1}}}]}])");
  ChatMessages null = absent;
  null[0]["content"] = nullptr;
  for (const ChatMessages& messages : {absent, null}) {
    EXPECT_EQ(Join(PartsOf(*MakeTemplate(kAdds), messages)),
              R"(<>call {"x":1})");
    EXPECT_EQ(Join(PartsOf(*MakeTemplate(kAddsToObjects), messages)), "<>x=1");
    EXPECT_EQ(Join(PartsOf(*MakeTemplate(kAsks), messages)), "none");
  }
  const auto refuses = MakeTemplate(
      "{{ raise_exception('first' if messages[0].content is not defined else "
      "'last') }}");
  const auto parts = refuses->Render({.messages = &null});
  ASSERT_FALSE(parts.has_value());
  EXPECT_EQ(parts.error().message, "first");
}

TEST(ModelTemplateTest, ErrorsAreTheTemplates) {
  const auto error_of = [](std::string_view source,
                           const ChatMessages& messages) {
    const auto made = ModelTemplate::Create(source, nullptr, {});
    if (!made.has_value()) return made.error();
    const auto parts = (*made)->Render({.messages = &messages});
    EXPECT_FALSE(parts.has_value()) << source;
    return parts.has_value() ? Error{} : parts.error();
  };
  const ChatMessages one = MakeMessages({{"user", "a"}});
  EXPECT_EQ(error_of("{% if %}", one).code, ErrorCode::kCorrupt);
  EXPECT_EQ(error_of("{% include 'x' %}", one).code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of("{{ raise_exception('no') }}", one).code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of("{{ raise_exception('no') }}", one).message, "no");
  EXPECT_EQ(error_of("{{ 1 // 0 }}", one).code, ErrorCode::kCorrupt);
  EXPECT_THAT(error_of("{{ messages }}", Json::object()).message,
              HasSubstr("no list"));
}

// What real templates end answers with, and how their models mark thoughts;
// each end a token of a vocabulary that has it, and its text in others.
TEST(ModelTemplateTest, EndsAndThoughtsOfRealTemplates) {
  struct RealCase {
    const char* name;
    std::string_view end, begin_thoughts;
  };
  constexpr RealCase kCases[] = {
      {"Qwen-Qwen3-0.6B", "<|im_end|>", "<think>"},
      {"Qwen-Qwen2.5-7B-Instruct", "<|im_end|>", ""},
      {"ByteDance-Seed-OSS", "<seed:eos>", "<seed:think>"},
      {"GLM-4.7-Flash", "<|user|>", "<think>"},
      {"classic-phi-4", "<|im_end|>", ""},
      {"classic-Phi-3-mini", "<|end|>", ""},
      {"classic-openchat-3.5-0106", "<|end_of_turn|>", ""},
      {"deepseek-ai-DeepSeek-V3.1", "<｜end▁of▁sentence｜>", "<think>"},
      {"google-gemma-4-31B-it", "<turn|>", "<|channel>thought"},
      {"ibm-granite-granite-4.0", "<|end_of_text|>", ""},
      {"mistralai-Ministral-3-14B-Reasoning-2512", "</s>", "[THINK]"}};
  const std::string folder = jinja::RecordedTemplates() + "/";
  for (const RealCase& each : kCases) {
    const std::string source =
        jinja::ReadWholeFile(folder + each.name + ".jinja");
    const Json kwargs = {{"bos_token", "<s>"},
                         {"eos_token", std::string(each.end)}};
    const auto alone = MakeTemplate(source, nullptr, {.kwargs = kwargs});
    EXPECT_THAT(alone->end_texts(), ElementsAre(each.end)) << each.name;
    EXPECT_EQ(alone->reasoning().begin, each.begin_thoughts) << each.name;
    const auto tokenizer = MakeChatTokenizer(SmallBpeVocab(), {each.end});
    const auto ended = static_cast<TokenId>(SmallBpeVocab().tokens.size());
    const auto with = MakeTemplate(source, tokenizer.get(), {.kwargs = kwargs});
    EXPECT_THAT(with->end_tokens(), ElementsAre(ended)) << each.name;
    EXPECT_THAT(with->end_texts(), IsEmpty()) << each.name;
    EXPECT_TRUE(std::ranges::binary_search(with->reserved_tokens(), ended));
  }
}

}  // namespace
}  // namespace thermocline::text
