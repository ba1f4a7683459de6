#include "cli/run_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "model/model.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

class RunTraceTest : public ::testing::Test {
 protected:
  // A prompt of five tokens, two at once, and two more.
  Result<std::string> Run(engine::FfnMode mode, const std::string& path) {
    const auto model = model::Model::Open(kBamboo).value();
    engine::SessionOptions options = {
        .context = 16, .num_threads = 2, .batch = 2, .ffn = mode};
    RunTrace trace;
    EXPECT_TRUE(trace.is_well());
    options.observer = trace.observer();
    const auto session = engine::Session::Create(model, options).value();
    TC_RETURN_IF_ERROR(trace.Begin(path, *session, options, 5));
    const std::vector<text::TokenId> tokens = {3, 7, 11, 5, 4};
    TC_RETURN_IF_ERROR(session->Prompt(tokens, engine::LogitsOf::kNone, {}));
    for (int i = 0; i < 2; ++i) {
      TC_RETURN_IF_ERROR(session->Generate(std::span(tokens).first(1),
                                           engine::LogitsOf::kNone, {}));
    }
    EXPECT_TRUE(trace.is_well());
    return trace.Finish(*session);
  }

  os::TestFolder folder_;
};

// Of a model that memory holds there is no policy to tell of; runs of those
// that it does not hold: tests/cli_run_trace_test.py.
TEST_F(RunTraceTest, HasWhatTheSessionReads) {
  const std::string path = folder_ / "m.trace";
  for (const auto mode : {engine::FfnMode::kFast, engine::FfnMode::kDense}) {
    const auto said = Run(mode, path);
    ASSERT_TRUE(said) << said.error().message;
    EXPECT_THAT(*said, ::testing::EndsWith("m.trace: 7 tokens\n"));
    auto reader = neuron::TraceReader::Open(path).value();
    EXPECT_FALSE(reader.header().run.has_value());
    const bool is_fast = mode == engine::FfnMode::kFast;
    EXPECT_EQ(reader.header().has_candidates, is_fast);
    neuron::TraceToken token;
    neuron::TraceSets fired;
    uint64_t num_fired = 0, num_candidates = 0;
    while (reader.Next(token, fired).value()) {
      EXPECT_FALSE(token.is_together);
      for (size_t l = 0; l < fired.size(); ++l) {
        num_fired += fired[l].size();
        if (is_fast) num_candidates += reader.candidates()[l].size();
      }
    }
    EXPECT_GT(num_fired, 0u);
    if (is_fast) EXPECT_GT(num_candidates, num_fired);
  }
}

TEST_F(RunTraceTest, AFileThatCannotBeIsAnError) {
  const auto said = Run(engine::FfnMode::kDense, folder_ / "no/m.trace");
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("no/m.trace"));
}

TEST(DescribePolicyCountsTest, NamesEach) {
  EXPECT_EQ(DescribePolicyCounts(1, 2, 3, 4, 5),
            "1 of 2 hits, 3 admitted, 4 moved, 5 wasted");
}

}  // namespace
}  // namespace thermocline::cli
