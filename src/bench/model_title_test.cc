#include "bench/model_title.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "model/test_model.h"
#include "model/test_prepared.h"
#include "os/test_folder.h"

namespace thermocline::bench {
namespace {

class TitleOfTest : public ::testing::Test {
 protected:
  ModelTitle Of(gguf::TestFile file, const model::OpenOptions& options = {}) {
    const auto opened =
        model::Model::Open(folder_.Write("m.gguf", file.Bytes()), options);
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return opened.has_value() ? TitleOf(**opened) : ModelTitle();
  }

 private:
  os::TestFolder folder_;
};

TEST_F(TitleOfTest, TheTypeOfMostBytes) {
  const ModelTitle title = Of(model::TestModel());
  // Matrices of 32 x 32 and 32 x 16, FFNs of 3 x 32 x 64, 5 norms, embedding
  // and head of 32 x 6.
  EXPECT_EQ(title.num_params, 2 * (3072 + 6144) + 5 * 32 + 2 * 192);
  EXPECT_EQ(title.name, "llama 18.98 K F16");
  EXPECT_EQ(Of(model::TestExpertModel()).name, "llama 56.10 K Q8_0");
}

// Records are weights in their own types, not bytes.
TEST_F(TitleOfTest, RecordsAreWhatIsInThem) {
  for (const bool has_experts : {false, true}) {
    const gguf::TestFile plain =
        has_experts ? model::TestExpertModel() : model::TestModel();
    const ModelTitle title = Of(has_experts ? model::TestPreparedExpertModel()
                                            : model::TestPreparedModel());
    EXPECT_EQ(title.num_params, Of(plain).num_params);
    EXPECT_EQ(title.name, Of(plain).name);
    // In memory alone the file is what it was.
    EXPECT_EQ(Of(plain, {.bundle_at_load = true}).name, title.name);
  }
}

TEST_F(TitleOfTest, PredictorsCountAndFindingsDoNot) {
  gguf::TestFile file = model::TestPreparedModel();
  const ModelTitle before = Of(file);
  model::AddTestParts(file);
  const ModelTitle after = Of(file);
  // Trained of rank 32 with biases, a margin of rank 8 with one.
  EXPECT_EQ(after.num_params - before.num_params,
            32 * 32 + 32 + 32 * 64 + 64 + 32 * 8 + 8 * 64 + 64);
  EXPECT_GT(after.num_bytes, before.num_bytes);
}

TEST_F(TitleOfTest, SyntheticModelsAreMarked) {
  gguf::TestFile file = model::TestModel();
  const std::string plain = Of(file).name;
  file.SetText(model::prepared::kSynthetic, "like tiny");
  EXPECT_EQ(Of(file).name, "synthetic " + plain);
}

}  // namespace
}  // namespace thermocline::bench
