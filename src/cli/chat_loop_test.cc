#include "cli/chat_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/remedies.h"
#include "cli/test_files.h"
#include "cli/test_lines.h"
#include "cli/test_main.h"
#include "engine/session.h"
#include "model/model.h"
#include "os/file.h"
#include "text/model_template.h"
#include "text/named_format.h"

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

std::shared_ptr<const model::Model> Stories() {
  static const auto model = model::Model::Open(kStories);
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return *model;
}

struct Outcome {
  Status status;
  std::string answers;  // all of what was shown
  Texts told;
  Texts remembered;
  Texts messages;  // "user:...", at the end
  int num_ctrl_c_taken = 0;
};

// "text^C" gives up a line on which text was typed.
class ChatLines final : public LineSource {
 public:
  explicit ChatLines(Texts lines) : lines_(std::move(lines)) {}
  Result<Input> Read(bool goes_on) override {
    Result<Input> input = lines_.Read(goes_on);
    if (input.has_value() && input->text.ends_with("^C")) {
      input->event = InputEvent::kCtrlC;
      input->text.resize(input->text.size() - 2);
    }
    return input;
  }
  void Remember(const std::string& message) override {
    lines_.Remember(message);
  }
  const Texts& remembered() const { return lines_.remembered; }

 private:
  TestLines lines_;
};

// One chat on the real engine; greedy, 6 tokens an answer unless told
// otherwise.
class ChatLoopTest : public ::testing::Test {
 protected:
  ChatLoopTest() {
    options.generate.sampler.temperature = 0.0f;
    options.generate.max_tokens = 6;
    session_options.num_threads = 1;
  }

  Outcome Chat(Texts lines) {
    Outcome outcome;
    auto session = engine::Session::Create(Stories(), session_options);
    EXPECT_TRUE(session.has_value());
    const auto format = MakeFormat();
    auto conversation = decode::Conversation::Create(
        **session, {.format = format.get(), .system = system});
    EXPECT_TRUE(conversation.has_value());
    ChatLines input(std::move(lines));
    ChatPartner partner;
    partner.input = &input;
    partner.is_person = is_person;
    partner.answer = [&](std::string_view text) -> Status {
      outcome.answers += text;
      if (on_answer) on_answer(text);
      if (outcome.answers.size() < max_answer_bytes) return {};
      return Fail(ErrorCode::kCancelled, "output closed");
    };
    partner.think = [&](std::string_view) {
      ADD_FAILURE() << "this model has no marks of thoughts";
    };
    partner.tell = [&](std::string_view text) {
      outcome.told.emplace_back(text);
    };
    partner.take_ctrl_c = [&] {
      if (!takes_ctrl_c) return false;
      ++outcome.num_ctrl_c_taken;
      cancel = false;
      return true;
    };
    options.generate.cancel = &cancel;
    outcome.status = RunChatLoop(**conversation, partner, options);
    outcome.remembered = input.remembered();
    for (const decode::ChatMessage& message : (*conversation)->messages()) {
      outcome.messages.push_back(std::string(decode::NameOf(message.role)) +
                                 ":" + message.text);
    }
    return outcome;
  }

  std::unique_ptr<const text::ChatFormat> MakeFormat() const {
    const text::Tokenizer& tokenizer = *Stories()->tokenizer();
    if (template_source.empty()) {
      return *text::NamedFormat::Create(
          *text::FindChatTemplate("vicuna", tokenizer), tokenizer);
    }
    return *text::ModelTemplate::Create(template_source, &tokenizer, {});
  }

  engine::SessionOptions session_options;
  ChatLoopOptions options;
  std::string template_source;  // empty: a named format
  std::string system;
  bool is_person = true;
  bool takes_ctrl_c = true;
  size_t max_answer_bytes = 1 << 20;
  std::function<void(std::string_view)> on_answer;
  std::atomic<bool> cancel = false;
};

TEST_F(ChatLoopTest, AnswersEachMessageAndEnds) {
  const Outcome outcome = Chat({"Hello", "", "  ", "One\\", "day"});
  ASSERT_TRUE(outcome.status.has_value());
  ASSERT_EQ(outcome.messages.size(), 4u);
  EXPECT_EQ(outcome.messages[0], "user:Hello");
  EXPECT_EQ(outcome.messages[2], "user:One\nday");
  EXPECT_EQ(outcome.answers, outcome.messages[1].substr(10) + "\n" +
                                 outcome.messages[3].substr(10) + "\n");
  EXPECT_THAT(outcome.told, ElementsAre(HasSubstr("answer 6 tokens"),
                                        HasSubstr("token limit")));
  EXPECT_THAT(outcome.remembered, ElementsAre("Hello", "One\nday"));
}

TEST_F(ChatLoopTest, TheFirstMessageComesBeforeTheInput) {
  options.first_message = "Once";
  const Outcome outcome = Chat({"Hello"});
  ASSERT_EQ(outcome.messages.size(), 4u);
  EXPECT_EQ(outcome.messages[0], "user:Once");
  EXPECT_EQ(outcome.messages[2], "user:Hello");
}

TEST_F(ChatLoopTest, ASingleTurnEndsWithItsAnswer) {
  options.is_single_turn = true;
  Outcome outcome = Chat({"Hello", "Bye"});
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_EQ(outcome.messages.size(), 2u);
  options.first_message = "Once";
  outcome = Chat({"Hello"});
  ASSERT_EQ(outcome.messages.size(), 2u);
  EXPECT_EQ(outcome.messages[0], "user:Once");
}

TEST_F(ChatLoopTest, ASingleTurnOutlivesARefusedMessage) {
  options.is_single_turn = true;
  session_options.context = 60;
  std::string too_long;
  for (int i = 0; i < 60; ++i) too_long += "w ";
  const Outcome outcome = Chat({too_long, "Hello", "Bye"});
  ASSERT_EQ(outcome.messages.size(), 2u);
  EXPECT_EQ(outcome.messages[0], "user:Hello");
}

TEST_F(ChatLoopTest, ABlankFirstMessageIsNone) {
  for (const char* blank : {"", " \n\t"}) {
    options.first_message = blank;
    EXPECT_EQ(Chat({"Hello"}).messages.size(), 2u);
  }
}

TEST_F(ChatLoopTest, ARefusedMessageTakesNoSeed) {
  options.generate.sampler.temperature = 1.5f;
  options.generate.sampler.seed = 7;
  session_options.context = 60;
  std::string too_long;
  for (int i = 0; i < 60; ++i) too_long += "w ";
  const Outcome outcome = Chat({"Hello", too_long, "Bye"});
  EXPECT_THAT(outcome.told[1], HasSubstr("positions"));
  EXPECT_EQ(outcome.messages, Chat({"Hello", "Bye"}).messages);
}

TEST_F(ChatLoopTest, UnknownCommandsDoNothing) {
  const Outcome outcome = Chat({"/fly\x1b", "/clear now", "/", "/help",
                                "/usr/bin/ls is what?", " /usr/bin is full"});
  ASSERT_TRUE(outcome.status.has_value());
  const std::string reason =
      " is no command; /help lists them; for a message put a space in front";
  EXPECT_EQ(outcome.told[0], "\"/fly\\x1b\"" + reason);
  EXPECT_THAT(outcome.told[1], HasSubstr("\"/clear\" takes nothing behind it"));
  EXPECT_EQ(outcome.told[2], "\"/\"" + reason);
  EXPECT_EQ(outcome.told[4], "\"/usr/bin/ls\"" + reason);
  for (const char* command : {"/clear", "/regen", "/save", "/exit", "/quit"}) {
    EXPECT_THAT(outcome.told[3], HasSubstr(command));
  }
  EXPECT_EQ(outcome.messages[0], "user: /usr/bin is full");
}

TEST_F(ChatLoopTest, UnknownCommandsInAPipeAreErrors) {
  is_person = false;
  for (const char* line : {"/fly", "/clear now"}) {
    const Outcome outcome = Chat({line, "Hello"});
    ASSERT_FALSE(outcome.status.has_value()) << line;
    EXPECT_THAT(outcome.status.error().message, HasSubstr("a space in front"));
    EXPECT_TRUE(outcome.messages.empty());
  }
}

TEST_F(ChatLoopTest, ASlashInsideQuotesIsNoCommand) {
  const Outcome outcome = Chat({"\"\"\"/exit\"\"\"", "Hello"});
  EXPECT_EQ(outcome.messages.size(), 4u);
  EXPECT_EQ(outcome.messages[0], "user:/exit");
}

TEST_F(ChatLoopTest, ExitAndQuit) {
  for (const char* command : {"/exit", "/quit", "/exit  "}) {
    const Outcome outcome = Chat({command, "Hello"});
    EXPECT_TRUE(outcome.status.has_value());
    EXPECT_EQ(outcome.answers, "") << command;
  }
}

TEST_F(ChatLoopTest, ClearForgetsAllButTheSystemPrompt) {
  system = "Be kind";
  const Outcome once = Chat({"Hello"});
  const Outcome cleared = Chat({"One day", "/clear", "Hello"});
  EXPECT_EQ(cleared.messages, once.messages);
  EXPECT_EQ(cleared.messages[0], "system:Be kind");
}

TEST_F(ChatLoopTest, RegenReplacesTheAnswerWithAnotherSeed) {
  options.generate.sampler.temperature = 1.5f;
  options.generate.sampler.seed = 7;
  options.generate.max_tokens = 20;
  const Outcome first = Chat({"Hello"});
  const Outcome again = Chat({"Hello", "/regen"});
  ASSERT_EQ(again.messages.size(), 2u);
  EXPECT_EQ(again.messages[0], first.messages[0]);
  EXPECT_NE(again.messages[1], first.messages[1]);
  EXPECT_TRUE(again.answers.starts_with(first.answers));
  EXPECT_THAT(again.told.back(), HasSubstr("prompt 1 token, "));
  // The same seed gives the same chat.
  EXPECT_EQ(Chat({"Hello", "/regen"}).messages, again.messages);
}

TEST_F(ChatLoopTest, RegenWithoutAnAnswerOrWithoutChance) {
  const Outcome outcome = Chat({"/regen", "Hello", "/regen"});
  EXPECT_EQ(outcome.told[0], "there is no answer yet");
  EXPECT_THAT(outcome.told[2], HasSubstr("always the same"));
  EXPECT_EQ(outcome.messages.size(), 2u);
}

TEST_F(ChatLoopTest, SaveWritesTheConversation) {
  const std::string path = TempPath("saved.json");
  options.input_files = {TempPath("model.gguf")};
  std::ofstream(options.input_files[0]) << "weights";
  const Outcome outcome = Chat(
      {"Hello", "/save " + path, "/save", "/save " + options.input_files[0]});
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_EQ(outcome.told[1], "saved 2 messages to " + path);
  EXPECT_EQ(outcome.told[2], "not saved: no file is named");
  EXPECT_THAT(outcome.told[3], HasSubstr("choose another name"));
  const auto saved = os::ReadFile(path);
  ASSERT_TRUE(saved.has_value());
  EXPECT_THAT(*saved, HasSubstr("\"content\": \"Hello\""));
  std::remove(path.c_str());
  std::remove(options.input_files[0].c_str());
}

TEST_F(ChatLoopTest, SaveTakesANameInQuotes) {
  const std::string path = TempPath("a b.json");
  const Outcome outcome = Chat({"/save \"" + path + "\"", "/save \"\""});
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_EQ(outcome.told[0], "saved 0 messages to " + path);
  EXPECT_EQ(outcome.told[1], "not saved: no file is named");
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

TEST_F(ChatLoopTest, ASaveThatFailsEndsAProgramsChat) {
  is_person = false;
  const Outcome outcome = Chat({"/save", "Hello"});
  ASSERT_FALSE(outcome.status.has_value());
  EXPECT_EQ(outcome.status.error().message, "/save: no file is named");
  EXPECT_EQ(outcome.answers, "");
  EXPECT_THAT(outcome.told, ElementsAre());
}

TEST_F(ChatLoopTest, TheEndInsideAMessage) {
  EXPECT_THAT(Chat({"Hello\\"}).messages, ElementsAre());
  is_person = false;
  const Outcome program = Chat({"Hello\\"});
  ASSERT_EQ(program.messages.size(), 2u);
  EXPECT_EQ(program.messages[0], "user:Hello");
}

TEST_F(ChatLoopTest, CtrlCStopsAnAnswerAndKeepsIt) {
  on_answer = [this](std::string_view) { cancel = true; };
  options.generate.max_tokens = 100;
  const Outcome outcome = Chat({"Hello", "/clear"});
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_EQ(outcome.num_ctrl_c_taken, 1);
  EXPECT_FALSE(outcome.answers.empty());
  EXPECT_THAT(outcome.told,
              ElementsAre(HasSubstr("interrupted"), HasSubstr("forgotten")));
}

TEST_F(ChatLoopTest, CtrlCBeforeAnAnswer) {
  cancel = true;
  const Outcome outcome = Chat({"Hello", "One day"});
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_THAT(outcome.told[0], HasSubstr("nothing has changed"));
  ASSERT_EQ(outcome.messages.size(), 2u);
  EXPECT_EQ(outcome.messages[0], "user:One day");
}

TEST_F(ChatLoopTest, OtherSignalsEndTheChat) {
  takes_ctrl_c = false;
  on_answer = [this](std::string_view) { cancel = true; };
  options.generate.max_tokens = 100;
  const Outcome outcome = Chat({"Hello", "One day"});
  ASSERT_FALSE(outcome.status.has_value());
  EXPECT_EQ(outcome.status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(outcome.messages.size(), 2u);
  EXPECT_TRUE(outcome.answers.ends_with('\n'));
}

TEST_F(ChatLoopTest, CtrlCAtThePromptTwiceEnds) {
  const Outcome outcome = Chat({"^C", "Hello", "^C", "^C", "One day"});
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_EQ(outcome.messages.size(), 2u);
  EXPECT_EQ(outcome.told[0], "Ctrl-C again or Ctrl-D ends the chat");
}

TEST_F(ChatLoopTest, CtrlCOnALineWithTextOnlyGivesItUp) {
  const Outcome typed = Chat({"a^C", "b^C", "^C", "c^C", "^C", "Hello"});
  ASSERT_TRUE(typed.status.has_value());
  EXPECT_EQ(typed.messages.size(), 2u);
  EXPECT_EQ(
      std::ranges::count(typed.told, "Ctrl-C again or Ctrl-D ends the chat"),
      2);
  // A message of several lines is text too.
  EXPECT_EQ(Chat({"a\\", "^C", "^C", "Hello"}).messages.size(), 2u);
  EXPECT_EQ(Chat({"a\\", "^C", "^C", "^C", "Hello"}).messages.size(), 0u);
}

TEST_F(ChatLoopTest, AFullContextStopsTheAnswerThenRefuses) {
  session_options.context = 48;
  options.generate.max_tokens = -1;
  options.generate.ignore_eos = true;
  const Outcome outcome = Chat({"Hello", "One day", "/clear", "Hello"});
  ASSERT_TRUE(outcome.status.has_value());
  EXPECT_THAT(outcome.told,
              ElementsAre(HasSubstr("48 of 48 positions; context full"),
                          "the context is full, 48 of 48 positions: /clear "
                          "starts over",
                          HasSubstr("but 48 of 48 are used: /clear"),
                          HasSubstr("forgotten"), HasSubstr("context full"),
                          HasSubstr("/clear")));
  EXPECT_EQ(outcome.messages.size(), 2u);
}

TEST_F(ChatLoopTest, AMessageTooLargeForAnyContext) {
  session_options.context = 16;
  const std::string large(100, 'x');
  const Outcome person = Chat({large, "/exit"});
  EXPECT_TRUE(person.status.has_value());
  EXPECT_THAT(person.told,
              ElementsAre(HasSubstr("but the context has 16: use a larger")));
  is_person = false;
  const Outcome program = Chat({large, "Hello"});
  ASSERT_FALSE(program.status.has_value());
  EXPECT_EQ(Explain(program.status.error()), person.told[0]);
  EXPECT_EQ(program.answers, "");
  // Where something was said, /clear would not help either.
  is_person = true;
  session_options.context = 48;
  const Outcome later = Chat({"Hello", large, "/exit"});
  EXPECT_THAT(later.told.back(), HasSubstr("but the context has 48: use a"));
}

// As many templates do of what they do not know, in the midst of a chat.
TEST_F(ChatLoopTest, ATemplateThatRefusesAMessageEndsNoPersonsChat) {
  for (const char* refusal : {"raise_exception('no more')", "1 // 0"}) {
    is_person = true;
    template_source =
        "{% if messages | length > 1 %}{{ " + std::string(refusal) +
        " }}{% endif %}USER: {{ messages[0].content }} ASSISTANT:";
    const Outcome person = Chat({"Hello", "More", "/clear", "Bye"});
    ASSERT_TRUE(person.status.has_value());
    ASSERT_EQ(person.told.size(), 4u);
    EXPECT_TRUE(person.told[1].ends_with("; /clear starts over"));
    ASSERT_EQ(person.messages.size(), 2u);
    EXPECT_EQ(person.messages[0], "user:Bye");
    EXPECT_EQ(Chat({"Hello", "More"}).messages, Chat({"Hello"}).messages);
    is_person = false;
    const Outcome program = Chat({"Hello", "More", "/clear", "Bye"});
    ASSERT_FALSE(program.status.has_value());
    EXPECT_EQ(Explain(program.status.error()) + "; /clear starts over",
              person.told[1]);
    EXPECT_THAT(person.told[1],
                HasSubstr("the format of the model's own template: "));
  }
}

TEST_F(ChatLoopTest, AClosedOutputEndsIt) {
  max_answer_bytes = 3;
  const Outcome outcome = Chat({"Hello", "One day"});
  ASSERT_FALSE(outcome.status.has_value());
  EXPECT_EQ(outcome.status.error().message, "output closed");
}

TEST_F(ChatLoopTest, ErrorsOfTheInputPassThrough) {
  const Outcome outcome = Chat({"!"});
  ASSERT_FALSE(outcome.status.has_value());
  EXPECT_EQ(outcome.status.error().message, "no line");
}

}  // namespace
}  // namespace thermocline::cli
