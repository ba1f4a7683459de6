#include "bench/sequence_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/workload.h"
#include "engine/session.h"
#include "model/weight_bytes.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const model::Model> OpenForSequences(const std::string& name) {
  auto model = model::Model::Open(std::string(TC_TEST_DATA) + "/" + name);
  if (!model.has_value()) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  return *model;
}

constexpr char kDense[] = "golden/llama-gqa-Q4_0.gguf";
constexpr char kRelu[] = "golden-powerinfer/llama-f16.powerinfer.gguf";

SequenceBenchOptions FewSequences() {
  SequenceBenchOptions options;
  options.num_sequences = {1, 3};
  options.tests = {{.num_prompt = 5, .num_generate = 3}};
  options.threads = {1};
  options.repetitions = 2;
  return options;
}

TEST(RunSequenceBenchTest, GivesARowPerNumberAndThreadCount) {
  const auto model = OpenForSequences(kDense);
  ASSERT_NE(model, nullptr);
  SequenceBenchOptions options = FewSequences();
  options.threads = {1, 2};
  uint64_t last_done = 0;
  options.progress = [&](std::string_view, uint64_t done, uint64_t total) {
    EXPECT_GT(done, last_done);
    // Per thread count three sequences alone, and (1 + 3) x 3 x (1 + 2).
    EXPECT_EQ(total, 2u * (3 * 8 + 36));
    last_done = done;
  };
  const auto report = RunSequenceBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(last_done, 120u);
  EXPECT_EQ(report->subject.ffn, "dense");
  ASSERT_EQ(report->rows.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const SequenceRow& row = report->rows[i];
    const uint64_t num_rows = i % 2 == 0 ? 1 : 3;
    EXPECT_EQ(row.num_threads, i < 2 ? 1 : 2);
    EXPECT_EQ(row.num_sequences, static_cast<int64_t>(num_rows));
    EXPECT_EQ(row.num_passes, 3);
    EXPECT_EQ(row.samples_ns.size(), 2u);
    EXPECT_LE(row.num_dropped, 2);
    EXPECT_NEAR(static_cast<double>(row.samples_ns[0]) * row.tokens_per_s[0],
                1e9 * 3 * static_cast<double>(num_rows), row.tokens_per_s[0]);
    EXPECT_DOUBLE_EQ(row.pass_ns() * row.median / 1e9,
                     static_cast<double>(num_rows));
    // Weights once per pass; of each its own 6, 7 and 8 positions.
    EXPECT_EQ(
        row.weight_bytes_per_pass,
        engine::WeightBytesPerBatch(*model, engine::FfnMode::kDense,
                                    engine::PredictorChoice::kNone, num_rows));
    EXPECT_EQ(row.kv_bytes_per_token,
              engine::KvBytesPerToken(model->config(), options.session, 6));
    EXPECT_EQ(row.bytes_per_token,
              row.weight_bytes_per_pass / num_rows + row.kv_bytes_per_token);
    EXPECT_NEAR(row.gb_per_s,
                row.median * static_cast<double>(row.bytes_per_token) / 1e9,
                1e-9 * row.gb_per_s);
    EXPECT_GT(row.roof_gb_per_s, 0.0);
    EXPECT_FALSE(row.is_sparse || row.bytes_are_bound);
    EXPECT_EQ(row.union_open_share, 0.0);
  }
}

// Neurons of a pass by layer and position, as sessions of one sequence see
// them.
struct Seen {
  using Neurons = std::map<std::pair<int64_t, int64_t>, std::set<uint32_t>>;
  Neurons candidates, open;
  size_t num_candidates = 0, num_open = 0;
};

Seen SeenAlone(const std::shared_ptr<const model::Model>& model,
               const SequenceBenchOptions& bench, int64_t num_sequences) {
  Seen seen;
  const PromptTest& test = bench.tests[0];
  engine::SessionOptions options = bench.session;
  options.context = test.num_prompt + test.num_generate;
  options.observer = [&](const engine::FfnObservation& at) {
    if (at.position < test.num_prompt) return;
    const std::pair place(at.layer_idx, at.position);
    seen.candidates[place].insert(at.candidates.begin(), at.candidates.end());
    seen.open[place].insert(at.fired.begin(), at.fired.end());
    seen.num_candidates += at.candidates.size();
    seen.num_open += at.fired.size();
  };
  for (int64_t i = 0; i < num_sequences; ++i) {
    const auto ids = FixedTokens(options.context, model->config().vocab_size,
                                 i * options.context);
    const auto session = engine::Session::Create(model, options);
    EXPECT_TRUE(session.has_value()) << session.error().message;
    const auto prompt =
        std::span(ids).first(static_cast<size_t>(test.num_prompt));
    EXPECT_TRUE((*session)->Prompt(prompt, engine::LogitsOf::kNone, {}));
    for (size_t j = prompt.size(); j < ids.size(); ++j) {
      EXPECT_TRUE((*session)->Generate(std::span(ids).subspan(j, 1),
                                       engine::LogitsOf::kNone, {}));
    }
  }
  return seen;
}

double NumIn(const Seen::Neurons& sets) {
  size_t count = 0;
  for (const auto& [place, set] : sets) count += set.size();
  return static_cast<double>(count);
}

// What was seen of each alone, united by hand.
TEST(RunSequenceBenchTest, CountsWhatFiresForAnyAndForEach) {
  const auto model = OpenForSequences(kRelu);
  ASSERT_NE(model, nullptr);
  const SequenceBenchOptions options = FewSequences();
  const auto report = RunSequenceBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->subject.ffn, "fast");
  for (const SequenceRow& row : report->rows) {
    const Seen seen = SeenAlone(model, options, row.num_sequences);
    const auto num_neurons =
        static_cast<double>(model->config().layers[0].ffn.width *
                            model->config().num_layers) *
        static_cast<double>(row.num_passes);
    const double num_of_all =
        num_neurons * static_cast<double>(row.num_sequences);
    EXPECT_TRUE(row.is_sparse);
    EXPECT_NEAR(row.candidate_share,
                static_cast<double>(seen.num_candidates) / num_of_all, 1e-12);
    EXPECT_NEAR(row.open_share, static_cast<double>(seen.num_open) / num_of_all,
                1e-12);
    EXPECT_NEAR(row.union_candidate_share, NumIn(seen.candidates) / num_neurons,
                1e-12);
    EXPECT_NEAR(row.union_open_share, NumIn(seen.open) / num_neurons, 1e-12);
  }
  const SequenceRow& one = report->rows[0];
  const SequenceRow& three = report->rows[1];
  EXPECT_EQ(one.union_open_share, one.open_share);
  EXPECT_GT(three.union_open_share, 1.2 * three.open_share);
  EXPECT_LT(three.weight_bytes_per_pass,
            engine::WeightBytesPerBatch(*model, engine::FfnMode::kFast,
                                        engine::PredictorChoice::kTrained, 3));
  EXPECT_LT(one.weight_bytes_per_pass, three.weight_bytes_per_pass);
  EXPECT_LT(three.bytes_per_token, one.bytes_per_token);
}

// The same prompt fires the same neurons: a pass of three reads what one does.
TEST(RunSequenceBenchTest, SequencesOfOnePromptReadNoMoreThanOne) {
  const auto model = OpenForSequences(kRelu);
  ASSERT_NE(model, nullptr);
  SequenceBenchOptions options = FewSequences();
  options.prompts = {{1, {1, 40, 50}}};
  options.tests = {{.num_prompt = 0, .num_generate = 4}};
  const auto report = RunSequenceBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->num_given, 1u);
  const SequenceRow& one = report->rows[0];
  const SequenceRow& three = report->rows[1];
  EXPECT_EQ(three.test.name(), "prompts+tg4");
  EXPECT_EQ(three.num_passes, 3);
  EXPECT_EQ(three.num_prompts, 1u);
  EXPECT_DOUBLE_EQ(three.mean_prompt, 3.0);
  EXPECT_EQ(three.union_open_share, three.open_share);
  EXPECT_EQ(three.union_open_share, one.open_share);
  const model::Weights& weights = model->weights();
  EXPECT_EQ(three.weight_bytes_per_pass - model::FixedWeightBytes(weights, 3),
            one.weight_bytes_per_pass - model::FixedWeightBytes(weights, 1));
}

// Which experts three tokens choose, a dense pass does not say.
TEST(RunSequenceBenchTest, KnowsTheBytesOfExpertsAtMost) {
  const auto model = OpenForSequences("golden/mixtral-8x2-f16.gguf");
  ASSERT_NE(model, nullptr);
  SequenceBenchOptions options = FewSequences();
  options.repetitions = 1;
  options.tests[0].num_generate = 1;
  const auto report = RunSequenceBench(model, options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_FALSE(report->rows[0].bytes_are_bound);
  EXPECT_TRUE(report->rows[1].bytes_are_bound);
}

TEST(RunSequenceBenchTest, RefusesWhatCannotRun) {
  const auto model = OpenForSequences(kDense);
  ASSERT_NE(model, nullptr);
  const int64_t context = model->config().context_length;
  const struct {
    const char* message;
    ErrorCode code;
    std::function<void(SequenceBenchOptions&)> spoil;
  } cases[] = {
      {"-np 0: there is at least one", ErrorCode::kInvalidArgument,
       [](auto& o) { o.num_sequences = {1, 0}; }},
      {"-np 3: no more than 2 tokens", ErrorCode::kInvalidArgument,
       [](auto& o) { o.session.batch = 2; }},
      {"0 repetitions", ErrorCode::kInvalidArgument,
       [](auto& o) { o.repetitions = 0; }},
      {"0 numbers", ErrorCode::kInvalidArgument,
       [](auto& o) { o.num_sequences = {}; }},
      {"0 tokens generated", ErrorCode::kInvalidArgument,
       [](auto& o) { o.tests[0].num_generate = 0; }},
      {"give a smaller -p or -n", ErrorCode::kInvalidArgument,
       [=](auto& o) { o.tests[0].num_generate = context; }},
      {"no prompt is long enough", ErrorCode::kInvalidArgument,
       [](auto& o) { o.prompts = {{1, {1, 2}}}; }},
      {"a budget of", ErrorCode::kResourceExhausted,
       [](auto& o) { o.session.budget.ram = 1000; }},
  };
  for (const auto& c : cases) {
    SequenceBenchOptions options = FewSequences();
    c.spoil(options);
    const auto report = RunSequenceBench(model, options);
    ASSERT_FALSE(report.has_value()) << c.message;
    EXPECT_EQ(report.error().code, c.code) << c.message;
    EXPECT_THAT(report.error().message, HasSubstr(c.message));
  }
}

TEST(SequenceSessionTest, HoldsTheLargestTest) {
  const auto model = OpenForSequences(kDense);
  ASSERT_NE(model, nullptr);
  SequenceBenchOptions options = FewSequences();
  options.threads = {2, 1};
  options.tests.push_back({.num_prompt = 1, .num_generate = 20});
  const auto session = SequenceSession(*model, options);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  EXPECT_EQ(session->num_sequences, 3);
  EXPECT_EQ(session->num_threads, 2);
  EXPECT_EQ(session->context, 21);
}

}  // namespace
}  // namespace thermocline::bench
