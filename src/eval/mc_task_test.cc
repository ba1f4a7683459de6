#include "eval/mc_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "eval/testing.h"

namespace thermocline::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kOne =
    R"({"query": "One", "choices": ["a", "b"], "gold": 0})";
const std::string kTwo =
    R"({"query": "Two", "choices": ["c", "d", "e"], "gold": 2, "id": {"x": 1}})";

std::string ReadTestData(const std::string& name) {
  std::ifstream file(std::string(TC_TEST_DATA) + "/eval/" + name,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ParseMcTaskTest, KeepsLinesAndOrder) {
  const auto task = ParseMcTask(kOne + "\n" + kTwo + "\n", "dir/t.jsonl");
  ASSERT_TRUE(task.has_value()) << task.error().message;
  EXPECT_EQ(task->path, "dir/t.jsonl");
  EXPECT_EQ(task->schema, "query/choices/gold");
  ASSERT_EQ(task->items.size(), 2u);
  EXPECT_EQ(task->items[0].line, 1);
  EXPECT_EQ(task->items[1].line, 2);
  EXPECT_EQ(task->items[1].gold, 2u);
  EXPECT_THAT(task->items[1].continuations, ElementsAre(" c", " d", " e"));
}

TEST(ParseMcTaskTest, LineEndsBlankLinesAndByteOrderMark) {
  const auto task =
      ParseMcTask("\xEF\xBB\xBF\r\n" + kOne + "\r\n \t\n\n" + kTwo, "t.jsonl");
  ASSERT_TRUE(task.has_value()) << task.error().message;
  ASSERT_EQ(task->items.size(), 2u);
  EXPECT_EQ(task->items[0].line, 2);
  EXPECT_EQ(task->items[1].line, 5);
}

TEST(ParseMcTaskTest, StopsBehindTheLimit) {
  const std::string text = kOne + "\n" + kTwo + "\nnonsense";
  EXPECT_EQ(ParseMcTask(text, "t", 1)->items.size(), 1u);
  EXPECT_EQ(ParseMcTask(text, "t", 2)->items.size(), 2u);
  EXPECT_FALSE(ParseMcTask(text, "t", 3).has_value());
  EXPECT_EQ(ParseMcTask(kOne, "t", 3)->items.size(), 1u);
}

TEST(ParseMcTaskTest, EverySchemaHasAFile) {
  const std::pair<const char*, size_t> files[] = {
      {"query.jsonl", 6},
      {"context_options.jsonl", 4},
      {"premise_hypothesis.jsonl", 4},
      {"choice1_choice2.jsonl", 5},
      {"goal_sol1.jsonl", 3},
      {"sentence_option1.jsonl", 3},
      {"question_choices.jsonl", 3}};
  for (const auto& [name, num_items] : files) {
    const auto task = ParseMcTask(ReadTestData(name), name);
    ASSERT_TRUE(task.has_value()) << task.error().message;
    EXPECT_EQ(task->items.size(), num_items);
  }
}

TEST(ParseMcTaskTest, ErrorsNameFileLineAndCause) {
  const auto message = [](const std::string& second_line) {
    const auto task =
        ParseMcTask(kOne + "\n\n" + second_line + "\n", "t.jsonl");
    if (!task.has_value()) {
      EXPECT_EQ(task.error().code, ErrorCode::kCorrupt) << second_line;
      EXPECT_THAT(task.error().message, StartsWith("t.jsonl: line 3: "));
    }
    return MessageOf(task);
  };
  EXPECT_THAT(message("{\"query\""), HasSubstr("not valid JSON at byte 9"));
  EXPECT_THAT(message("["), HasSubstr("one record per line"));
  EXPECT_THAT(message("[]"), HasSubstr("array where a JSON object is needed"));
  EXPECT_THAT(message("7"), HasSubstr("number where a JSON object"));
  EXPECT_THAT(message(kOne + kTwo), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(message("{\"query\": \"\xFF\"}"), HasSubstr("at byte 12"));
  EXPECT_THAT(message("{\"query\": \"\\ud800\"}"), HasSubstr("at byte"));
  EXPECT_THAT(message("{\"gold\": 1e999}"), HasSubstr("number is too large"));
  EXPECT_THAT(message("\xEF\xBB\xBF" + kTwo), HasSubstr("byte order mark"));
  EXPECT_THAT(message(R"({"gold": 1, "gold": 0})"),
              HasSubstr("key \"gold\" twice"));
  EXPECT_THAT(message(R"({"query": "x"})"),
              HasSubstr("\"choices\" is missing"));
  EXPECT_THAT(message(R"({"premise": "x", "hypothesis": "y", "label": 0})"),
              HasSubstr("\"query\" is missing"));
}

TEST(ParseMcTaskTest, TheFirstRecordDecides) {
  const auto task = ParseMcTask("\n{\"prompt\": \"x\"}\n", "t.jsonl");
  ASSERT_FALSE(task.has_value());
  EXPECT_EQ(task.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(task.error().message,
              StartsWith("t.jsonl: line 2: a record of no known schema; its "
                         "fields are \"prompt\"; known are "));
}

TEST(ParseMcTaskTest, NoRecords) {
  for (const char* text : {"", "\n", "\xEF\xBB\xBF", " \r\n\n"}) {
    EXPECT_EQ(MessageOf(ParseMcTask(text, "t.jsonl")),
              "t.jsonl: no records: a task file has one JSON object per line");
  }
}

TEST(ParseMcTaskTest, DepthAndSizeAreLimited) {
  const auto with_field = [](const std::string& value) {
    return ParseMcTask(
        R"({"query": "One", "choices": ["a", "b"], "gold": 0, "more": )" +
            value + "}",
        "t");
  };
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(with_field(nested(kMaxMcJsonDepth - 1)).has_value());
  EXPECT_THAT(MessageOf(with_field(nested(kMaxMcJsonDepth))),
              HasSubstr("nested more than 16 deep"));
  EXPECT_THAT(MessageOf(with_field(std::string(500'000, '['))),
              HasSubstr("nested more than 16 deep"));
  const std::string long_text(kMaxMcLineBytes / 2, 'x');
  EXPECT_TRUE(with_field("\"" + long_text + "\"").has_value());
  EXPECT_THAT(MessageOf(with_field("\"" + long_text + long_text + "\"")),
              HasSubstr("bytes, more than 1048576"));
}

// A cut file has fewer records, or an error in its last line; never a record
// that is not whole.
TEST(ParseMcTaskTest, TruncatedAtEveryByte) {
  const std::string text = kOne + "\n" + kTwo + "\n" + kOne + "\n";
  for (size_t size = 0; size < text.size(); ++size) {
    const auto task = ParseMcTask(std::string_view(text).substr(0, size), "t");
    const size_t num_whole = size >= text.size() - 1            ? 3
                             : size > kOne.size() + kTwo.size() ? 2
                             : size >= kOne.size()              ? 1
                                                                : 0;
    if (task.has_value()) {
      EXPECT_EQ(task->items.size(), num_whole) << size;
    } else {
      EXPECT_EQ(task.error().code, ErrorCode::kCorrupt);
    }
  }
}

TEST(NumScoredBytesTest, WithoutTheSpaceInFront) {
  EXPECT_EQ(NumScoredBytes(" blue"), 4u);
  EXPECT_EQ(NumScoredBytes("\n é a "), 5u);
}

TEST(FormatExamplesTest, RightChoicesOneAfterTheOther) {
  const auto task = ParseMcTask(kOne + "\n" + kTwo, "t");
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(FormatExamples(*task), "One a\n\nTwo e\n\n");
  const auto options =
      ParseMcTask(ReadTestData("context_options.jsonl"), "t", 2);
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(
      FormatExamples(*options),
      "The dog chased the ball because the dog wanted to play.\n\n"
      "The dog chased the ball because the ball rolled down the hill.\n\n");
}

}  // namespace
}  // namespace thermocline::eval
