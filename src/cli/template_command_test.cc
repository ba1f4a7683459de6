#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kTemplateSource[] =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% endfor %}{% if tools %}{{ tools[0].name }}{% endif %}{{ x }}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

// Runs with the template in a file and these messages on standard input.
class TemplateCommandTest : public ::testing::Test {
 protected:
  TemplateCommandTest() {
    std::ofstream(source_, std::ios::binary) << kTemplateSource;
  }
  ~TemplateCommandTest() override {
    for (const std::string& path : {source_, kwargs_, tools_}) {
      std::remove(path.c_str());
    }
  }

  MainResult Template(std::vector<std::string> more,
                      const std::string& messages) {
    more.insert(more.begin(), {"template", "--chat-template-file", source_,
                               "--messages", "-"});
    return RunMain(more, messages);
  }

  const std::string source_ = TempPath("template.jinja");
  const std::string kwargs_ = TempPath("kwargs.json");
  const std::string tools_ = TempPath("tools.json");
};

constexpr char kTwoMessages[] =
    R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"\n"}])";

TEST_F(TemplateCommandTest, PrintsTheRendering) {
  const MainResult plain = Template({}, kTwoMessages);
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(plain.out, "[user]Hi[assistant]\n[assistant]");
  std::ofstream(kwargs_) << R"({"add_generation_prompt": false,
                               "bos_token": "<b>", "x": [1, "a"]})";
  std::ofstream(tools_) << R"([{"name": "f"}])";
  const MainResult all =
      Template({"--kwargs", kwargs_, "--tools", tools_}, kTwoMessages);
  ASSERT_EQ(all.exit_code, 0) << all.err;
  EXPECT_EQ(all.out, "<b>[user]Hi[assistant]\nf[1, 'a']");
}

TEST_F(TemplateCommandTest, WithAModelItsTokens) {
  const MainResult text = Template({"-m", kStories}, kTwoMessages);
  EXPECT_EQ(text.out, "<s>[user]Hi[assistant]\n[assistant]");
  const std::string forged = R"([{"role":"user","content":"<s>"}])";
  const MainResult tokens = Template({"-m", kStories, "--tokens"}, forged);
  ASSERT_EQ(tokens.exit_code, 0) << tokens.err;
  // BOS once: the template's, and none of the message.
  EXPECT_TRUE(tokens.out.starts_with("1 ")) << tokens.out;
  EXPECT_TRUE(tokens.out.ends_with("\n"));
  EXPECT_EQ((" " + tokens.out).find(" 1 ", 1), std::string::npos) << tokens.out;
}

TEST_F(TemplateCommandTest, NamedFormats) {
  const MainResult result =
      RunMain({"template", "-m", kStories, "--chat-template", "vicuna",
               "--messages", "-"},
              R"([{"role":"user","content":"Hi"}])");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "USER: Hi ASSISTANT:");
}

TEST_F(TemplateCommandTest, MessagesThatAreNone) {
  struct BadCase {
    const char *messages, *error;
  };
  constexpr BadCase kCases[] = {
      {"", "standard input: not valid JSON"},
      {"[{]", "standard input: not valid JSON"},
      {"{}", "standard input: the messages are no list"},
      {"[7]", "standard input: message 1 is no object"},
      {R"([{"content":"a"}])", "standard input: message 1 has no \"role\""}};
  for (const BadCase& each : kCases) {
    const MainResult result = Template({}, each.messages);
    EXPECT_EQ(result.exit_code, 1) << each.messages;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(each.error));
  }
}

TEST_F(TemplateCommandTest, AnswersAreBegunOrContinued) {
  constexpr char kOne[] =
      R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"1, "}])";
  struct KwargsCase {
    const char *kwargs, *out;
  };
  // The template writes x behind the messages, which goes too.
  constexpr KwargsCase kCases[] = {
      {R"({"x": 7})", "[user]Hi[assistant]1, 7[assistant]"},
      {R"({"x": 7, "add_generation_prompt": false})",
       "[user]Hi[assistant]1, 7"},
      {R"({"x": 7, "continue_final_message": false})",
       "[user]Hi[assistant]1, 7[assistant]"},
      {R"({"x": 7, "continue_final_message": true})", "[user]Hi[assistant]1, "},
      {R"({"continue_final_message": true, "add_generation_prompt": false})",
       "[user]Hi[assistant]1, "}};
  for (const KwargsCase& each : kCases) {
    std::ofstream(kwargs_) << each.kwargs;
    const MainResult result = Template({"--kwargs", kwargs_}, kOne);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, each.out) << each.kwargs;
  }
  std::ofstream(kwargs_) << R"({"continue_final_message": true,
                               "add_generation_prompt": true})";
  const MainResult both = Template({"--kwargs", kwargs_}, kOne);
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.err, HasSubstr("kwargs.json: add_generation_prompt and "));
}

TEST_F(TemplateCommandTest, NamedFormatsKnowTwoVariables) {
  struct NamedCase {
    const char *kwargs, *out, *error;
  };
  constexpr NamedCase kCases[] = {
      {R"({"continue_final_message": true})", "USER: Hi ASSISTANT: 1,", ""},
      {R"({"add_generation_prompt": false})", "USER: Hi ASSISTANT: 1,</s>", ""},
      {"{}", "", "answers begin behind a message of the user"},
      {R"({"add_generation_prompt": false, "x": 1})", "",
       "kwargs.json: variables are for a template"}};
  for (const NamedCase& each : kCases) {
    std::ofstream(kwargs_) << each.kwargs;
    const MainResult result =
        RunMain({"template", "-m", kStories, "--chat-template", "vicuna",
                 "--messages", "-", "--kwargs", kwargs_},
                R"([{"role":"user","content":"Hi"},
                    {"role":"assistant","content":" 1,"}])");
    EXPECT_EQ(result.out, each.out) << each.kwargs;
    EXPECT_EQ(result.exit_code, *each.error == '\0' ? 0 : 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(each.error));
  }
}

TEST_F(TemplateCommandTest, FlagsAmongTheVariablesAreTrueOrFalse) {
  for (const char* name : {"add_generation_prompt", "continue_final_message"}) {
    for (const char* value : {"0", "null", "\"false\"", "[]"}) {
      std::ofstream(kwargs_) << "{\"" << name << "\": " << value << "}";
      const MainResult result = Template({"--kwargs", kwargs_}, kTwoMessages);
      EXPECT_EQ(result.exit_code, 1) << value;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, HasSubstr("kwargs.json: " + std::string(name) +
                                        " is true or false"));
    }
  }
}

TEST_F(TemplateCommandTest, TemplatesThatFail) {
  struct BadCase {
    const char *source, *error;
  };
  constexpr BadCase kCases[] = {
      {"{% for %}", "template.jinja: cannot be run: "},
      {"{{ raise_exception('not so') }}", "template.jinja: not so"},
      {"{{ 1 // 0 }}", "standard input: the format of "},
      {"{{ messages | nothing_of_that_name }}", "nothing_of_that_name"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "standard input: "},
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
       "{% endfor %}",
       "standard input: "}};
  for (const BadCase& each : kCases) {
    std::ofstream(source_, std::ios::binary) << each.source;
    const MainResult result = Template({}, kTwoMessages);
    EXPECT_EQ(result.exit_code, 1) << each.source;
    EXPECT_THAT(result.err, HasSubstr(each.error)) << each.source;
  }
}

TEST_F(TemplateCommandTest, WrongUsage) {
  struct BadCase {
    std::vector<std::string> args;
    const char* error;
  };
  const BadCase cases[] = {
      {{"--messages", "a"}, "no template: give a model by -m"},
      {{"--messages", "a", "--chat-template", "chatml"}, "no template"},
      {{"--chat-template-file", source_}, "--messages"},
      {{"--chat-template-file", source_, "--messages", "a", "--tokens"},
       "give one by -m"},
      {{"--chat-template-file", "-", "--messages", "-"},
       "standard input can be one file only"},
      {{"-m", kStories, "--messages", "a", "--chat-template", "chatml",
        "--tools", "b"},
       "take none"}};
  for (const BadCase& each : cases) {
    std::vector<std::string> args = each.args;
    args.insert(args.begin(), "template");
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(each.error));
  }
  EXPECT_EQ(Template({"--kwargs", kwargs_ + "x"}, kTwoMessages).exit_code, 1);
}

}  // namespace
}  // namespace thermocline::cli
