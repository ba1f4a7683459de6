#include "pack/down_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "model/test_random_model.h"
#include "os/test_folder.h"

namespace thermocline::pack {
namespace {

using model::RandomModel;
using model::RandomRows;

using model::Model;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DownSourceTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Model> Open(gguf::TestFile file,
                                    const std::string& name,
                                    bool is_bundled = false) {
    return Model::Open(folder_.Write(name, file.Bytes()),
                       {.bundle_at_load = is_bundled})
        .value();
  }
  // `layer` is the first that differs.
  void ExpectRefused(const Model& source, const Model& better,
                     const std::string& layer) {
    const Status checked = CheckDownSource(source, better);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(
        checked.error().message,
        AllOf(HasSubstr(source.file().path()), HasSubstr(better.file().path()),
              HasSubstr("another model"), HasSubstr(layer)));
  }
  os::TestFolder folder_;
};

TEST_F(DownSourceTest, AnyTypeAndFormOfOneModel) {
  const auto exact = Open(RandomModel(DType::kF32), "f32.gguf");
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ5_1, DType::kQ4_0}) {
    for (const bool is_bundled : {false, true}) {
      const auto source = Open(RandomModel(dtype), "m.gguf", is_bundled);
      EXPECT_TRUE(CheckDownSource(*source, *exact))
          << NameOf(dtype) << is_bundled;
      EXPECT_TRUE(CheckDownSource(*exact, *source))
          << NameOf(dtype) << is_bundled;
    }
  }
}

TEST_F(DownSourceTest, AnotherModelWithTheSameNorms) {
  const auto other = Open(RandomModel(DType::kF32, "llama", 100), "o.gguf");
  for (const bool is_bundled : {false, true}) {
    const auto source = Open(RandomModel(DType::kQ4_0), "m.gguf", is_bundled);
    ExpectRefused(*source, *other, "in layer 0 ");
  }
}

TEST_F(DownSourceTest, OneLayerThatDiffers) {
  gguf::TestFile file = RandomModel(DType::kF32);
  file.SetTensor("blk.1.ffn_down.weight", DType::kF32, {64, 32},
                 RandomRows(DType::kF32, 64 * 32, 77));
  const auto other = Open(file, "o.gguf");
  ExpectRefused(*Open(RandomModel(DType::kQ4_0), "m.gguf"), *other,
                "in layer 1 ");
}

TEST_F(DownSourceTest, ExpertsOfAMixture) {
  const auto mixture = [&](DType dtype, uint64_t seed) {
    gguf::TestFile file = model::TestExpertModel();
    file.SetTensor("blk.1.ffn_down_exps.weight", dtype, {64, 32, 4},
                   RandomRows(dtype, 64 * 32 * 4, seed));
    return file;
  };
  const auto source = Open(mixture(DType::kQ4_0, 1), "m.gguf");
  EXPECT_TRUE(
      CheckDownSource(*source, *Open(mixture(DType::kF16, 1), "b.gguf")));
  ExpectRefused(*source, *Open(mixture(DType::kF16, 2), "o.gguf"),
                "in layer 1 ");
}

// Nothing can be told of weights that are all zero.
TEST_F(DownSourceTest, Zeros) {
  EXPECT_TRUE(CheckDownSource(*Open(model::TestModel(), "a.gguf"),
                              *Open(model::TestModel(), "b.gguf")));
}

TEST_F(DownSourceTest, OtherNorms) {
  gguf::TestFile file = RandomModel(DType::kF32);
  file.SetTensor("blk.1.ffn_norm.weight", DType::kF32, {32},
                 std::string(128, '\1'));
  const auto other = Open(file, "o.gguf");
  ExpectRefused(*Open(RandomModel(DType::kF32), "m.gguf"), *other, "norms");
}

}  // namespace
}  // namespace thermocline::pack
