#include "cli/chat_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/test_model.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kChatmlMessages[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "<|im_end|>\n{% endfor %}";

std::vector<std::string> ChatArgs(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"run", "-m", kStories, "-cnv", "--temp",
                                   "0",   "-t", "1",      "-n",   "8"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(RunChatTest, AnswersLinesOfAPipe) {
  const MainResult result =
      RunMain(ChatArgs({"--chat-template", "vicuna", "-sys", "The dog ran."}),
              "Hello\nOnce\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 2);
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr(">")));
  EXPECT_THAT(result.err, HasSubstr("chat in the format vicuna\n"));
  EXPECT_THAT(result.err, HasSubstr(" of 2048 positions"));
  // The system prompt and the first message change the answers.
  EXPECT_NE(
      RunMain(ChatArgs({"--chat-template", "vicuna"}), "Hello\nOnce\n").out,
      result.out);
  EXPECT_EQ(RunMain(ChatArgs({"--chat-template", "vicuna", "-sys",
                              "The dog ran.", "-p", "Hello"}),
                    "Once\n")
                .out,
            result.out);
}

TEST(RunChatTest, WarnsOfMarksThatAreNoTokens) {
  const auto err_of = [](const std::string& format) {
    const MainResult result =
        RunMain(ChatArgs({"--chat-template", format}), "Hello\n");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(err_of("chatml"),
              HasSubstr("warning: --chat-template chatml: the vocabulary has "
                        "no control token for <|im_start|>, <|im_end|>: plain "
                        "text"));
  EXPECT_THAT(err_of("gemma"), HasSubstr("<start_of_turn>, <end_of_turn>:"));
  // Its messages begin with plain text, and only end with a token.
  EXPECT_THAT(err_of("openchat"),
              HasSubstr("no control token for <|end_of_turn|>: plain text"));
  for (const char* format :
       {"vicuna", "zephyr", "llama2", "mistral", "alpaca", "deepseek"}) {
    EXPECT_THAT(err_of(format), ::testing::Not(HasSubstr("warning"))) << format;
  }
}

TEST(RunChatTest, RunsTheModelsTemplateAndWarnsOfMarks) {
  gguf::TestFile file = model::TestModel();
  file.SetText("tokenizer.chat_template", kChatmlMessages);
  const std::string path = TempPath("marks.gguf");
  std::ofstream(path, std::ios::binary) << file.Bytes();
  const MainResult result =
      RunMain({"run", "-m", path, "-cnv", "-n", "1", "-t", "1"}, "ab\n");
  std::remove(path.c_str());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("chat in the format of the model's own template\n"));
  EXPECT_THAT(result.err,
              HasSubstr("warning: the format of the model's own template: the "
                        "vocabulary has no control token for <|im_end|>"));
}

// The answer alone is on standard output, and the template's variables count.
TEST(RunChatTest, ThoughtsAreNoAnswer) {
  const std::string path = TempPath("think.jinja");
  const auto chat = [&](const std::string& kwargs) {
    return RunMain(ChatArgs({"--chat-template-file", path,
                             "--chat-template-kwargs", kwargs}),
                   "Once\n");
  };
  std::ofstream(path) << "{% for m in messages %}{{ m.content }}{% endfor %}"
                         "{% if think %}<think>{% endif %}"
                         "{# </think> #}";
  const MainResult answer = chat("{}");
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_THAT(answer.err, HasSubstr("chat in the format of " + path));
  EXPECT_GT(answer.out.size(), 1u);
  // All that the model writes is inside the thoughts that the template opens.
  const MainResult thoughts = chat("{\"think\": true}");
  ASSERT_EQ(thoughts.exit_code, 0) << thoughts.err;
  EXPECT_EQ(thoughts.out, "");
  EXPECT_GT(thoughts.err.size(), answer.err.size());
  std::remove(path.c_str());
}

TEST(RunChatTest, WrongVariablesAreNamed) {
  const auto error = [](const char* kwargs) {
    const MainResult result =
        RunMain(ChatArgs({"--chat-template-kwargs", kwargs}), "Once\n");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(error("{"), HasSubstr("--chat-template-kwargs: not valid JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("--chat-template-kwargs: the variables of "
                                     "a template are a JSON object"));
}

TEST(RunChatTest, RefusesWithoutATemplate) {
  const MainResult result = RunMain(ChatArgs({}), "Hello\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("has no chat template"));
  EXPECT_THAT(result.err, HasSubstr("--chat-template"));
}

}  // namespace
}  // namespace thermocline::cli
