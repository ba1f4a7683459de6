#include <gtest/gtest.h>

#include <limits>

#include "npu/block.h"
#include "npu/test_graph.h"
#include "npu/test_npu_model.h"
#include "npu/test_plain_layers.h"

namespace thermocline::npu {
namespace {

// Of rows [3, D].
Numbers64 PlainLogits(const model::Model& model, const Numbers64& x) {
  const model::Config& config = model.config();
  const model::Weights& w = model.weights();
  Numbers64 all;
  for (size_t r = 0; r < 3; ++r) {
    const auto first = x.begin() + static_cast<ptrdiff_t>(r * config.width);
    const Numbers64 row(first, first + static_cast<ptrdiff_t>(config.width));
    const Numbers64 logits =
        PlainProduct(w.head, TensorView(),
                     PlainNorm(config.norm, double{config.norm_epsilon},
                               w.output_norm, w.output_norm_bias, row));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST(HeadTest, LogitsAreThoseOfNormAndMatrix) {
  struct Case {
    const char* architecture;
    DType dtype;
    WeightForm form;
    double bound;
  };
  const Case cases[] = {
      {"llama", DType::kF16, WeightForm::kExact, 1e-11},
      {"opt", DType::kF16, WeightForm::kF16, 1e-11},
      {"llama", DType::kQ8_0, WeightForm::kExact, 1e-6},
      {"llama", DType::kQ4_0, WeightForm::kExact, 1e-6},
      {"llama", DType::kF32, WeightForm::kI8Channel, 1e-3},
  };
  const auto device = MakeReferenceDevice();
  for (const Case& c : cases) {
    const auto model =
        MakeNpuModel({.architecture = c.architecture, .dtype = c.dtype});
    UnpackError error;
    const auto graph = BuildHead(*model, 3, c.form, &error);
    ASSERT_TRUE(graph.has_value());
    BoundProgram program(*device, *graph);
    Random random(4);
    const std::vector<double> x = RandomNumbers(random, {3, 64});
    program.Set("x", x);
    ASSERT_TRUE(program.Infer());
    EXPECT_LE(RelativeSquares(program.Get("logits"), PlainLogits(*model, x)),
              c.bound)
        << c.architecture << ", " << NameOf(c.dtype);
    EXPECT_EQ(error.worst_name, error.worst == 0.0 ? "" : "head");
  }
}

TEST(HeadTest, EmbeddingsAreRowsAndLearnedPositions) {
  const auto device = MakeReferenceDevice();
  for (const char* architecture : {"llama", "opt"}) {
    const auto model =
        MakeNpuModel({.architecture = architecture, .dtype = DType::kF16});
    const auto graph = BuildEmbedding(*model, 2);
    ASSERT_TRUE(graph.has_value());
    BoundProgram program(*device, *graph);
    program.Set("tokens", {7.0, 39.0});
    const bool learns = bool{model->weights().position_embedding};
    if (learns) program.Set("positions", {5.0, 6.0});
    ASSERT_TRUE(program.Infer());
    const std::vector<float> x = program.Get("x");
    for (size_t r = 0; r < 2; ++r) {
      Numbers64 row =
          PlainRow(model->weights().token_embedding, r == 0 ? 7 : 39);
      for (size_t i = 0; i < row.size(); ++i) {
        if (learns) {
          row[i] += PlainRow(model->weights().position_embedding, 5 + r)[i];
        }
        EXPECT_NEAR(double{x[r * 64 + i]}, row[i], 1e-6) << architecture;
      }
    }
  }
}

TEST(HeadTest, ErrorsNameFileAndTensor) {
  const auto spoil = [](const std::string& name, std::span<float> values) {
    if (name == "output.weight" || name == "token_embd.weight") {
      values[100] = std::numeric_limits<float>::infinity();
    }
  };
  const auto model = MakeNpuModel({.dtype = DType::kF32, .edit = spoil});
  const auto head = BuildHead(*model, 1, WeightForm::kF16);
  ASSERT_FALSE(head.has_value());
  EXPECT_EQ(head.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(head.error().message.starts_with("test.gguf: head: row 1: "))
      << head.error().message;
  const auto embedding = BuildEmbedding(*model, 1);
  ASSERT_FALSE(embedding.has_value());
  EXPECT_TRUE(embedding.error().message.starts_with(
      "test.gguf: token embedding: row 1: "))
      << embedding.error().message;
  EXPECT_EQ(BuildHead(*model, 0, WeightForm::kF16).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace thermocline::npu
