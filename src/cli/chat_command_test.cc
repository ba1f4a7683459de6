#include "cli/chat_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/test_model.h"
#include "text/byte_text.h"
#include "text/small_vocabs.h"

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

std::string RawOf(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += gguf::Raw(value);
  return bytes;
}

void SetVocab(const text::Vocab& vocab, gguf::TestFile* file) {
  std::vector<int32_t> types;
  for (const auto type : vocab.types) types.push_back(static_cast<int>(type));
  file->SetText("tokenizer.ggml.model", "gpt2")
      .SetText("tokenizer.ggml.pre", "gpt-2")
      .SetTexts("tokenizer.ggml.tokens", vocab.tokens)
      .SetTexts("tokenizer.ggml.merges", {"q z"})  // each byte is a token
      .SetNumbers("tokenizer.ggml.token_type", gguf::ValueType::kI32, types)
      .Remove("tokenizer.ggml.scores")
      .SetU32("tokenizer.ggml.eos_token_id", 0)
      .SetBool("tokenizer.ggml.add_bos_token", false);
}

// A model whose next token depends on the last one alone, as `chain` says, and
// is a dot elsewhere: its answer tells where its prompt ended. Layers of zeros
// add nothing to the embedding, which has an axis for each token of the chain.
gguf::TestFile ChainModel(const std::vector<std::string>& special,
                          const std::map<std::string, std::string>& chain) {
  text::Vocab vocab = text::SmallBpeVocab();
  for (const std::string& each : special) {
    text::AddToken(&vocab, each, text::TokenType::kControl);
  }
  const auto id_of = [&](const std::string& piece) {
    const std::string_view token =
        piece == "\n" ? text::ByteToText('\n') : std::string_view(piece);
    return static_cast<size_t>(std::ranges::find(vocab.tokens, token) -
                               vocab.tokens.begin());
  };
  constexpr size_t kWidth = 32, kElsewhere = kWidth - 1;
  const size_t num_tokens = vocab.tokens.size();
  std::vector<float> head(num_tokens * kWidth), embedding(num_tokens * kWidth);
  std::vector<size_t> axis(num_tokens, kElsewhere);
  head[id_of(".") * kWidth + kElsewhere] = 4;
  size_t num_axes = 0;
  for (const auto& [last, then] : chain) {
    head[id_of(then) * kWidth + num_axes] = 4;
    axis[id_of(last)] = num_axes++;
  }
  for (size_t i = 0; i < num_tokens; ++i) embedding[i * kWidth + axis[i]] = 1;
  gguf::TestFile file = model::TestModel();
  SetVocab(vocab, &file);
  file.SetTensor("token_embd.weight", DType::kF32, {kWidth, num_tokens},
                 RawOf(embedding))
      .SetTensor("output.weight", DType::kF32, {kWidth, num_tokens},
                 RawOf(head))
      .SetTensor("output_norm.weight", DType::kF32, {kWidth},
                 RawOf(std::vector<float>(kWidth, 1)));
  return file;
}

MainResult ChatWith(gguf::TestFile file, const std::string& source,
                    const std::string& message) {
  file.SetText("tokenizer.chat_template", source);
  const std::string path = TempPath("chain.gguf");
  std::ofstream(path, std::ios::binary) << file.Bytes();
  const MainResult result =
      RunMain({"run", "-m", path, "-cnv", "-n", "9", "--temp", "0", "-t", "1"},
              message);
  std::remove(path.c_str());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result;
}

// A template that looks like chatml, and opens the model's thoughts itself.
TEST(RunChatTest, WhatTheTemplateWritesBehindTheHeaderIsRead) {
  const MainResult result = ChatWith(
      ChainModel({"<|im_start|>", "<|im_end|>", "<think>", "</think>"},
                 {{"\n", "H"}, {"H", "i"}, {"i", "<|im_end|>"}}),
      std::string(kChatmlMessages) +
          "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
          "{% endif %}",
      "Hello there\n");
  EXPECT_THAT(result.err, HasSubstr("[prompt 32 tokens"));
  EXPECT_EQ(result.out, "");  // all of it is thoughts
}

// Another format that begins with chatml's mark: a header of its own, and an
// end of messages of its own.
TEST(RunChatTest, AMarkAloneIsNoFormat) {
  const MainResult result =
      ChatWith(ChainModel({"<|im_start|>", "<end_of_utterance>"},
                          {{":", "H"},
                           {"H", "i"},
                           {"i", "<end_of_utterance>"},
                           {"<end_of_utterance>", "X"},
                           {"\n", "N"},
                           {"N", "o"}}),
               "<|im_start|>{% for m in messages %}{{ m.role | capitalize }}: "
               "{{ m.content }}<end_of_utterance>\n{% endfor %}"
               "{% if add_generation_prompt %}Assistant:{% endif %}",
               "Hello there\n");
  EXPECT_EQ(result.out, "Hi\n");
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
