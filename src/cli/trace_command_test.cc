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

// Sections are the file and the line; blank lines count.
TEST_F(TraceCommandTest, NamesSections) {
  const std::string prompts = folder_.Write("p.txt", "a b c\n\nd e\n");
  ASSERT_EQ(RunMain({"trace", "-m", kBamboo, "-f", prompts, "-o", path_, "-t",
                     "1", "-n", "1"})
                .exit_code,
            0);
  auto reader = neuron::TraceReader::Open(path_).value();
  neuron::TraceToken token;
  neuron::TraceSets fired;
  std::vector<std::string> names;
  while (reader.Next(token, fired).value()) {
    if (token.begins_sequence) names.push_back(reader.section_name());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("p.txt:1", "p.txt:3"));
}

// The predictors of PowerInfer's files can be asked layers early.
TEST_F(TraceCommandTest, RecordsWhomPredictorsName) {
  const MainResult made =
      Record("a b c\nd e\n", {"-n", "5", "--candidates", "--lookahead", "0,2"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto stats = Stats();
  ASSERT_EQ(stats["named"].size(), 3u);
  EXPECT_TRUE(stats["named"][0]["lookahead"].is_null());
  EXPECT_EQ(stats["named"][1]["lookahead"], 0);
  EXPECT_EQ(stats["named"][2]["lookahead"], 2);
  // Its predictors read their own layer's input.
  EXPECT_EQ(stats["named"][0]["recall"], stats["named"][1]["recall"]);
  EXPECT_TRUE(stats["named"][2]["layers"][1]["recall"].is_null());
  const MainResult text = RunMain({"trace", "--stats", path_});
  EXPECT_THAT(text.out, HasSubstr("\ncandidates "));
  EXPECT_THAT(text.out, HasSubstr("\n2 layers early "));
}

TEST_F(TraceCommandTest, RecordsExpertsOfMixtures) {
  const std::string model =
      std::string(TC_TEST_DATA) + "/golden/mixtral-8x2-f16.gguf";
  const MainResult made = RunMain(
      {"trace", "-m", model, "-f", "-", "-o", path_, "-t", "1", "-n", "3"},
      "a b c\n");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto stats = Stats();
  EXPECT_EQ(stats["num_experts"], 8);
  EXPECT_EQ(stats["experts"]["per_token"], 2.0);
  EXPECT_THAT(RunMain({"trace", "--stats", path_}).out,
              HasSubstr("experts: 2.00 of 8 used per token and layer"));
  const MainResult ahead = RunMain(
      {"trace", "-m", model, "-f", "-", "-o", path_, "--lookahead", "1"},
      "a b c\n");
  EXPECT_EQ(ahead.exit_code, 1);
  EXPECT_THAT(ahead.err, HasSubstr("nobody is named layers early"));
}

TEST_F(TraceCommandTest, DrawsAPage) {
  ASSERT_EQ(Record("a b c\nd e\n", {"-n", "5"}).exit_code, 0);
  const std::string page = folder_ / "m.html";
  const MainResult shown = RunMain({"trace", "--stats", path_, "--html", page});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.err, HasSubstr("wrote " + page));
  EXPECT_THAT(shown.out, HasSubstr("of 2 prompts"));
  EXPECT_THAT(os::TestFolder::Read(page), HasSubstr("<!DOCTYPE html>"));
  const MainResult over = RunMain({"trace", "--stats", path_, "--html", path_});
  EXPECT_EQ(over.exit_code, 1);
  EXPECT_THAT(over.err, HasSubstr("is one of the files to read"));
}

TEST_F(TraceCommandTest, SaysThatThereAreNoPredictors) {
  const std::string model =
      std::string(TC_TEST_DATA) + "/golden/llama-gqa-f16.gguf";
  const MainResult result = RunMain(
      {"trace", "-m", model, "-f", "-", "-o", path_, "--lookahead", "1"},
      "a b\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("brings no predictors"));
  EXPECT_EQ(os::TestFolder::Read(path_), "");
  EXPECT_EQ(Record("a\n", {"--lookahead", "4"}).exit_code, 2);
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
           {"trace", "-m", kBamboo, "-f", text, "-o", path_, "--json"},
           {"trace", "-m", kBamboo, "-f", text, "-o", path_, "--html", "x"}}) {
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
                                             {"--candidates"},
                                             {"--lookahead", "1"},
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
