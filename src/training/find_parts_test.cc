#include "training/find_parts.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/units.h"
#include "training/fit_plan.h"
#include "training/layer_fit.h"
#include "training/neuron_order.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FindPartsTest : public ::testing::Test {
 protected:
  FindPartsTest() {
    path_ = ::testing::TempDir() + "/find-" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(path_);
    options_.corpus_name = "valid.txt";
    options_.session = {.num_threads = 2};
    options_.num_steps = 20;
  }
  ~FindPartsTest() override { fs::remove_all(path_); }

  Result<Findings> Find(const std::shared_ptr<const model::Model>& model,
                        int64_t chunk = 16) {
    const Corpus corpus = SmallCorpus(*model, chunk);
    TC_ASSIGN_OR_RETURN(
        const WorkFolder work,
        WorkFolder::Open(path_, DescribeWork(*model, corpus, options_)));
    return FindParts(model, corpus, options_, work);
  }

  std::string path_;
  FindOptions options_;
};

bool SameParts(const pack::PreparedParts& a, const pack::PreparedParts& b) {
  return a.predictors == b.predictors && a.training_free == b.training_free &&
         a.thresholds == b.thresholds && a.self_test == b.self_test &&
         a.profile_counts == b.profile_counts && a.order == b.order &&
         a.order_group_size == b.order_group_size && a.lookahead == b.lookahead;
}

TEST_F(FindPartsTest, EverythingOfTheDemoModel) {
  const auto model = OpenDemo();
  options_.reports_ahead = true;
  const auto found = Find(model, 32);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(pack::CheckParts(found->parts, model->config()));
  ASSERT_EQ(found->parts.predictors.size(), 6u);
  EXPECT_EQ(found->parts.self_test.size(), 6u);
  EXPECT_EQ(found->parts.profile_counts.size(), 6u);
  EXPECT_EQ(found->parts.order.size(), 6u);
  EXPECT_EQ(found->parts.order_group_size, 8);
  EXPECT_EQ(found->parts.activation, Activation::kRelu);
  for (size_t i = 0; i < 6; ++i) {
    const LayerFindings& layer = found->layers[i];
    EXPECT_EQ(layer.ffn_bytes, 3u * 256 * 1536 * 2);
    EXPECT_GT(layer.fired_per_group, layer.fired_per_group_as_they_lie);
    // Few tokens and few steps: far from what a whole text gives.
    EXPECT_GE(layer.trained.recall, 0.96);
    EXPECT_LT(layer.trained.candidates_per_fired, 4);
    EXPECT_LE(layer.trained.num_bytes, layer.ffn_bytes / 10);
    EXPECT_LE(layer.free.num_bytes, layer.ffn_bytes / 10);
    EXPECT_GE(layer.free.recall, 0.96);
    EXPECT_EQ(layer.recall_ahead.size(), std::min<size_t>(i, 3) + 1);
    // The self-test's candidates hold most of what fired.
    const pack::LayerSelfTest& test = found->parts.self_test[i];
    size_t num_fired = 0;
    size_t num_hits = 0;
    for (size_t s = 0; s < test.fired.size(); ++s) {
      num_fired += test.fired[s].size();
      for (const uint32_t neuron : test.fired[s]) {
        num_hits += std::ranges::binary_search(test.candidates[s], neuron);
      }
    }
    EXPECT_GT(num_hits, num_fired * 9 / 10);
  }
}

std::string CorpusKey(const pack::PreparedParts& parts) {
  for (const gguf::KeyValue& key : parts.keys) {
    if (key.key == "thermocline.profile.corpus") {
      return std::get<std::string>(key.value);
    }
  }
  return "none";
}

TEST_F(FindPartsTest, TheSamePartsWhereverItWasInterrupted) {
  const auto model = OpenTiny();
  const auto whole = Find(model);
  ASSERT_TRUE(whole) << whole.error().message;
  // Once in the scan, then after every layer or two: each run stops at its
  // second call of progress for a layer it has to do.
  fs::remove_all(path_);
  std::atomic<bool> cancel = false;
  options_.session.cancel = &cancel;
  options_.progress = [&](std::string_view what, uint64_t num_done,
                          uint64_t num_total) {
    if (num_done == (what.starts_with("layer") ? num_total / 8 : 9)) {
      cancel = true;
    }
  };
  for (int run = 0; run < 12; ++run) {
    cancel = false;
    options_.corpus_name = fmt::format("copy-{}.txt", run);
    const auto part = Find(model);
    if (!part) {
      ASSERT_EQ(part.error().code, ErrorCode::kCancelled);
      // The next one goes further.
      const size_t keep = static_cast<size_t>(run);
      options_.progress = [&cancel, keep](std::string_view what, uint64_t done,
                                          uint64_t) {
        if (what.starts_with(fmt::format("layer {} ", keep + 1)) && done == 5) {
          cancel = true;
        }
      };
      continue;
    }
    EXPECT_TRUE(SameParts(part->parts, whole->parts));
    EXPECT_EQ(part->layers, whole->layers);
    EXPECT_GT(part->num_layers_kept, 0u);
    // The last name of the text counts, as for a run in one go.
    EXPECT_EQ(CorpusKey(part->parts), options_.corpus_name);
    EXPECT_GT(run, 1);
    return;
  }
  FAIL() << "it never came to an end";
}

TEST_F(FindPartsTest, TheSameForEveryNumberOfThreads) {
  const auto model = OpenTiny();
  const auto two = Find(model);
  ASSERT_TRUE(two);
  fs::remove_all(path_);
  options_.session.num_threads = 3;
  const auto three = Find(model);
  ASSERT_TRUE(three);
  EXPECT_TRUE(SameParts(two->parts, three->parts));
  EXPECT_EQ(two->layers, three->layers);
}

TEST_F(FindPartsTest, LittleMemoryTakesMoreRunsForTheSameParts) {
  const auto model = OpenTiny();
  options_.training_free = false;
  const auto whole = Find(model);
  ASSERT_TRUE(whole);
  fs::remove_all(path_);
  // The least that is enough, to 1 KiB.
  const Corpus corpus = SmallCorpus(*model, 16);
  uint64_t too_few = 0;
  uint64_t enough = kGiB;
  while (enough - too_few > kKiB) {
    options_.max_memory_bytes = (too_few + enough) / 2;
    (PlanFit(*model, corpus, options_) ? enough : too_few) =
        options_.max_memory_bytes;
  }
  options_.max_memory_bytes = too_few;
  const auto failed = Find(model);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(failed.error().message, HasSubstr("are allowed"));
  fs::remove_all(path_);
  options_.max_memory_bytes = enough;
  const auto part = Find(model);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_GT(part->stages.size(), whole->stages.size());
  EXPECT_TRUE(SameParts(part->parts, whole->parts));
}

TEST_F(FindPartsTest, LookingOneLayerAhead) {
  options_.lookahead = 1;
  options_.training_free = false;
  const auto found = Find(OpenTiny());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->parts.lookahead, 1);
  EXPECT_TRUE(found->parts.training_free.empty());
  EXPECT_EQ(found->parts.predictors.size(), 2u);
}

// Two matrices with biases, and a gate whose up row must be positive too.
TEST_F(FindPartsTest, OtherFfns) {
  for (const char* name : {"opt", "bamboo", "falcon"}) {
    fs::remove_all(path_);
    const auto model =
        OpenTestModel(fmt::format("testdata/golden-powerinfer/{}-f16"
                                  ".powerinfer.gguf",
                                  name));
    const auto found = Find(model);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_TRUE(pack::CheckParts(found->parts, model->config())) << name;
    EXPECT_GT(found->layers[1].density, 0.01) << name;
    if (found->layers[1].trained.rank > 0) {
      EXPECT_GT(found->layers[1].trained.recall, 0.9) << name;
    }
  }
}

TEST_F(FindPartsTest, ThresholdsOfASiluModel) {
  const auto model = OpenTestModel("testdata/models/stories260K.gguf");
  options_.density = 0.5;
  auto found = Find(model);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->parts.thresholds.size(), 5u);
  EXPECT_THAT(found->parts.thresholds, ::testing::Each(::testing::Gt(0)));
  EXPECT_TRUE(found->parts.predictors.empty());
  EXPECT_THAT(found->no_predictors, HasSubstr("mode threshold"));
  // Without samples, by how often each was open.
  ASSERT_EQ(found->parts.order.size(), 5u);
  EXPECT_EQ(found->parts.order[3], OrderByHeat(NeuronsOf(model->config()),
                                               found->parts.profile_counts[3]));
  EXPECT_EQ(found->layers[3].fired_per_group, 0);

  fs::remove_all(path_);
  options_.density.reset();
  options_.max_ppl_cost = 0.05;
  found = Find(model);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_LT(*found->threshold_density, 1.0);
  EXPECT_LE(*found->threshold_perplexity, 1.05 * *found->dense_perplexity);
}

// One predictor speaks of all experts; what it says of those that a token does
// not use is not counted.
TEST_F(FindPartsTest, AMixture) {
  model::OpenOptions open;
  open.overrides.ffn_activation = Activation::kRelu;
  const auto model =
      OpenTestModel("testdata/golden/mixtral-8x2-f16.gguf", open);
  options_.reports_ahead = true;
  // Weights are random: there is little to be learnt.
  options_.goal = {.recall = 0.8, .recall_floor = 0.7};
  const auto found = Find(model);
  ASSERT_TRUE(found) << found.error().message;
  const model::Config& config = model->config();
  ASSERT_TRUE(pack::CheckParts(found->parts, config));
  ASSERT_EQ(found->parts.predictors.size(), found->layers.size());
  const auto width = static_cast<uint32_t>(MaxFfnWidth(config));
  for (size_t i = 0; i < found->layers.size(); ++i) {
    const LayerFindings& layer = found->layers[i];
    // Half of the neurons of two experts of eight.
    EXPECT_GT(layer.density, 0.3);
    EXPECT_LT(layer.density, 0.7);
    EXPECT_EQ(layer.ffn_bytes, 2 * FfnBytes(model->weights().layers[i].ffn));
    ASSERT_TRUE(found->parts.predictors[i]) << layer.reason;
    EXPECT_LE(layer.trained.num_bytes, layer.ffn_bytes / 10);
    EXPECT_GT(layer.trained.recall, 0.65);
    EXPECT_EQ(layer.recall_ahead.size(), i + 1);
    const pack::LayerSelfTest& test = found->parts.self_test[i];
    for (size_t s = 0; s < test.fired.size(); ++s) {
      std::set<uint32_t> used, asked;
      for (const uint32_t neuron : test.fired[s]) used.insert(neuron / width);
      for (const uint32_t neuron : test.candidates[s]) {
        asked.insert(neuron / width);
      }
      EXPECT_EQ(used.size(), 2u);
      EXPECT_TRUE(std::ranges::includes(used, asked));
    }
  }
}

TEST_F(FindPartsTest, ADamagedWorkFolderIsNamed) {
  const auto model = OpenTiny();
  std::atomic<bool> cancel = false;
  options_.session.cancel = &cancel;
  options_.progress = [&](std::string_view what, uint64_t, uint64_t) {
    if (what.starts_with("layer 2 ")) cancel = true;
  };
  ASSERT_FALSE(Find(model));
  const std::string kept = path_ + "/layer-0.gguf";
  ASSERT_TRUE(fs::exists(kept));
  cancel = false;
  const auto expect_refused = [&] {
    const auto found = Find(model);
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message,
                AllOf(HasSubstr("layer-0.gguf"), HasSubstr("delete " + path_)));
  };
  // Another predictor, in a file without a fault.
  {
    std::fstream file(kept, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const int last = file.get();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(last ^ 0x80));
  }
  expect_refused();
  fs::resize_file(kept, 1000);
  expect_refused();
  // What was not finished is found anew.
  fs::remove(kept + ".crc");
  options_.progress = {};
  const auto found = Find(model);
  EXPECT_TRUE(found) << found.error().message;
}

}  // namespace
}  // namespace thermocline::training
