#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/test_model.h"
#include "neuron/trace.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TraceCommandTest : public ::testing::Test {
 protected:
  MainResult Record(const std::string& prompts,
                    std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"trace", "-m",  kBamboo, "-f", "-",
                                     "-o",    path_, "-t",    "1"};
    args.insert(args.end(), more.begin(), more.end());
    return RunMain(args, prompts);
  }
  nlohmann::json Stats() {
    const MainResult result = RunMain({"trace", "--stats", path_, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }

  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
};

TEST_F(TraceCommandTest, RecordsEveryPosition) {
  const MainResult made = Record("a b c\n\nd e\n", {"-n", "5"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("trace: all positions, dense"));
  EXPECT_THAT(made.out, HasSubstr("tokens of 2 prompts"));
  const auto stats = Stats();
  EXPECT_EQ(stats["prompts"], 2);
  EXPECT_EQ(stats["positions"], "all");
  EXPECT_LE(stats["generated"], 8);  // the fifth of each is not computed
  EXPECT_GT(stats["tokens"], stats["generated"]);
  EXPECT_GT(stats["density"], 0.0);
  const MainResult text = RunMain({"trace", "--stats", path_});
  EXPECT_THAT(text.out, HasSubstr("of 2 prompts"));
}

TEST_F(TraceCommandTest, LayersOfOtherWidthsHaveNone) {
  const std::string model =
      folder_.Write("m.gguf", model::TestUnlikeModel().Bytes());
  const MainResult result =
      RunMain({"trace", "-m", model, "-f", "-", "-o", path_}, "a\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("a trace has one number of neurons"));
}

// The only token that is generated is not computed.
TEST_F(TraceCommandTest, SaysThatNothingWasRecorded) {
  const MainResult made = Record("a b c\n", {"-n", "1", "--generated"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr(": nothing was recorded: "));
  EXPECT_THAT(RunMain({"trace", "--stats", path_}).out,
              HasSubstr(": nothing was recorded (generated positions)\n"));
  EXPECT_TRUE(Stats()["density"].is_null());
}

TEST_F(TraceCommandTest, RecordsGeneratedPositionsOnly) {
  ASSERT_EQ(Record("a b c\nd e\n", {"-n", "5"}).exit_code, 0);
  auto reader = neuron::TraceReader::Open(path_);
  ASSERT_TRUE(reader);
  std::vector<std::vector<std::vector<uint32_t>>> generated;
  neuron::TraceToken token;
  std::vector<std::vector<uint32_t>> sets;
  while (reader->Next(token, sets).value_or(false)) {
    if (token.is_generated) generated.push_back(sets);
  }
  ASSERT_FALSE(generated.empty());

  ASSERT_EQ(Record("a b c\nd e\n", {"-n", "5", "--generated"}).exit_code, 0);
  auto only = neuron::TraceReader::Open(path_);
  ASSERT_TRUE(only);
  EXPECT_EQ(only->header().positions, neuron::TracePositions::kGenerated);
  EXPECT_EQ(only->totals().num_tokens, generated.size());
  for (const auto& want : generated) {
    ASSERT_TRUE(only->Next(token, sets).value_or(false));
    EXPECT_TRUE(token.is_generated);
    EXPECT_EQ(sets, want);
  }
}

TEST_F(TraceCommandTest, JsonLinesAndALimit) {
  const std::string lines =
      "{\"turns\": [\"a b\", \"c\"]}\n{\"turns\": [\"d\"]}\n";
  ASSERT_EQ(Record(lines, {"-n", "2"}).exit_code, 0);
  EXPECT_EQ(Stats()["prompts"], 2);
  ASSERT_EQ(Record(lines, {"-n", "2", "--limit", "1"}).exit_code, 0);
  EXPECT_EQ(Stats()["prompts"], 1);
}

TEST_F(TraceCommandTest, RefusesToReplaceTheSplitFile) {
  const std::string split = folder_.Write("own.gpuidx", "split");
  const MainResult result = Record("a b\n", {"--split", split, "-o", split});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(split + ": is one of the files to read"));
  EXPECT_EQ(os::TestFolder::Read(split), "split");
}

TEST_F(TraceCommandTest, SaysWhatIsWrong) {
  EXPECT_THAT(Record("\n").err, HasSubstr("standard input: holds no prompt"));
  EXPECT_THAT(Record("x\n" + std::string(400, 'a') + "\n", {"-c", "32"}).err,
              HasSubstr("standard input: line 2: its "));
  EXPECT_EQ(os::TestFolder::Read(path_), "");  // nothing half-written
  const std::string text = folder_.Write("text", "no trace at all");
  EXPECT_THAT(RunMain({"trace", "--stats", text}).err,
              HasSubstr("is no trace"));
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{
           {"trace"},
           {"trace", "-m", kBamboo},
           {"trace", "-m", kBamboo, "-f", text},
           {"trace", "-m", kBamboo, "-f", text, "-o", path_, "--json"}}) {
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--stats"));
  }
}

TEST_F(TraceCommandTest, NamesALineWithoutTokensBeforeAnyWork) {
  gguf::TestFile file = model::TestModel();
  file.SetText("tokenizer.ggml.model", "gpt2")
      .SetTexts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "ab", "e"})
      .SetTexts("tokenizer.ggml.merges", {"a b"})
      .Remove("tokenizer.ggml.scores")
      .Remove("tokenizer.ggml.token_type");
  const std::string model = folder_.Write("m.gguf", file.Bytes());
  const MainResult result = RunMain(
      {"trace", "-m", model, "-f", "-", "-o", path_, "-t", "1"}, "ab\nz\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("standard input: line 2: has no tokens"));
  EXPECT_THAT(result.err, Not(HasSubstr("trace: ")));
}

TEST_F(TraceCommandTest, RefusesWhatHasNoEffectOnATraceThatIsShown) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"-m", kBamboo},
                                             {"-f", "x"},
                                             {"-o", "x"},
                                             {"-n", "5"},
                                             {"--limit", "1"},
                                             {"--generated"},
                                             {"--mlock"},
                                             {"-t", "1"}}) {
    std::vector<std::string> args = {"trace", "--stats", path_, "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(more[0]));
    EXPECT_THAT(result.err, HasSubstr("has no effect with --stats"));
  }
}

}  // namespace
}  // namespace thermocline::cli
