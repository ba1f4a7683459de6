#include "cli/storage_uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/profile_file.h"
#include "neuron/trace.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

class StorageUses : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    path_ = new std::string(TempPath("uses.gguf"));
    const MainResult synth =
        RunMain({"synth", "--like", "tiny", "--for-storage", "-o", *path_});
    ASSERT_EQ(synth.exit_code, 0) << synth.err;
  }
  static void TearDownTestSuite() {
    std::remove(path_->c_str());
    delete path_;
  }
  static std::shared_ptr<const model::Model> Open() {
    return model::Model::Open(*path_).value();
  }
  static double Misses(const std::vector<planner::TokenUse>& uses) {
    double sum = 0.0;
    for (const auto& token : uses) {
      for (const auto& layer : token) sum += layer.num_missed;
    }
    return sum / static_cast<double>(uses.size());
  }
  static const std::string& path() { return *path_; }

 private:
  inline static std::string* path_ = nullptr;
};

// P_miss falls with m, to nothing.
TEST_F(StorageUses, MoreSlotsMissLess) {
  const auto model = Open();
  const auto uses = UsesOf(*model, {});
  ASSERT_TRUE(uses.has_value()) << uses.error().message;
  EXPECT_THAT(uses->source, HasSubstr("drawn from the counts in " + path()));
  const uint32_t width = uses->num_units[0];
  for (const char* policy : {"slow", "lru", "static", "two-queue"}) {
    double before = 1e9;
    for (uint32_t eighths = 0; eighths <= 8; ++eighths) {
      const std::vector<uint32_t> capacity(uses->num_units.size(),
                                           width * eighths / 8);
      const auto replay =
          ReplayUses(*uses, policy, capacity, ReadsOfRecords(4096, true));
      ASSERT_TRUE(replay.has_value());
      EXPECT_EQ(replay->size(), uses->tokens.size() - uses->num_warm);
      const double misses = Misses(*replay);
      EXPECT_LE(misses, 1.02 * before) << policy << " " << eighths;
      before = misses;
    }
    EXPECT_EQ(before, 0.0) << policy;
  }
}

// As many are asked for as the predictor's candidates, and stay as the profile
// says.
TEST_F(StorageUses, DrawsWhatTheProfileSays) {
  const auto model = Open();
  const auto profile = model::ReadProfile(model->file()).value().profile;
  const auto uses = UsesOf(*model, {.used_per_fired = 1.6}).value();
  double used = 0.0, all = 0.0, both = 0.0, before = 0.0;
  for (size_t t = 0; t < uses.tokens.size(); ++t) {
    for (size_t l = 0; l < uses.num_units.size(); ++l) {
      used += static_cast<double>(uses.tokens[t][l].size());
      all += uses.num_units[l];
      if (t == 0) continue;
      both += static_cast<double>(
          neuron::CountBoth(uses.tokens[t][l], uses.tokens[t - 1][l]));
      before += static_cast<double>(uses.tokens[t][l].size());
    }
  }
  EXPECT_NEAR(used / all, 1.6 * profile.density(), 0.1 * profile.density());
  EXPECT_GT(both / before, *profile.locality() - 0.05);
}

// Whole experts, all their neurons, or those that fire and are named besides.
TEST(StorageUsesTest, MixturesAreDrawnByExpertsAndByNeurons) {
  const std::string path = TempPath("uses-moe.gguf");
  const MainResult synth =
      RunMain({"synth", "--like", "tiny-moe", "--for-storage", "-o", path});
  ASSERT_EQ(synth.exit_code, 0) << synth.err;
  const auto model = model::Model::Open(path).value();
  const model::FfnSpec& ffn = model::CommonFfn(model->config());
  const double density =
      model::ReadProfile(model->file()).value().profile.density();
  const auto all = static_cast<double>(NumNeurons(ffn));
  const auto used = static_cast<double>(ffn.num_experts_used);
  const struct {
    UseOptions options;
    double per_layer;  // units of a token
  } rows[] = {{{.by_experts = true}, used},
              {{.used_per_fired = 0.0}, used * static_cast<double>(ffn.width)},
              {{.used_per_fired = 1.6}, 1.6 * density * all}};
  for (const auto& row : rows) {
    const UnitUses uses = UsesOf(*model, row.options).value();
    double num_used = 0.0;
    for (const auto& token : uses.tokens) {
      for (const auto& layer : token) {
        num_used += static_cast<double>(layer.size());
        EXPECT_TRUE(std::ranges::is_sorted(layer));
      }
    }
    const double mean = num_used / static_cast<double>(uses.tokens.size() *
                                                       uses.num_units.size());
    EXPECT_NEAR(mean, row.per_layer, 0.15 * row.per_layer);
    EXPECT_EQ(uses.num_units[0],
              row.options.by_experts ? ffn.num_experts : NumNeurons(ffn));
  }
  std::remove(path.c_str());
}

TEST_F(StorageUses, NeighboursAreReadTogether) {
  UnitUses uses = {.num_units = {100},
                   .frequency = {{}},
                   .tokens = {{{0, 1, 2, 7, 50, 51, 99}}},
                   .source = "a test"};
  struct Row {
    ReadShape shape;
    uint32_t num_reads;
    uint64_t num_bytes;
  };
  for (const Row& row :
       {Row{ReadsOfRecords(4096, false), 7, 7 * 4096},
        Row{ReadsOfRecords(4096, true), 4, 7 * 4096},
        Row{{.unit_bytes = 1000, .most_bytes = 64000, .gap_bytes = 4000},
            3,
            (8 + 2 + 1) * 1000},
        Row{{.unit_bytes = 1000, .most_bytes = 2000, .gap_bytes = 4000},
            5,
            7 * 1000},
        Row{{.unit_bytes = 3000, .reads_per_unit = 3}, 21, 7 * 3000}}) {
    const auto replay = ReplayUses(uses, "lru", {0}, row.shape);
    ASSERT_TRUE(replay.has_value());
    EXPECT_EQ(replay->front()[0].num_missed, 7u);
    EXPECT_EQ(replay->front()[0].num_reads, row.num_reads);
    EXPECT_EQ(replay->front()[0].read_bytes, row.num_bytes);
  }
}

// Of a prompt's token and generated ones, each with its number and 50.
void WriteTrace(const std::string& path, const neuron::TraceHeader& header,
                int num_tokens) {
  const auto writer = neuron::TraceWriter::Create(path, header).value();
  for (int t = 0; t < num_tokens; ++t) {
    const neuron::TraceToken token = {.begins_sequence = t == 0,
                                      .is_generated = t > 0};
    writer->AddTokens({&token, 1});
    for (uint32_t l = 0; l < header.num_layers; ++l) {
      writer->AddSet(l, std::vector<uint32_t>{static_cast<uint32_t>(t), 50});
    }
  }
  ASSERT_TRUE(writer->Flush().has_value());
  ASSERT_TRUE(writer->Finish().has_value());
}

TEST_F(StorageUses, TakesATraceOfTheModelAlone) {
  const auto model = Open();
  const model::ModelFingerprint mine = model::FingerprintOf(*model);
  const std::string trace = TempPath("uses.trace");
  const neuron::TraceHeader good = {
      .num_layers = static_cast<uint32_t>(mine.num_layers),
      .num_neurons = static_cast<uint32_t>(mine.ffn_width),
      .model_hash = mine.hash};
  WriteTrace(trace, good, 10);
  const auto uses =
      UsesOf(*model, {.trace_path = trace, .used_per_fired = 1.0});
  ASSERT_TRUE(uses.has_value()) << uses.error().message;
  EXPECT_EQ(uses->tokens.size(), 9u);
  EXPECT_EQ(uses->tokens[0][0], (std::vector<uint32_t>{1, 50}));
  EXPECT_THAT(uses->source, HasSubstr("9 tokens"));
  const auto message_of = [&] {
    const auto refused = UsesOf(*model, {.trace_path = trace});
    return refused ? std::string("taken") : refused.error().message;
  };
  WriteTrace(trace, good, 0);
  EXPECT_THAT(message_of(), HasSubstr("too few to see"));
  neuron::TraceHeader other = good;
  other.num_neurons += 1;
  WriteTrace(trace, other, 10);
  EXPECT_THAT(message_of(), HasSubstr("is a trace of another model"));
  other = good;
  other.model_hash ^= 1;
  WriteTrace(trace, other, 10);
  EXPECT_THAT(message_of(),
              HasSubstr("and of other norms or neurons' numbers"));
  std::remove(trace.c_str());
  EXPECT_THAT(message_of(), HasSubstr(trace));
}

TEST_F(StorageUses, WithoutAPredictorAllAreAskedFor) {
  const auto model = Open();
  const auto uses = UsesOf(*model, {.used_per_fired = 0.0}).value();
  EXPECT_EQ(uses.tokens[0][0].size(), uses.num_units[0]);
  const std::vector<uint32_t> capacity(uses.num_units.size(),
                                       uses.num_units[0] / 2);
  const auto replay =
      ReplayUses(uses, "slow", capacity, ReadsOfRecords(4096, true)).value();
  EXPECT_NEAR(replay.back()[0].num_missed, uses.num_units[0] / 2, 1);
}

}  // namespace
}  // namespace thermocline::cli
