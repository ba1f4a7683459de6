#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/test_model.h"
#include "model/test_prepared.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::Raw;
using gguf::TestFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Bound {
  explicit Bound(TestFile file)
      : parsed(file.Bytes()),
        weights(BindWeights(**parsed.file, ReadConfig(**parsed.file).value())) {
  }
  const TensorView view(const std::string& name) const {
    return (*parsed.file)->Tensor(name);
  }
  ParsedCopy parsed;
  Result<Weights> weights;
};

void ExpectRefused(TestFile file, ErrorCode code, const std::string& part) {
  const Bound bound(std::move(file));
  ASSERT_FALSE(bound.weights) << part;
  EXPECT_EQ(bound.weights.error().code, code) << bound.weights.error().message;
  EXPECT_THAT(bound.weights.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(part)));
}

TEST(BindWeights, EveryRole) {
  const Bound bound(TestModel("qwen2"));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const Weights& w = *bound.weights;
  EXPECT_EQ(w.token_embedding.data, bound.view("token_embd.weight").data);
  EXPECT_EQ(w.head.data, bound.view("output.weight").data);
  EXPECT_EQ(w.output_norm.data, bound.view("output_norm.weight").data);
  EXPECT_FALSE(w.output_norm_bias);
  EXPECT_FALSE(w.tied);
  EXPECT_THAT(w.rope_freq_factors, IsEmpty());
  ASSERT_EQ(w.layers.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const LayerWeights& layer = w.layers[static_cast<size_t>(i)];
    const auto data = [&](const char* name) {
      return bound.view(fmt::format("blk.{}.{}", i, name)).data;
    };
    EXPECT_EQ(layer.attention.norm.data, data("attn_norm.weight"));
    EXPECT_EQ(layer.attention.q.data, data("attn_q.weight"));
    EXPECT_EQ(layer.attention.k.data, data("attn_k.weight"));
    EXPECT_EQ(layer.attention.v.data, data("attn_v.weight"));
    EXPECT_EQ(layer.attention.out.data, data("attn_output.weight"));
    EXPECT_EQ(layer.attention.q_bias.data, data("attn_q.bias"));
    EXPECT_EQ(layer.attention.k_bias.data, data("attn_k.bias"));
    EXPECT_EQ(layer.attention.v_bias.data, data("attn_v.bias"));
    EXPECT_FALSE(layer.attention.out_bias);
    EXPECT_EQ(layer.ffn.norm.data, data("ffn_norm.weight"));
    EXPECT_EQ(layer.ffn.gate.data, data("ffn_gate.weight"));
    EXPECT_EQ(layer.ffn.up.data, data("ffn_up.weight"));
    EXPECT_EQ(layer.ffn.down.data, data("ffn_down.weight"));
    EXPECT_FALSE(layer.ffn.gate_bias);
    EXPECT_EQ(layer.ffn.up.dtype, DType::kQ4_0);
  }
}

TEST(BindWeights, EveryArchitecture) {
  for (const Architecture& form : KnownArchitectures()) {
    const Bound bound(TestModel(std::string(form.name)));
    ASSERT_TRUE(bound.weights) << bound.weights.error().message;
    const LayerWeights& layer = bound.weights->layers[1];
    const FfnMatrices& ffn =
        layer.ffn.experts.empty() ? layer.ffn : layer.ffn.experts.back();
    EXPECT_EQ(static_cast<bool>(ffn.gate), form.gated) << form.name;
    EXPECT_EQ(layer.ffn.experts.empty(), form.mixture != Mixture::kAlways)
        << form.name;
    EXPECT_EQ(static_cast<bool>(layer.attention.q_norm),
              form.qk_norm == QkNorm::kPerHead)
        << form.name;
    EXPECT_EQ(static_cast<bool>(layer.ffn.norm_bias),
              form.norm == NormKind::kLayer)
        << form.name;
    EXPECT_EQ(static_cast<bool>(bound.weights->position_embedding),
              form.learned_positions)
        << form.name;
  }
}

// Each layer by its own spec, and what it says must be what its tensors are.
TEST(BindWeights, LayersThatDiffer) {
  TestFile file = TestModel();
  for (const char* name : {"ffn_gate", "ffn_up"}) {
    file.SetTensor(fmt::format("blk.1.{}.weight", name), DType::kQ4_0,
                   {32, 96});
  }
  file.SetTensor("blk.1.ffn_down.weight", DType::kQ4_0, {96, 32})
      .SetTensor("blk.1.attn_k.weight", DType::kF16, {32, 32})
      .SetTensor("blk.1.attn_v.weight", DType::kF16, {32, 32});
  const ParsedCopy parsed(file.Bytes());
  Config config = ReadConfig(**parsed.file).value();
  const auto refused = BindWeights(**parsed.file, config);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("blk.1.attn_k.weight"));
  config.layers[1].attention.num_kv_heads = 4;
  const auto wrong_width = BindWeights(**parsed.file, config);
  ASSERT_FALSE(wrong_width.has_value());
  EXPECT_THAT(wrong_width.error().message,
              AllOf(HasSubstr("blk.1.ffn_gate.weight"), HasSubstr("96"),
                    HasSubstr("64")));
  config.layers[1].ffn.width = 96;
  const auto weights = BindWeights(**parsed.file, config);
  ASSERT_TRUE(weights.has_value()) << weights.error().message;
  EXPECT_EQ(weights->layers[1].ffn.up.shape.num_rows(), 96u);
  EXPECT_EQ(weights->layers[0].ffn.up.shape.num_rows(), 64u);
  EXPECT_EQ(weights->layers[1].attention.k.shape.num_rows(), 32u);
}

TEST(BindWeights, NormsOfHeads) {
  const Bound bound(TestModel("qwen3"));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const AttentionWeights& attention = bound.weights->layers[1].attention;
  EXPECT_EQ(attention.q_norm.data, bound.view("blk.1.attn_q_norm.weight").data);
  EXPECT_EQ(attention.k_norm.data, bound.view("blk.1.attn_k_norm.weight").data);
  ExpectRefused(TestModel("qwen3").RemoveTensor("blk.1.attn_k_norm.weight"),
                ErrorCode::kCorrupt, "blk.1.attn_k_norm.weight");
  ExpectRefused(
      TestModel().SetTensor("blk.0.attn_q_norm.weight", DType::kF32, {8}),
      ErrorCode::kUnsupported, "blk.0.attn_q_norm.weight");
}

TEST(BindWeights, FusedQkvIsCutIntoRows) {
  TestFile file = TestModel("falcon");
  FuseQkv(file);
  file.SetTensor("blk.1.attn_qkv.bias", DType::kF32, {64});
  const Bound bound(file);
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const AttentionWeights& a = bound.weights->layers[1].attention;
  const TensorView fused = bound.view("blk.1.attn_qkv.weight");
  const TensorView bias = bound.view("blk.1.attn_qkv.bias");
  EXPECT_EQ(a.q.data, fused.row(0));
  EXPECT_EQ(a.q.shape.num_rows(), 32u);
  EXPECT_EQ(a.k.data, fused.row(32));
  EXPECT_EQ(a.k.shape.num_rows(), 16u);
  EXPECT_EQ(a.v.data, fused.row(48));
  EXPECT_EQ(a.v.shape.num_rows(), 16u);
  EXPECT_EQ(a.k_bias.data, bias.data + 32 * sizeof(float));
  EXPECT_EQ(a.v_bias.shape.ne[0], 16u);
  EXPECT_FALSE(bound.weights->layers[0].attention.q_bias);
  ExpectRefused(file.SetTensor("blk.0.attn_qkv.weight", DType::kF16, {32, 63}),
                ErrorCode::kCorrupt, "attn_qkv");
  TestFile both = TestModel("falcon");
  both.SetTensor("blk.0.attn_qkv.weight", DType::kF16, {32, 64});
  ExpectRefused(both, ErrorCode::kUnsupported, "blk.0.attn_q.weight");
}

// The second norm, where there is one, is attention's.
TEST(BindWeights, NormsOfParallelBlocks) {
  TestFile file = TestModel("falcon");
  file.SetTensor("blk.1.attn_norm_2.weight", DType::kF32, {32})
      .SetTensor("blk.1.attn_norm_2.bias", DType::kF32, {32});
  const Bound bound(file);
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const LayerWeights& one = bound.weights->layers[0];
  EXPECT_EQ(one.attention.norm.data, one.ffn.norm.data);
  EXPECT_EQ(one.attention.norm_bias.data, one.ffn.norm_bias.data);
  const LayerWeights& two = bound.weights->layers[1];
  EXPECT_EQ(two.ffn.norm.data, bound.view("blk.1.attn_norm.weight").data);
  EXPECT_EQ(two.ffn.norm_bias.data, bound.view("blk.1.attn_norm.bias").data);
  EXPECT_EQ(two.attention.norm.data,
            bound.view("blk.1.attn_norm_2.weight").data);
  EXPECT_EQ(two.attention.norm_bias.data,
            bound.view("blk.1.attn_norm_2.bias").data);
  ExpectRefused(file.RemoveTensor("blk.1.attn_norm_2.bias"),
                ErrorCode::kCorrupt, "attn_norm_2.bias");
  ExpectRefused(
      TestModel().SetTensor("blk.0.attn_norm_2.weight", DType::kF32, {32}),
      ErrorCode::kUnsupported, "attn_norm_2");
}

TEST(BindWeights, PositionsBeginBehindTheUnusedRows) {
  const Bound bound(TestModel("opt").SetTensor("position_embd.weight",
                                               DType::kF16, {32, 130}));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const TensorView table = bound.view("position_embd.weight");
  EXPECT_EQ(bound.weights->position_embedding.data, table.row(2));
  EXPECT_EQ(bound.weights->position_embedding.shape.num_rows(), 128u);
}

TEST(BindWeights, ExpertsStackedOrOneByOne) {
  const Bound stacked(TestExpertModel());
  ASSERT_TRUE(stacked.weights) << stacked.weights.error().message;
  const FfnWeights& ffn = stacked.weights->layers[1].ffn;
  EXPECT_FALSE(ffn.up);
  EXPECT_EQ(ffn.router.data, stacked.view("blk.1.ffn_gate_inp.weight").data);
  ASSERT_EQ(ffn.experts.size(), 4u);
  const TensorView ups = stacked.view("blk.1.ffn_up_exps.weight");
  EXPECT_EQ(ffn.experts[3].up.data, ups.row(3 * 64));
  EXPECT_EQ(ffn.experts[3].up.shape.num_rows(), 64u);
  const TensorView downs = stacked.view("blk.1.ffn_down_exps.weight");
  EXPECT_EQ(ffn.experts[2].down.data, downs.row(2 * 32));

  TestFile file = TestExpertModel();
  for (int i = 0; i < kTestLayers; ++i) {
    for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      file.RemoveTensor(fmt::format("blk.{}.{}_exps.weight", i, name));
      const bool is_down = std::string_view(name) == "ffn_down";
      for (int e = 0; e < 4; ++e) {
        file.SetTensor(fmt::format("blk.{}.{}.{}.weight", i, name, e),
                       DType::kF16,
                       is_down ? std::vector<uint64_t>{64, 32}
                               : std::vector<uint64_t>{32, 64});
      }
    }
  }
  const Bound single(file);
  ASSERT_TRUE(single.weights) << single.weights.error().message;
  EXPECT_EQ(single.weights->layers[1].ffn.experts[3].gate.data,
            single.view("blk.1.ffn_gate.3.weight").data);
  ExpectRefused(file.RemoveTensor("blk.1.ffn_down.3.weight"),
                ErrorCode::kCorrupt, "\"blk.1.ffn_down.3.weight\" is missing");
}

TEST(BindWeights, ExpertCountsThatLie) {
  ExpectRefused(TestExpertModel().SetU32("llama.expert_count", 3),
                ErrorCode::kCorrupt, "ffn_gate_inp");
  ExpectRefused(TestExpertModel().SetTensor("blk.1.ffn_down_exps.weight",
                                            DType::kQ8_0, {64, 32, 3}),
                ErrorCode::kCorrupt, "ffn_down_exps");
  ExpectRefused(TestModel()
                    .SetU32("llama.expert_count", 4)
                    .SetU32("llama.expert_used_count", 2),
                ErrorCode::kCorrupt,
                "\"blk.0.ffn_gate_inp.weight\" is missing");
  ExpectRefused(TestExpertModel()
                    .Remove("llama.expert_count")
                    .Remove("llama.expert_used_count"),
                ErrorCode::kCorrupt, "\"blk.0.ffn_gate.weight\" is missing");
}

TEST(BindWeights, DownInEitherLayout) {
  const Bound neuron_major(TestPowerInferModel());
  ASSERT_TRUE(neuron_major.weights) << neuron_major.weights.error().message;
  const FfnWeights& ffn = neuron_major.weights->layers[0].ffn;
  EXPECT_FALSE(ffn.down);
  EXPECT_EQ(ffn.down_t.data, neuron_major.view("blk.0.ffn_down_t.weight").data);
  const Bound both(TestKairoxModel());
  ASSERT_TRUE(both.weights) << both.weights.error().message;
  EXPECT_TRUE(both.weights->layers[0].ffn.down &&
              both.weights->layers[0].ffn.down_t);
  ExpectRefused(TestPowerInferModel().RemoveTensor("blk.1.ffn_down_t.weight"),
                ErrorCode::kCorrupt, "\"blk.1.ffn_down.weight\" is missing");
}

TEST(BindWeights, BiasOfTheNeuronMajorDown) {
  TestFile file = TestPowerInferModel("opt");
  file.SetTensor("position_embd.weight", DType::kF16, {32, 2050})
      .RemoveTensor("blk.0.ffn_down.bias")
      .SetTensor("blk.0.ffn_down_t.bias", DType::kF32, {32});
  const Bound bound(file);
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_EQ(bound.weights->layers[0].ffn.down_bias.data,
            bound.view("blk.0.ffn_down_t.bias").data);
  EXPECT_EQ(bound.weights->layers[1].ffn.down_bias.data,
            bound.view("blk.1.ffn_down.bias").data);
}

TEST(BindWeights, OptNeedsAllBiases) {
  for (const char* name :
       {"attn_q.bias", "attn_output.bias", "ffn_up.bias", "ffn_down.bias"}) {
    const std::string full = std::string("blk.1.") + name;
    ExpectRefused(TestModel("opt").RemoveTensor(full), ErrorCode::kCorrupt,
                  fmt::format("\"{}\" is missing", full));
  }
}

TEST(BindWeights, OptionalBiases) {
  const Bound bound(TestModel()
                        .SetTensor("blk.1.attn_q.bias", DType::kF32, {32})
                        .SetTensor("blk.1.attn_k.bias", DType::kF32, {16})
                        .SetTensor("blk.1.attn_v.bias", DType::kF32, {16})
                        .SetTensor("blk.1.attn_output.bias", DType::kF32, {32})
                        .SetTensor("blk.1.ffn_gate.bias", DType::kF32, {64})
                        .SetTensor("blk.1.ffn_up.bias", DType::kF32, {64})
                        .SetTensor("blk.1.ffn_down.bias", DType::kF32, {32}));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const LayerWeights& layer = bound.weights->layers[1];
  EXPECT_TRUE(layer.attention.q_bias && layer.attention.k_bias &&
              layer.attention.v_bias && layer.attention.out_bias);
  EXPECT_EQ(layer.ffn.gate_bias.data, bound.view("blk.1.ffn_gate.bias").data);
  EXPECT_EQ(layer.ffn.up_bias.data, bound.view("blk.1.ffn_up.bias").data);
  EXPECT_EQ(layer.ffn.down_bias.data, bound.view("blk.1.ffn_down.bias").data);
  EXPECT_FALSE(bound.weights->layers[0].attention.q_bias);
}

TEST(BindWeights, TiedHead) {
  const Bound bound(TestModel().RemoveTensor("output.weight"));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_TRUE(bound.weights->tied);
  EXPECT_EQ(bound.weights->head.data, bound.weights->token_embedding.data);
}

TEST(BindWeights, MissingTensors) {
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight",
                           "blk.0.attn_q.weight", "blk.1.attn_k.weight",
                           "blk.1.attn_v.weight", "blk.1.attn_output.weight",
                           "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight",
                           "blk.0.ffn_up.weight", "blk.1.ffn_down.weight"}) {
    ExpectRefused(TestModel().RemoveTensor(name), ErrorCode::kCorrupt,
                  fmt::format("\"{}\" is missing", name));
  }
  for (const char* name :
       {"blk.1.attn_q.bias", "blk.0.attn_k.bias", "blk.1.attn_v.bias"}) {
    ExpectRefused(TestModel("qwen2").RemoveTensor(name), ErrorCode::kCorrupt,
                  fmt::format("\"{}\" is missing", name));
  }
}

TEST(BindWeights, WrongShapes) {
  for (const char* name :
       {"output.weight", "output_norm.weight", "blk.0.attn_norm.weight",
        "blk.0.attn_q.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight",
        "blk.1.attn_output.weight", "blk.0.ffn_norm.weight",
        "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.1.ffn_down.weight",
        "blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias"}) {
    ExpectRefused(TestModel("qwen2").SetTensor(name, DType::kF32, {96, 3}),
                  ErrorCode::kCorrupt,
                  fmt::format("\"{}\" has the shape [96, 3]", name));
  }
  // Transposed, or with an extent too many.
  ExpectRefused(
      TestModel().SetTensor("blk.0.ffn_up.weight", DType::kF16, {64, 32}),
      ErrorCode::kCorrupt, "the metadata say [32, 64]");
  ExpectRefused(
      TestModel().SetTensor("blk.0.ffn_up.weight", DType::kF16, {32, 64, 2}),
      ErrorCode::kCorrupt, "[32, 64, 2]");
  // The embedding's width; its height is the vocabulary's size.
  ExpectRefused(
      TestModel().SetTensor("token_embd.weight", DType::kF16, {64, 6}),
      ErrorCode::kCorrupt, "token_embd.weight");
}

TEST(BindWeights, TrailingOnesDoNotMatter) {
  const Bound bound(
      TestModel()
          .SetTensor("output_norm.weight", DType::kF32, {32, 1})
          .SetTensor("blk.0.ffn_up.weight", DType::kF16, {32, 64, 1, 1}));
  EXPECT_TRUE(bound.weights) << bound.weights.error().message;
}

TEST(BindWeights, TypesWithoutKernels) {
  for (DType dtype : {DType::kI32, DType::kF64, DType::kIQ4_NL}) {
    ExpectRefused(TestModel().SetTensor("blk.0.ffn_up.weight", dtype, {32, 64}),
                  ErrorCode::kUnsupported, std::string(NameOf(dtype)));
  }
}

TEST(BindWeights, VectorsAreF32) {
  ExpectRefused(
      TestModel().SetTensor("blk.0.attn_norm.weight", DType::kF16, {32}),
      ErrorCode::kUnsupported, "must be F32");
  ExpectRefused(TestModel().SetTensor("blk.0.attn_q.bias", DType::kBF16, {32}),
                ErrorCode::kUnsupported, "must be F32");
}

TEST(BindWeights, TensorsThatNobodyAskedFor) {
  for (const char* name :
       {"blk.0.attn_q_norm.weight", "blk.2.attn_norm.weight",
        "blk.0.ffn_gate_exps.weight", "rope_factors_long.weight", "extra",
        "output_norm.bias"}) {
    ExpectRefused(TestModel().SetTensor(name, DType::kF32, {32}),
                  ErrorCode::kUnsupported, name);
  }
}

TEST(BindWeights, HarmlessTensorsAreIgnored) {
  const Bound bound(
      TestModel()
          .SetTensor("blk.0.attn_rot_embd.weight", DType::kF32, {4})
          .SetTensor("rope.freqs", DType::kF32, {4}));
  EXPECT_TRUE(bound.weights) << bound.weights.error().message;
}

std::string Floats(std::initializer_list<float> values) {
  std::string bytes;
  for (float value : values) bytes += Raw(value);
  return bytes;
}

TEST(BindWeights, RopeFactors) {
  const std::string name = "rope_freqs.weight";
  const Bound bound(
      TestModel().SetTensor(name, DType::kF32, {4}, Floats({1, 2, 0.5f, 8})));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_THAT(bound.weights->rope_freq_factors, ElementsAre(1, 2, 0.5f, 8));
  for (float bad : {0.0f, std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    ExpectRefused(
        TestModel().SetTensor(name, DType::kF32, {4}, Floats({1, 1, bad, 1})),
        ErrorCode::kCorrupt, "element 2");
  }
  ExpectRefused(TestModel().SetTensor(name, DType::kF32, {8}),
                ErrorCode::kCorrupt, "the metadata say [4]");
  ExpectRefused(TestModel().SetTensor(name, DType::kF16, {4}),
                ErrorCode::kUnsupported, "must be F32");
}

TEST(CheckTensors, FindsNanInfinityAndBadScales) {
  const auto check = [](TestFile file) {
    const ParsedCopy parsed(file.Bytes());
    return CheckTensors(**parsed.file, {}, {});
  };
  EXPECT_TRUE(check(TestModel()));
  std::string data = std::string(32 * 4, '\0');
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(data.data() + 7 * 4, &nan, 4);
  const Status norm = check(
      TestModel().SetTensor("blk.1.ffn_norm.weight", DType::kF32, {32}, data));
  ASSERT_FALSE(norm);
  EXPECT_EQ(norm.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(norm.error().message, AllOf(HasSubstr("blk.1.ffn_norm.weight"),
                                          HasSubstr("element 7")));
  // An infinite F16 scale in the second block of the first row.
  std::string blocks(6 * 34, '\0');
  blocks[34 + 1] = '\x7c';
  const Status head = check(
      TestModel().SetTensor("output.weight", DType::kQ8_0, {32, 6}, blocks));
  ASSERT_FALSE(head);
  EXPECT_THAT(head.error().message, HasSubstr("output.weight"));
}

// Records are bytes to the file; an infinite scale in one is found by its part.
TEST(CheckTensors, LooksIntoRecords) {
  const std::string name = std::string("blk.1.") + prepared::kRecords;
  const auto expect_found = [&](TestFile file, size_t num_records,
                                size_t stride, size_t offset,
                                const std::string& where) {
    std::string records(num_records * stride, '\0');
    records[offset + 1] = '\x7c';
    const Bound bound(
        file.SetTensor(name, DType::kI8, {stride, num_records}, records));
    ASSERT_TRUE(bound.weights) << bound.weights.error().message;
    const Status checked =
        CheckTensors(**bound.parsed.file, bound.weights->layers, {});
    ASSERT_FALSE(checked) << where;
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(checked.error().message,
                HasSubstr(fmt::format("\"{}\", {}", name, where)));
  };
  // Parts of 18 bytes in records of 64, of 34 in records of 128.
  expect_found(TestPreparedModel(), 64, 64, 0, "gate rows: element 0");
  expect_found(TestPreparedModel(), 64, 64, 5 * 64 + 18,
               "up rows: element 160");
  expect_found(TestPreparedModel(), 64, 64, 63 * 64 + 36,
               "down columns: element 2016");
  expect_found(TestPreparedExpertModel(), 256, 128, (2 * 64 + 3) * 128 + 68,
               "expert 2, down columns: element 96");
  expect_found(TestPreparedExpertModel(false), 256, 128, 0,
               "expert 0, up rows: element 0");
}

TEST(CheckTensors, PassesOverTypesWithoutCodec) {
  TestFile file;
  file.SetTensor("ids", DType::kI32, {4});
  const ParsedCopy parsed(file.Bytes());
  EXPECT_TRUE(CheckTensors(**parsed.file, {}, {}));
}

TEST(CheckTensors, ReportsProgressToTheEnd) {
  TestFile file = TestModel();
  const ParsedCopy parsed(file.Bytes());
  std::vector<uint64_t> done;
  uint64_t total = 0;
  ASSERT_TRUE(CheckTensors(**parsed.file, {},
                           [&](std::string_view, uint64_t d, uint64_t t) {
                             done.push_back(d);
                             total = t;
                           }));
  ASSERT_GT(done.size(), 2u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.front(), 0u);
  EXPECT_EQ(done.back(), total);
}

}  // namespace
}  // namespace thermocline::model
