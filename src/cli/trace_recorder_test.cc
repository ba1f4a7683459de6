#include "cli/trace_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cli/test_files.h"
#include "engine/session.h"
#include "model/profile_file.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using engine::FfnObservation;
using neuron::TraceSets;
using ::testing::ElementsAre;

using ModelPtr = std::shared_ptr<const model::Model>;
using Set = std::vector<uint32_t>;

constexpr int64_t kPrompt = 5;
constexpr int64_t kPositions = 8;

class TraceRecorderTest : public ::testing::Test {
 protected:
  static ModelPtr Open(const std::string& path) {
    auto model = model::Model::Open(path);
    EXPECT_TRUE(model) << model.error().message;
    return *model;
  }

  neuron::TraceHeader HeaderOf(const model::Model& model) const {
    const model::ModelFingerprint print = model::FingerprintOf(model);
    return {.num_layers = static_cast<uint32_t>(print.num_layers),
            .num_neurons =
                static_cast<uint32_t>(model::NeuronsPerLayer(model.config())),
            .num_experts = static_cast<uint32_t>(print.num_experts)};
  }

  // Records two prompts of five tokens, three at once, and of each three tokens
  // that are generated. `also` sees what the recorder sees, prompt by prompt.
  void Record(
      const ModelPtr& model, const neuron::TraceHeader& header,
      const std::function<void(size_t prompt, const FfnObservation&)>& also) {
    std::unique_ptr<engine::PredictorProbe> probe;
    if (header.has_candidates || header.lookaheads != 0) {
      probe = engine::PredictorProbe::Create(model, kernels::BestIsa()).value();
    }
    auto writer = neuron::TraceWriter::Create(path_, header).value();
    TraceRecorder recorder(writer.get(), header, probe.get(), 3);
    size_t prompt = 0;
    engine::SessionOptions options = {
        .context = 16, .num_threads = 2, .batch = 3};
    options.ffn = engine::FfnMode::kDense;
    options.observer = [&](const FfnObservation& seen) {
      recorder.See(seen);
      if (also) also(prompt, seen);
    };
    auto session = engine::Session::Create(model, options).value();
    for (; prompt < 2; ++prompt) {
      session->Truncate(0);
      recorder.BeginPrompt(kPrompt, "a:" + std::to_string(prompt));
      std::vector<text::TokenId> tokens(kPrompt);
      for (size_t t = 0; t < tokens.size(); ++t) {
        tokens[t] = static_cast<text::TokenId>(3 + prompt * 7 + t);
      }
      ASSERT_TRUE(session->Prompt(tokens, engine::LogitsOf::kNone, {}));
      while (session->position() < kPositions) {
        ASSERT_TRUE(session->Generate(std::span(tokens).first(1),
                                      engine::LogitsOf::kNone, {}));
      }
      recorder.Flush();
      ASSERT_TRUE(recorder.status()) << recorder.status().error().message;
    }
    ASSERT_TRUE(writer->Finish());
  }

  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
};

// What a token was seen to have, as a TraceReader gives it.
struct Want {
  TraceSets fired, candidates;
  std::array<TraceSets, 4> named;
};

// Adds what layers from this one on are named by.
void AskAll(engine::PredictorProbe& probe, const FfnObservation& seen,
            std::span<const size_t> lookaheads, Want& want) {
  const size_t l = seen.layer_idx;
  want.fired[l].assign(seen.fired.begin(), seen.fired.end());
  for (const size_t k : lookaheads) {
    if (l + k >= want.fired.size()) continue;
    const auto named = probe.Ask(seen, l + k).value();
    want.named[k][l + k].assign(named.begin(), named.end());
    if (k == 0) want.candidates[l] = want.named[k][l];
  }
}

// What a predictor named layers early is what it says when it is asked then.
TEST_F(TraceRecorderTest, NamesWhatPredictorsSayThen) {
  constexpr size_t kLookaheads[] = {0, 1, 3};
  const ModelPtr model = Open(kBamboo);
  neuron::TraceHeader header = HeaderOf(*model);
  header.has_candidates = true;
  header.lookaheads = 0b1011;
  auto probe =
      engine::PredictorProbe::Create(model, kernels::BestIsa()).value();
  const TraceSets none(header.num_layers);
  std::vector<Want> wants(2 * kPositions, {none, none, {none, none, {}, none}});
  Record(model, header, [&](size_t prompt, const FfnObservation& seen) {
    AskAll(*probe, seen, kLookaheads,
           wants[prompt * kPositions + static_cast<size_t>(seen.position)]);
  });
  auto reader = neuron::TraceReader::Open(path_).value();
  neuron::TraceToken token;
  TraceSets fired;
  for (size_t i = 0; i < wants.size(); ++i) {
    ASSERT_TRUE(reader.Next(token, fired).value());
    EXPECT_EQ(token.begins_sequence, i % kPositions == 0);
    EXPECT_EQ(token.is_generated, i % kPositions >= kPrompt);
    EXPECT_EQ(reader.section_name(), i < kPositions ? "a:0" : "a:1");
    EXPECT_EQ(fired, wants[i].fired);
    EXPECT_EQ(reader.candidates(), wants[i].candidates);
    for (uint32_t k = 0; k < wants[i].named.size(); ++k) {
      EXPECT_EQ(reader.named(k), wants[i].named[k]) << k;
    }
  }
  EXPECT_FALSE(reader.Next(token, fired).value());
}

// Of a mixture, also experts in which nothing fires.
TEST_F(TraceRecorderTest, ExpertsThatAreUsed) {
  const ModelPtr model =
      Open(std::string(TC_TEST_DATA) + "/golden/mixtral-8x2-f16.gguf");
  const neuron::TraceHeader header = HeaderOf(*model);
  ASSERT_GT(header.num_experts, 0u);
  const size_t num_layers = model->config().num_layers;
  std::vector<TraceSets> wants(2 * kPositions, TraceSets(num_layers));
  Record(model, header, [&](size_t prompt, const FfnObservation& seen) {
    Set& experts = wants[prompt * kPositions +
                         static_cast<size_t>(seen.position)][seen.layer_idx];
    experts.assign(seen.experts.begin(), seen.experts.end());
    std::ranges::sort(experts);
  });
  auto reader = neuron::TraceReader::Open(path_).value();
  neuron::TraceToken token;
  TraceSets fired;
  for (const TraceSets& want : wants) {
    ASSERT_TRUE(reader.Next(token, fired).value());
    EXPECT_EQ(reader.experts(), want);
  }
}

TEST_F(TraceRecorderTest, GeneratedPositionsAlone) {
  const ModelPtr model = Open(kBamboo);
  neuron::TraceHeader header = HeaderOf(*model);
  header.positions = neuron::TracePositions::kGenerated;
  Record(model, header, {});
  auto reader = neuron::TraceReader::Open(path_).value();
  EXPECT_EQ(reader.totals().num_tokens,
            2u * static_cast<size_t>(kPositions - kPrompt));
  neuron::TraceToken token;
  TraceSets fired;
  std::vector<bool> begins;
  while (reader.Next(token, fired).value()) {
    begins.push_back(token.begins_sequence);
    EXPECT_TRUE(token.is_generated);
  }
  EXPECT_THAT(begins, ElementsAre(true, false, false, true, false, false));
}

// Which of a prompt are computed together, and whose gates the session reads.
TEST_F(TraceRecorderTest, WhatARunDoesItself) {
  const ModelPtr model = Open(kBamboo);
  neuron::TraceHeader header = HeaderOf(*model);
  header.run =
      neuron::TraceRun{.slots = std::vector<uint32_t>(header.num_layers, 1)};
  header.has_candidates = true;
  auto writer = neuron::TraceWriter::Create(path_, header).value();
  TraceRecorder recorder(writer.get(), header, nullptr, 3);
  recorder.BeginPrompt(5, "");
  const Set candidates = {1, 4, 7}, fired = {4};
  // Five of a prompt, three at once, and two more.
  for (const auto& [first, last] : {std::pair(0, 3), {3, 5}, {5, 6}, {6, 7}}) {
    for (size_t l = 0; l < header.num_layers; ++l) {
      for (int64_t position = first; position < last; ++position) {
        recorder.See({.layer_idx = l,
                      .position = position,
                      .candidates = candidates,
                      .fired = fired});
      }
    }
  }
  recorder.Flush();
  ASSERT_TRUE(recorder.status());
  ASSERT_TRUE(writer->Finish());
  auto reader = neuron::TraceReader::Open(path_).value();
  neuron::TraceToken token;
  TraceSets sets;
  std::vector<bool> together;
  while (reader.Next(token, sets).value()) {
    together.push_back(token.is_together);
    EXPECT_EQ(reader.candidates(), TraceSets(header.num_layers, candidates));
    EXPECT_EQ(sets, TraceSets(header.num_layers, fired));
  }
  EXPECT_THAT(together,
              ElementsAre(false, true, true, false, true, false, false));
}

// An error of a predictor ends it, without a word of it in the file.
TEST_F(TraceRecorderTest, StopsAtAnError) {
  const ModelPtr model = Open(kBamboo);
  neuron::TraceHeader header = HeaderOf(*model);
  header.lookaheads = 1;
  auto probe =
      engine::PredictorProbe::Create(model, kernels::BestIsa()).value();
  auto writer = neuron::TraceWriter::Create(path_, header).value();
  TraceRecorder recorder(writer.get(), header, probe.get(), 3);
  recorder.BeginPrompt(1, std::string(neuron::kMaxTraceSection + 9, 'x'));
  const std::vector<float> bad(model->config().width, NAN);
  for (size_t l = 0; l < header.num_layers; ++l) {
    recorder.See({.layer_idx = l, .input = bad, .stream = bad});
  }
  recorder.Flush();
  ASSERT_FALSE(recorder.status());
  EXPECT_THAT(recorder.status().error().message,
              ::testing::HasSubstr("layer 0"));
}

}  // namespace
}  // namespace thermocline::cli
