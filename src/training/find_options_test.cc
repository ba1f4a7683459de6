#include "training/find_options.h"

#include <algorithm>
#include <functional>

#include "model/profile_file.h"
#include "os/test_folder.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckOptionsTest, ThresholdsOfTheReluFamily) {
  FindOptions options;
  EXPECT_TRUE(CheckOptions(*OpenDemo(), options));
  options.density = 0.5;
  const Status checked = CheckOptions(*OpenDemo(), options);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr("relu"), HasSubstr("need no thresholds")));
  EXPECT_TRUE(CheckOptions(*OpenTestModel("testdata/models/stories260K.gguf"),
                           options));
}

TEST(CheckOptionsTest, TwoWaysToChooseThresholds) {
  const Status checked =
      CheckOptions(*OpenTestModel("testdata/models/stories260K.gguf"),
                   {.density = 0.5, .max_ppl_cost = 0.1});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(checked.error().message, HasSubstr("exclude each other"));
}

TEST(CheckOptionsTest, AMixtureDoesNotLookAhead) {
  model::OpenOptions open;
  open.overrides.ffn_activation = Activation::kRelu;
  const auto mixture =
      OpenTestModel("testdata/golden/mixtral-8x2-f16.gguf", open);
  EXPECT_TRUE(CheckOptions(*mixture, {}));
  const Status refused = CheckOptions(*mixture, {.lookahead = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("which experts"));
}

TEST(CheckOptionsTest, Lookaheads) {
  const auto model = OpenDemo();
  EXPECT_TRUE(CheckOptions(*model, {.lookahead = 1}));
  EXPECT_FALSE(CheckOptions(*model, {.lookahead = 2}));
  EXPECT_FALSE(CheckOptions(*model, {.lookahead = -1}));
  EXPECT_EQ((FindOptions{.lookahead = 1}).num_layers_before(), 1u);
  EXPECT_EQ((FindOptions{.reports_ahead = true}).num_layers_before(), 3u);
}

// What has a part in the results is in the description, one line for each; what
// has none is not.
TEST(DescribeWorkTest, OneLineForWhatDiffers) {
  const auto model = OpenTiny();
  const Corpus corpus = SmallCorpus(*model, 16);
  const FindOptions options;
  const std::string description = DescribeWork(*model, corpus, options);
  const auto expect_one_line = [&](const std::string& other) {
    size_t num_different = 0;
    std::istringstream a(description);
    std::istringstream b(other);
    for (std::string x, y; std::getline(a, x) && std::getline(b, y);) {
      num_different += x == y ? 0 : 1;
    }
    EXPECT_EQ(num_different, 1u) << other;
    EXPECT_EQ(std::ranges::count(description, '\n'),
              std::ranges::count(other, '\n'));
  };
  const std::function<void(FindOptions&)> changes[] = {
      [](FindOptions& o) { o.goal.recall = 0.95; },
      [](FindOptions& o) { o.goal.recall_floor = 0.9; },
      [](FindOptions& o) { o.goal.max_candidates = 3; },
      [](FindOptions& o) { o.lookahead = 1; },
      [](FindOptions& o) { o.seed = 7; },
      [](FindOptions& o) { o.num_steps = 99; },
      [](FindOptions& o) { o.max_samples = 4096; },
      [](FindOptions& o) { o.max_memory_bytes = 1 << 30; },
      [](FindOptions& o) { o.predictors = false; },
      [](FindOptions& o) { o.training_free = false; },
      [](FindOptions& o) { o.reports_ahead = true; },
      [](FindOptions& o) { o.density = 0.25; },
      [](FindOptions& o) { o.max_ppl_cost = 0.25; },
      [](FindOptions& o) { o.session.isa = kernels::Isa::kScalar; }};
  for (const auto& change : changes) {
    FindOptions other = options;
    change(other);
    expect_one_line(DescribeWork(*model, corpus, other));
  }
  expect_one_line(DescribeWork(*model, SmallCorpus(*model, 15), options));
  FindOptions other = options;
  other.session.num_threads = 7;
  EXPECT_EQ(DescribeWork(*model, corpus, other), description);
}

TEST(DescribeWorkTest, AnotherModel) {
  const auto model = OpenTiny();
  const auto bamboo =
      OpenTestModel("testdata/golden-powerinfer/bamboo-f16.powerinfer.gguf");
  const Corpus corpus = SmallCorpus(*model, 16);
  EXPECT_NE(DescribeWork(*model, corpus, {}),
            DescribeWork(*bamboo, corpus, {}));
}

TEST(DescribeWorkTest, AModelThatDiffersInItsFfnAlone) {
  const os::TestFolder folder;
  const auto model = OpenTiny();
  const auto twin = OpenTinyTwin(folder / "twin.gguf");
  ASSERT_EQ(model::FingerprintOf(*twin), model::FingerprintOf(*model));
  const Corpus corpus = SmallCorpus(*model, 16);
  EXPECT_NE(DescribeWork(*model, corpus, {}), DescribeWork(*twin, corpus, {}));
}

// As attention does that was adapted and merged: the last bit of its matrix.
TEST(DescribeWorkTest, AModelThatDiffersInAttentionAlone) {
  const char* const name =
      "testdata/golden-powerinfer/llama-f16.powerinfer.gguf";
  std::string bytes = ReadTestFile(name);
  const auto file = gguf::File::Parse(
      {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, name);
  ASSERT_TRUE(file.has_value());
  const gguf::TensorInfo* q = (*file)->FindTensor("blk.0.attn_q.weight");
  ASSERT_NE(q, nullptr);
  const auto offset =
      reinterpret_cast<const char*>(q->data) + q->num_bytes - 1 - bytes.data();
  bytes[static_cast<size_t>(offset)] ^= 1;
  const os::TestFolder folder;
  folder.Write("twin.gguf", bytes);
  const auto twin = model::Model::Open(folder / "twin.gguf");
  ASSERT_TRUE(twin.has_value()) << twin.error().message;
  const auto model = OpenTiny();
  const Corpus corpus = SmallCorpus(*model, 16);
  EXPECT_NE(DescribeWork(*model, corpus, {}), DescribeWork(**twin, corpus, {}));
}

// As files are mended whose keys were converted wrongly.
TEST(DescribeWorkTest, AModelThatDiffersInAKeyAlone) {
  const char* const name =
      "testdata/golden-powerinfer/llama-f16.powerinfer.gguf";
  const auto model = OpenTiny();
  const Corpus corpus = SmallCorpus(*model, 16);
  for (const std::string key :
       {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"}) {
    std::string bytes = ReadTestFile(name);
    const size_t at = bytes.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    // Behind the key and its type, the lowest byte of a float but two.
    bytes[at + key.size() + sizeof(uint32_t) + 2] ^= 1;
    const os::TestFolder folder;
    folder.Write("twin.gguf", bytes);
    const auto twin = model::Model::Open(folder / "twin.gguf");
    ASSERT_TRUE(twin.has_value()) << twin.error().message;
    EXPECT_NE(DescribeWork(*model, corpus, {}),
              DescribeWork(**twin, corpus, {}))
        << key;
  }
}

// Bundling rounds the down columns of quantised models once more.
TEST(DescribeWorkTest, AModelThatIsBundledAtLoad) {
  const auto model = OpenTiny();
  model::OpenOptions open;
  open.bundle_at_load = true;
  const auto bundled = OpenTestModel(
      "testdata/golden-powerinfer/llama-f16.powerinfer.gguf", open);
  const Corpus corpus = SmallCorpus(*model, 16);
  EXPECT_NE(DescribeWork(*model, corpus, {}),
            DescribeWork(*bundled, corpus, {}));
}

}  // namespace
}  // namespace thermocline::training
