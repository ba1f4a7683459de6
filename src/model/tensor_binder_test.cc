#include "model/tensor_binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/test_file.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::TestFile;
using ::testing::HasSubstr;

TestFile ThreeTensors() {
  TestFile file;
  file.SetTensor("v", DType::kF32, {6})
      .SetTensor("m", DType::kF16, {4, 3})
      .SetTensor("s", DType::kF16, {4, 3, 2});
  return file;
}

TEST(TensorBinder, TakesWhatIsThere) {
  const ParsedCopy parsed(ThreeTensors().Bytes());
  TensorBinder binder(**parsed.file);
  EXPECT_TRUE(binder.Has("v"));
  EXPECT_FALSE(binder.Has("w"));
  EXPECT_TRUE(binder.TakeVector("v", 6, Need::kRequired).value());
  EXPECT_TRUE(binder.TakeMatrix("m", 3, 4, Need::kOptional).value());
  EXPECT_FALSE(binder.TakeMatrix("w", 3, 4, Need::kOptional).value());
  const auto stack = binder.TakeStack("s", 2, 3, 4);
  ASSERT_TRUE(stack);
  ASSERT_EQ(stack->size(), 2u);
  EXPECT_EQ((*stack)[1].data, (*stack)[0].data + 3 * 4 * 2);
  EXPECT_EQ((*stack)[1].shape.num_rows(), 3u);
  EXPECT_TRUE(binder.CheckAllTaken("llama"));
}

TEST(TensorBinder, RefusesOthers) {
  const ParsedCopy parsed(ThreeTensors().Bytes());
  TensorBinder binder(**parsed.file);
  const auto message = [](const auto& result) {
    return result ? std::string() : result.error().message;
  };
  EXPECT_THAT(message(binder.TakeVector("w", 6, Need::kRequired)),
              HasSubstr("\"w\" is missing"));
  EXPECT_THAT(message(binder.TakeVector("v", 5, Need::kRequired)),
              HasSubstr("the metadata say [5]"));
  EXPECT_THAT(message(binder.TakeVector("m", 4, Need::kOptional)),
              HasSubstr("[4, 3]"));
  EXPECT_THAT(message(binder.TakeStack("s", 3, 3, 4)), HasSubstr("[4, 3, 3]"));
  EXPECT_FALSE(binder.TakeMatrix("m", 3, 4, Need::kForbidden).value());
  EXPECT_THAT(message(binder.CheckAllTaken("llama")),
              HasSubstr("unknown to the architecture \"llama\""));
}

TEST(TensorBinder, Slices) {
  const ParsedCopy parsed(ThreeTensors().Bytes());
  const TensorView m = (*parsed.file)->Tensor("m");
  const TensorView v = (*parsed.file)->Tensor("v");
  EXPECT_EQ(SliceRows(m, 1, 2).data, m.row(1));
  EXPECT_EQ(SliceRows(m, 1, 2).shape.num_rows(), 2u);
  EXPECT_EQ(SliceVector(v, 4, 2).data, v.data + 16);
  EXPECT_EQ(SliceVector(v, 4, 2).shape.ne[0], 2u);
  EXPECT_FALSE(SliceRows(TensorView(), 5, 9));
  EXPECT_FALSE(SliceVector(TensorView(), 5, 9));
  TensorView elsewhere = m;
  elsewhere.data = nullptr;
  EXPECT_TRUE(SliceRows(elsewhere, 1, 2));
  EXPECT_FALSE(SliceRows(elsewhere, 1, 2).in_memory());
}

TEST(TensorBinderDeathTest, SlicesStayInside) {
  const ParsedCopy parsed(ThreeTensors().Bytes());
  EXPECT_DEATH(SliceRows((*parsed.file)->Tensor("m"), 2, 2), "");
  EXPECT_DEATH(SliceVector((*parsed.file)->Tensor("v"), 0, 7), "");
}

}  // namespace
}  // namespace thermocline::model
