#include "eval/mc_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eval/testing.h"

namespace thermocline::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// The item of a record by its own schema.
Result<McItem> Read(const std::string& text) {
  const Json record = Json::parse(text);
  TC_ASSIGN_OR_RETURN(const McSchema* schema, FindMcSchema(record));
  return ReadMcItem(*schema, record);
}

McItem ReadGood(const std::string& text) {
  auto item = Read(text);
  if (item.has_value()) return *std::move(item);
  ADD_FAILURE() << text << ": " << item.error().message;
  return {};
}

TEST(QuerySchemaTest, AsItIsWithASpaceBetween) {
  const McItem item = ReadGood(
      R"({"query": "The sky is", "choices": ["blue", " a pie "], "gold": 1})");
  EXPECT_THAT(item.contexts, ElementsAre("The sky is"));
  EXPECT_THAT(item.continuations, ElementsAre(" blue", " a pie "));
  EXPECT_EQ(item.gold, 1u);
}

TEST(QuerySchemaTest, AQuestionGetsAnAnswerLine) {
  const auto context = [](const std::string& query) {
    const Json record = {
        {"query", query}, {"choices", {"x", "y"}}, {"gold", 0}};
    const McItem item = ReadGood(record.dump());
    return item.context(0) + "|" + item.continuations[0];
  };
  EXPECT_EQ(context("Question: Why?"), "Question: Why?\nAnswer:| x");
  EXPECT_EQ(context("Question: Why? \n"), "Question: Why?\nAnswer:| x");
  EXPECT_EQ(context("Question: Why?\nAnswer:"), "Question: Why?\nAnswer:| x");
  EXPECT_EQ(context("Question: Why?\nAnswer: "), "Question: Why?\nAnswer:| x");
  EXPECT_EQ(context("A Question: why"), "A Question: why| x");
  // White space that the context ends with takes the space's place.
  EXPECT_EQ(context("Say:\n"), "Say:|\nx");
}

TEST(ContextOptionsSchemaTest, SameContinuationBehindEach) {
  const McItem item = ReadGood(R"({"context_options": ["The cup", "The mug "],
      "continuation": "broke.", "gold": 1})");
  EXPECT_THAT(item.contexts, ElementsAre("The cup", "The mug"));
  EXPECT_THAT(item.continuations, ElementsAre(" broke.", " broke."));
  EXPECT_EQ(item.context(1), "The mug");
  EXPECT_EQ(item.gold, 1u);
}

TEST(EntailmentSchemaTest, TrueOrFalse) {
  const auto item = [](const std::string& label) {
    return Read(R"({"premise": "It rains.", "hypothesis": "It is wet.",
                    "label": )" +
                label + "}");
  };
  ASSERT_TRUE(item("\"entailment\"").has_value());
  EXPECT_THAT(
      item("\"entailment\"")->contexts,
      ElementsAre("It rains.\nQuestion: It is wet. True or False?\nAnswer:"));
  EXPECT_THAT(item("\"entailment\"")->continuations,
              ElementsAre(" True", " False"));
  EXPECT_EQ(item("\"entailment\"")->gold, 0u);
  EXPECT_EQ(item("\"not_entailment\"")->gold, 1u);
  EXPECT_EQ(item("0")->gold, 0u);
  EXPECT_EQ(item("1")->gold, 1u);
  EXPECT_THAT(MessageOf(item("\"maybe\"")),
              HasSubstr("\"label\" is \"maybe\""));
  EXPECT_THAT(MessageOf(item("2")), HasSubstr("\"label\" is 2"));
  EXPECT_THAT(MessageOf(item("-1")), HasSubstr("\"label\" is -1"));
}

TEST(CauseSchemaTest, OneSentence) {
  const McItem cause = ReadGood(R"({"premise": " The cup broke. ",
      "choice1": "It fell.", "choice2": "éva sang.", "question": "cause",
      "label": 0})");
  EXPECT_THAT(cause.contexts, ElementsAre("The cup broke because"));
  EXPECT_THAT(cause.continuations, ElementsAre(" it fell.", " éva sang."));
  const McItem effect = ReadGood(R"({"premise": "The cup broke",
      "choice1": "i cried.", "choice2": "I sang.", "question": "effect",
      "label": 1})");
  EXPECT_THAT(effect.contexts, ElementsAre("The cup broke therefore"));
  EXPECT_THAT(effect.continuations, ElementsAre(" i cried.", " i sang."));
  EXPECT_EQ(effect.gold, 1u);
  EXPECT_THAT(MessageOf(Read(R"({"premise": "a", "choice1": "b",
      "choice2": "c", "question": "why", "label": 1})")),
              HasSubstr("\"question\" is \"why\", not \"cause\""));
  // Nothing but a full stop: an empty context is not one.
  EXPECT_EQ(ReadGood(R"({"premise": ".", "choice1": "b", "choice2": "c",
      "question": "cause", "label": 1})")
                .context(0),
            " because");
}

TEST(GoalSchemaTest, SolutionsOfAQuestion) {
  const McItem item = ReadGood(R"({"goal": "Open a jar", "sol1": "Turn it.",
      "sol2": " Paint it.", "label": 1})");
  EXPECT_THAT(item.contexts, ElementsAre("Question: Open a jar\nAnswer:"));
  EXPECT_THAT(item.continuations, ElementsAre(" Turn it.", " Paint it."));
  EXPECT_EQ(item.gold, 1u);
  // Of a test set, whose labels are not published.
  EXPECT_EQ(MessageOf(Read(
                R"({"goal": "a", "sol1": "b", "sol2": "c", "label": -1})")),
            "\"label\" is -1; the choices are 0 to 1");
}

TEST(GoalSchemaTest, LabelsOfASecondFile) {
  const char* wanted =
      "\"label\" is missing: if the labels are in a second file (a number per "
      "line), each must be written into its record";
  EXPECT_EQ(MessageOf(Read(R"({"goal": "a", "sol1": "b", "sol2": "c"})")),
            wanted);
  const Json record =
      Json::parse(R"({"goal": "a", "sol1": "b", "sol2": "c", "label": 1})");
  const auto schema = FindMcSchema(record);
  ASSERT_TRUE(schema.has_value());
  Json second = record;
  second.erase("label");
  EXPECT_EQ(MessageOf(ReadMcItem(**schema, second)), wanted);
}

TEST(GapSchemaTest, OptionsInTheContext) {
  const McItem item = ReadGood(R"({"sentence": "The box or _, which fits? _",
      "option1": "bag", "option2": "the cup ", "answer": "2"})");
  EXPECT_THAT(item.contexts,
              ElementsAre("The box or bag", "The box or the cup"));
  EXPECT_THAT(item.continuations,
              ElementsAre(" , which fits? _", " , which fits? _"));
  EXPECT_EQ(item.gold, 1u);
}

TEST(GapSchemaTest, MessagesSayWhatIsWrong) {
  const auto message = [](const std::string& sentence,
                          const std::string& answer) {
    return MessageOf(Read(R"({"option1": "b", "option2": "c", "sentence": ")" +
                          sentence + R"(", "answer": )" + answer + "}"));
  };
  EXPECT_EQ(message("_ is", "\"1\""), "");
  EXPECT_EQ(message("It is", "\"1\""),
            "\"sentence\" has no gap: an \"_\" where the options go");
  EXPECT_EQ(message("It is _ ", "\"1\""),
            "\"sentence\" has nothing behind its \"_\" that could be scored");
  EXPECT_EQ(message("_ is", "\"3\""),
            "\"answer\" is \"3\", not the text \"1\" or \"2\"");
  EXPECT_EQ(message("_ is", "\"\""),
            "\"answer\" is \"\", not the text \"1\" or \"2\"");
  EXPECT_EQ(message("_ is", "1"),
            "\"answer\" is 1, not the text \"1\" or \"2\"");
  EXPECT_EQ(message("_ is", "null"),
            "\"answer\" is null, not the text \"1\" or \"2\"");
}

TEST(LetteredSchemaTest, LettersAreTheChoices) {
  const auto item = [](const std::string& answer) {
    return Read(R"({"question": " Who?\n", "subject": "x", "answer": )" +
                answer + R"(, "choices": ["a cow", "a cat", "a dog"]})");
  };
  ASSERT_TRUE(item("0").has_value());
  EXPECT_THAT(item("0")->contexts,
              ElementsAre("Who?\nA. a cow\nB. a cat\nC. a dog\nAnswer:"));
  EXPECT_THAT(item("0")->continuations, ElementsAre(" A", " B", " C"));
  EXPECT_EQ(item("0")->gold, 0u);
  EXPECT_EQ(item("2")->gold, 2u);
  EXPECT_EQ(item("\"A\"")->gold, 0u);
  EXPECT_EQ(item("\"C\"")->gold, 2u);
  EXPECT_EQ(MessageOf(item("3")), "\"answer\" is 3; the choices are 0 to 2");
  for (const char* wrong : {"\"D\"", "\"a\"", "\"AB\"", "\"\"", "\"0\""}) {
    EXPECT_EQ(
        MessageOf(item(wrong)),
        fmt::format("\"answer\" is {}; the choices are \"A\" to \"C\"", wrong));
  }
  Json many = {{"question", "q"}, {"answer", "Z"}};
  many["choices"] = std::vector<std::string>(26, "x");
  EXPECT_EQ(ReadGood(many.dump()).gold, 25u);
  many["choices"].push_back("x");
  EXPECT_EQ(MessageOf(Read(many.dump())),
            "\"choices\" has 27 entries, more than letters");
}

TEST(FindMcSchemaTest, UnknownOnesAreDescribed) {
  const auto result = FindMcSchema(
      Json::parse(R"({"question": "q", "answers": [], "query": null})"));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(
      result.error().message,
      HasSubstr("its fields are \"answers\", \"query\", \"question\";"));
  EXPECT_THAT(result.error().message,
              HasSubstr("known are query/choices/gold, "
                        "context_options/continuation/gold, "
                        "premise/hypothesis/label, "
                        "premise/choice1/choice2/question/label, "
                        "goal/sol1/sol2/label, "
                        "sentence/option1/option2/answer, "
                        "question/choices/answer"));
  EXPECT_THAT(MessageOf(FindMcSchema(Json::object())),
              HasSubstr("its fields are none;"));
  Json many;
  for (int i = 10; i < 40; ++i) many[std::to_string(i)] = 1;
  EXPECT_THAT(MessageOf(FindMcSchema(many)), HasSubstr("\"21\", ...; known"));
}

// A null is a value, which is wrong, unless a schema does without the field.
TEST(FindMcSchemaTest, Nulls) {
  EXPECT_EQ(
      MessageOf(Read(R"({"query": "a", "choices": ["b", "c"], "gold": null})")),
      "\"gold\" is null, not an index of the choices");
  EXPECT_EQ(ReadGood(R"({"query": null, "choices": null, "gold": null,
      "premise": "a", "hypothesis": "b", "label": 1})")
                .continuations,
            (std::vector<std::string>{" True", " False"}));
}

TEST(ReadMcItemTest, NamesAFieldThatIsMissing) {
  const Json first =
      Json::parse(R"({"query": "a", "choices": ["b", "c"], "gold": 0})");
  const auto schema = FindMcSchema(first);
  ASSERT_TRUE(schema.has_value());
  Json record = first;
  record.erase("gold");
  EXPECT_THAT(MessageOf(ReadMcItem(**schema, record)),
              HasSubstr("\"gold\" is missing; the file's first record is "
                        "query/choices/gold"));
}

// Every field of every schema, set to what it must not be.
TEST(ReadMcItemTest, EveryWrongValueIsAnErrorThatNamesTheField) {
  const char* good[] = {
      R"({"query": "a", "choices": ["b", "c"], "gold": 0})",
      R"({"context_options": ["a", "b"], "continuation": "c", "gold": 0})",
      R"({"premise": "a", "hypothesis": "b", "label": 0})",
      R"({"premise": "a", "choice1": "b", "choice2": "c", "question": "cause",
          "label": 0})",
      R"({"goal": "a", "sol1": "b", "sol2": "c", "label": 0})",
      R"({"sentence": "a _ d", "option1": "b", "option2": "c",
          "answer": "1"})",
      R"({"question": "a", "choices": ["b", "c"], "answer": 0})"};
  const Json bad[] = {nullptr,
                      true,
                      "",
                      " \n",
                      -1,
                      2,
                      0.5,
                      1e300,
                      uint64_t{1} << 63,
                      Json::array(),
                      Json::object(),
                      Json::array({"one"}),
                      Json::array({"one", ""}),
                      Json::array({"one", 2}),
                      Json(std::vector<std::string>(kMaxMcChoices + 1, "x"))};
  for (const char* text : good) {
    const Json record = Json::parse(text);
    const auto schema = FindMcSchema(record);
    ASSERT_TRUE(schema.has_value());
    ASSERT_TRUE(ReadMcItem(**schema, record).has_value());
    for (const auto& [name, value] : record.items()) {
      for (const Json& wrong : bad) {
        Json changed = record;
        changed[name] = wrong;
        const auto item = ReadMcItem(**schema, changed);
        ASSERT_FALSE(item.has_value()) << changed;
        EXPECT_EQ(item.error().code, ErrorCode::kCorrupt);
        EXPECT_THAT(item.error().message, HasSubstr("\"" + name));
      }
    }
  }
}

TEST(ReadMcItemTest, MessagesSayWhatIsWrong) {
  const auto message = [](const std::string& choices, const std::string& gold) {
    return MessageOf(Read(R"({"query": "a", "choices": )" + choices +
                          R"(, "gold": )" + gold + "}"));
  };
  EXPECT_EQ(message(R"(["b", "c"])", "2"),
            "\"gold\" is 2; the choices are 0 to 1");
  EXPECT_EQ(message(R"(["b", "c"])", "1.0"),
            "\"gold\" is a fraction, not an index of the choices");
  EXPECT_EQ(message(R"(["b", "c"])", "-0"), "");
  EXPECT_EQ(message(R"(["b", "c"])", "-0.0"),
            "\"gold\" is a fraction, not an index of the choices");
  EXPECT_EQ(message(R"(["b", "c"])", "99999999999999999999"),
            "\"gold\" is 1e+20; the choices are 0 to 1");
  EXPECT_EQ(message(R"(["b", "c"])", "-99999999999999999999"),
            "\"gold\" is -1e+20; the choices are 0 to 1");
  EXPECT_EQ(message(R"(["b", "c"])", "\"B\""),
            "\"gold\" is string, not an index of the choices");
  EXPECT_EQ(message("[]", "0"),
            "\"choices\" has 0 entries; 2 to 100 can be chosen from");
  EXPECT_EQ(message(R"(["b", 7])", "0"), "\"choices[1]\" is number, not text");
  EXPECT_EQ(message(R"(["b", "\t"])", "0"), "\"choices[1]\" is empty");
}

}  // namespace
}  // namespace thermocline::eval
