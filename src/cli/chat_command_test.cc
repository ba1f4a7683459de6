#include "cli/chat_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/test_model.h"
#include "text/chat_template.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

// What is chosen for a model with the file's keys: its name, or the error.
std::string Choice(gguf::TestFile& file,
                   const std::optional<std::string>& name = std::nullopt) {
  const std::string path = TempPath("template.gguf");
  std::ofstream(path, std::ios::binary) << file.Bytes();
  const auto model = model::Model::Open(path);
  std::remove(path.c_str());
  if (!model.has_value()) return model.error().message;
  const auto format = ChooseChatTemplate(name, **model);
  if (!format.has_value()) return format.error().message;
  return std::string(format->format->name) + format->answer_start;
}

TEST(ChooseChatTemplateTest, TheModelsOwn) {
  gguf::TestFile file = model::TestModel();
  file.SetText("tokenizer.chat_template.default", "'<start_of_turn>'");
  EXPECT_EQ(Choice(file), "gemma");
  file.SetText("tokenizer.chat_template", "'<|im_start|>' + role");
  EXPECT_EQ(Choice(file), "chatml");
  EXPECT_EQ(Choice(file, "alpaca"), "alpaca");
}

constexpr char kChatmlMessages[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "<|im_end|>\n{% endfor %}";

TEST(ChooseChatTemplateTest, WhereItsAnswersBegin) {
  gguf::TestFile file = model::TestModel();
  const auto choice = [&](const std::string& prompt) {
    file.SetText("tokenizer.chat_template",
                 kChatmlMessages + ("{% if add_generation_prompt %}" + prompt +
                                    "{% endif %}"));
    return Choice(file);
  };
  EXPECT_EQ(choice("<|im_start|>assistant\n"), "chatml");
  EXPECT_EQ(choice("<|im_start|>assistant\n<think>\n"), "chatml<think>\n");
  const std::string other = choice("Assistant:");
  EXPECT_THAT(other, HasSubstr("its chat template begins answers by "
                               "\"Assistant:\", where the format chatml"));
  EXPECT_THAT(other, HasSubstr("--chat-template: chatml, "));
}

TEST(ChooseChatTemplateTest, NoneOrUnknownListsTheNames) {
  gguf::TestFile file = model::TestModel();
  const std::string none = Choice(file);
  EXPECT_THAT(none, HasSubstr("template.gguf: has no chat template"));
  EXPECT_THAT(none, HasSubstr("-p"));
  file.SetText("tokenizer.chat_template", "");
  EXPECT_EQ(Choice(file), none);
  file.SetText("tokenizer.chat_template", "{{ messages }}");
  const std::string unknown = Choice(file);
  EXPECT_THAT(unknown, HasSubstr("is none of those known here"));
  for (const std::string_view name : text::ChatTemplateNames()) {
    EXPECT_THAT(none, HasSubstr(std::string(name)));
    EXPECT_THAT(unknown, HasSubstr(std::string(name)));
  }
  EXPECT_EQ(Choice(file, "phi3"), "phi3");
  file.SetU32("tokenizer.chat_template", 7);
  EXPECT_THAT(Choice(file), HasSubstr("tokenizer.chat_template"));
}

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

TEST(RunChatTest, WarnsOfMarksOfTheModelsOwnFormat) {
  gguf::TestFile file = model::TestModel();
  file.SetText("tokenizer.chat_template", kChatmlMessages);
  const std::string path = TempPath("marks.gguf");
  std::ofstream(path, std::ios::binary) << file.Bytes();
  const MainResult result =
      RunMain({"run", "-m", path, "-cnv", "-n", "1", "-t", "1"}, "ab\n");
  std::remove(path.c_str());
  EXPECT_THAT(result.err,
              HasSubstr("warning: the model's chat format chatml: the "
                        "vocabulary has no control token for <|im_start|>, "
                        "<|im_end|>"));
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
