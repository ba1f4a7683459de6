// Templates and threads: several render by one template at once, and what the
// deepest rendering needs of a thread's stack.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "text/jinja/test_templates.h"
#include "text/model_template.h"
#include "text/test_chat.h"

namespace thermocline::text {
namespace {

using jinja::Json;

struct SharedTemplate {
  std::unique_ptr<const jinja::Template> program;
  std::unique_ptr<const ModelTemplate> format;
};

struct SharedCase {
  const SharedTemplate* shared;
  Json messages, tools;
};

// Real templates, with their conversations.
class TemplateThreadsTest : public ::testing::Test {
 protected:
  TemplateThreadsTest() {
    for (const char* name :
         {"Qwen-Qwen3-0.6B", "google-gemma-4-31B-it", "openai-gpt-oss-120b",
          "HuggingFaceTB-SmolLM3-3B", "deepseek-ai-DeepSeek-V3.1"}) {
      const std::string path = jinja::RecordedTemplates() + "/" + name;
      AddTemplate(jinja::ReadWholeFile(path + ".jinja"),
                  jinja::ReadJsonFile(path + ".json")["cases"]);
    }
  }

  void AddTemplate(const std::string& source, const Json& recorded) {
    auto program = jinja::Template::Parse(source);
    auto format = ModelTemplate::Create(source, tokenizer_.get(),
                                        {.now = jinja::RecordedClock()});
    ASSERT_TRUE(program.has_value() && format.has_value());
    templates_.push_back(std::make_unique<SharedTemplate>(
        std::make_unique<const jinja::Template>(*std::move(program)),
        *std::move(format)));
    for (const Json& entry : recorded) {
      cases_.push_back({templates_.back().get(), entry["messages"],
                        entry.value("tools", Json::array())});
    }
  }

  // The program's text, then the tokens of the format's, or their errors.
  std::string Outcome(const SharedCase& each) const {
    jinja::Variables variables;
    variables.content["messages"] = each.messages;
    variables.content["tools"] = each.tools;
    const auto text = each.shared->program->Render(
        variables, {.limits = {}, .now = jinja::RecordedClock()});
    std::string outcome = text.has_value() ? Join(*text) : text.error().message;
    const auto parts =
        each.shared->format->Render({.messages = &each.messages});
    if (!parts.has_value()) return outcome + parts.error().message;
    const auto tokens =
        EncodeChat(*tokenizer_, *each.shared->format, *parts, true);
    if (!tokens.has_value()) return outcome + tokens.error().message;
    for (const TokenId token : *tokens) outcome += " " + std::to_string(token);
    return outcome;
  }

  const std::unique_ptr<const Tokenizer> tokenizer_ =
      MakeChatTokenizer(SmallBpeVocab(), {"<|im_start|>", "<|im_end|>"});
  std::vector<std::unique_ptr<SharedTemplate>> templates_;
  std::vector<SharedCase> cases_;
};

TEST_F(TemplateThreadsTest, ManyThreadsShareOne) {
  constexpr size_t kNumThreads = 4;
  std::vector<std::vector<std::string>> outcomes(kNumThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kNumThreads; ++t) {
    threads.emplace_back([&, t] {
      for (const SharedCase& each : cases_) {
        outcomes[t].push_back(Outcome(each));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> alone;
  for (const SharedCase& each : cases_) alone.push_back(Outcome(each));
  EXPECT_EQ(alone.size(), size_t{5 * 37});
  for (size_t t = 0; t < kNumThreads; ++t) EXPECT_EQ(outcomes[t], alone);
}

std::string Repeated(std::string_view text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// What the source renders to on a thread with that stack, or its error.
std::string RenderedOnStack(size_t num_bytes, const std::string& source) {
  struct Work {
    const std::string& source;
    std::string outcome;
  } work = {source, ""};
  pthread_attr_t attributes;
  EXPECT_EQ(pthread_attr_init(&attributes), 0);
  EXPECT_EQ(pthread_attr_setstacksize(&attributes, num_bytes), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    auto& mine = *static_cast<Work*>(argument);
    jinja::Variables variables;
    variables.content["deep"] =
        Json::parse(Repeated("[", 200) + Repeated("]", 200));
    mine.outcome = jinja::RenderText(mine.source, variables);
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  EXPECT_EQ(pthread_attr_destroy(&attributes), 0);
  return work.outcome;
}

struct Wrapping {
  const char *open, *close;
};

// Of all that nests, what takes the most stack a level.
constexpr Wrapping kExpressions[] = {{"(x is equalto(", "))"},
                                     {"(x | default(", "))"},
                                     {"g(a=", ")"},
                                     {"[", "]"},
                                     {"(", " + 'a')"},
                                     {"(1 if 0 else ", ")"}};
constexpr Wrapping kStatements[] = {{"{% for i in [1] if 1 %}", "{% endfor %}"},
                                    {"{% set y %}", "{% endset %}"},
                                    {"{% filter trim %}", "{% endfilter %}"},
                                    {"{% if 0 %}{% elif 1 %}", "{% endif %}"}};

// Down to the level at which they are stopped.
TEST(TemplateStackTest, TheDeepestMacrosRun) {
  const std::string begin = "{% macro g(a) %}{% endmacro %}{% macro f() %}";
  const std::string end = "{% endmacro %}{{ f() }}";
  const auto expect_stopped = [](const std::string& source) {
    EXPECT_EQ(RenderedOnStack(jinja::kStackBytes, source),
              "ERROR: line 1: statements and expressions of macros that call "
              "each other are nested too deep")
        << source;
  };
  for (const int n : {40, 90}) {
    for (const Wrapping& each : kExpressions) {
      expect_stopped(begin + "{{ " + Repeated(each.open, n) + "f()" +
                     Repeated(each.close, n) + " }}" + end);
    }
    for (const Wrapping& each : kStatements) {
      expect_stopped(begin + Repeated(each.open, n) + "{{ f() }}" +
                     Repeated(each.close, n) + end);
    }
  }
}

// Under as many macros as may call each other, a value as deep as may be.
TEST(TemplateStackTest, TheDeepestValueIsWrittenBelowTheDeepestMacro) {
  const std::string open = Repeated("[", 200), close = Repeated("]", 200);
  const std::pair<const char*, std::string> cases[] = {
      {"deep", open + close},
      {"deep | tojson", open + close},
      {"deep == deep", "True"}};
  for (const auto& [value, text] : cases) {
    EXPECT_EQ(
        RenderedOnStack(jinja::kStackBytes,
                        "{% macro f(n) %}{% if n %}" +
                            Repeated("{% for i in [1] %}{% set y %}", 7) +
                            "{{ f(n - 1) }}" +
                            Repeated("{% endset %}{{ y }}{% endfor %}", 7) +
                            "{% else %}{{ " + value +
                            " }}{% endif %}{% endmacro %}{{ f(99) }}"),
        text);
  }
}

// Parse too is stopped at a level.
TEST(TemplateStackTest, TheDeepestSourceIsParsed) {
  for (const Wrapping& each : kExpressions) {
    EXPECT_EQ(RenderedOnStack(jinja::kStackBytes,
                              "{{ " + Repeated(each.open, 300) + "1" +
                                  Repeated(each.close, 300) + " }}"),
              "ERROR: line 1: nested too deep")
        << each.open;
  }
}

}  // namespace
}  // namespace thermocline::text
