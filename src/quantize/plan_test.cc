#include "quantize/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/remedy.h"
#include "gguf/test_file.h"
#include "model/test_split.h"

namespace thermocline::quantize {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two layers, D 256, F 512, V 8, in F16 and F32.
gguf::TestFile TwoLayerModel(const std::string& architecture = "llama") {
  gguf::TestFile file;
  file.SetText("general.architecture", architecture);
  file.SetU32(architecture + ".block_count", 2);
  file.SetTensor("token_embd.weight", DType::kF16, {256, 8});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    file.SetTensor(layer + "attn_norm.weight", DType::kF32, {256});
    file.SetTensor(layer + "attn_v.weight", DType::kF16, {256, 64});
    file.SetTensor(layer + "ffn_down.weight", DType::kF16, {512, 256});
  }
  file.SetTensor("output.weight", DType::kF16, {256, 8});
  return file;
}

// Types by name, "!" behind those that fell back; or the error's message.
class QuantizePlanTest : public ::testing::Test {
 protected:
  void Plan(gguf::TestFile file) {
    types.clear();
    error.clear();
    const gguf::ParsedCopy parsed(file.Bytes());
    ASSERT_TRUE(parsed.file.has_value()) << parsed.file.error().message;
    const auto plan = PlanQuantization(**parsed.file, options);
    if (!plan) {
      error = plan.error().message;
      code = plan.error().code;
      remedy = plan.error().advice.remedy;
      return;
    }
    EXPECT_EQ(plan->type, options.type);
    for (const QuantizedTensor& tensor : plan->tensors) {
      types[tensor.source->name] =
          std::string(NameOf(tensor.dtype)) + (tensor.fell_back ? "!" : "");
      EXPECT_EQ(tensor.num_bytes,
                BytesOf(tensor.dtype, tensor.source->shape.num_elems()));
    }
  }

  QuantizeOptions options;
  std::map<std::string, std::string> types;
  std::string error;
  ErrorCode code = ErrorCode::kIo;
  Remedy remedy = Remedy::kNone;
};

TEST_F(QuantizePlanTest, AMix) {
  Plan(TwoLayerModel());
  EXPECT_EQ(types, (std::map<std::string, std::string>{
                       {"token_embd.weight", "Q4_K"},
                       {"blk.0.attn_norm.weight", "F32"},
                       {"blk.0.attn_v.weight", "Q4_K"},
                       {"blk.0.ffn_down.weight", "Q4_K"},
                       {"blk.1.attn_norm.weight", "F32"},
                       {"blk.1.attn_v.weight", "Q6_K"},
                       {"blk.1.ffn_down.weight", "Q6_K"},
                       {"output.weight", "Q6_K"}}));
}

TEST_F(QuantizePlanTest, PureHasOneType) {
  options.pure = true;
  Plan(TwoLayerModel());
  EXPECT_EQ(types.size(), 8u) << error;
  for (const auto& [name, type] : types) {
    EXPECT_EQ(type, name.ends_with("_norm.weight") ? "F32" : "Q4_K") << name;
  }
}

TEST_F(QuantizePlanTest, FloatTypesLeaveWhatIsNoMatrix) {
  options.type = gguf::FileType::kBF16;
  Plan(TwoLayerModel());
  EXPECT_EQ(types["output.weight"], "BF16");
  EXPECT_EQ(types["blk.0.attn_norm.weight"], "F32");
}

TEST_F(QuantizePlanTest, HeadAndEmbedding) {
  options.output_type = DType::kQ8_0;
  Plan(TwoLayerModel());
  EXPECT_EQ(types["output.weight"], "Q8_0");
  EXPECT_EQ(types["token_embd.weight"], "Q4_K");
  Plan(TwoLayerModel().RemoveTensor("output.weight"));
  EXPECT_EQ(types["token_embd.weight"], "Q8_0");
  options.embedding_type = DType::kF16;
  Plan(TwoLayerModel().RemoveTensor("output.weight"));
  EXPECT_EQ(types["token_embd.weight"], "F16");
  options.leave_output = true;
  Plan(TwoLayerModel());
  EXPECT_EQ(types["output.weight"], "F16");
}

TEST_F(QuantizePlanTest, OverridesTheLastMatchCounts) {
  options.overrides = {{"ffn_down", DType::kQ8_0},
                       {R"(^blk\.1\..*down)", DType::kQ5_0}};
  Plan(TwoLayerModel());
  EXPECT_EQ(types["blk.0.ffn_down.weight"], "Q8_0");
  EXPECT_EQ(types["blk.1.ffn_down.weight"], "Q5_0");
  options.overrides = {{".", DType::kF32}};
  options.output_type = DType::kQ6_K;
  Plan(TwoLayerModel());
  EXPECT_EQ(types["blk.0.attn_v.weight"], "F32");
  EXPECT_EQ(types["output.weight"], "Q6_K");
}

TEST_F(QuantizePlanTest, BadPatterns) {
  options.overrides = {{"ffn_donw", DType::kQ8_0}};
  Plan(TwoLayerModel());
  EXPECT_THAT(error, HasSubstr("\"ffn_donw\" matches none"));
  options.overrides = {{"_norm", DType::kQ8_0}};  // not quantised at all
  Plan(TwoLayerModel());
  EXPECT_THAT(error, HasSubstr("matches none"));
  options.overrides = {{"[", DType::kQ8_0}};
  Plan(TwoLayerModel());
  EXPECT_THAT(error, StartsWith("tensor pattern [ does not compile"));
  EXPECT_EQ(code, ErrorCode::kInvalidArgument);
  options.overrides = {{"^(.+)+(.+)+(.+)+[^a-z0-9._]$", DType::kQ8_0}};
  Plan(TwoLayerModel());
  EXPECT_THAT(
      error,
      HasSubstr("tensor pattern ^(.+)+(.+)+(.+)+[^a-z0-9._]$: gave up on "
                "the name "));
  EXPECT_EQ(code, ErrorCode::kInvalidArgument);
}

TEST_F(QuantizePlanTest, ANameThatIsNoTextMatchesNothing) {
  options.overrides = {{".", DType::kQ8_0}};
  Plan(TwoLayerModel().SetTensor("blk.0.\xff.weight", DType::kF16, {256, 2}));
  EXPECT_EQ(types["blk.0.\xff.weight"], "Q4_K");
}

TEST_F(QuantizePlanTest, FallsBackAndSaysSo) {
  Plan(TwoLayerModel()
           .SetTensor("blk.0.attn_v.weight", DType::kF16, {96, 4})
           .SetTensor("blk.1.attn_v.weight", DType::kF32, {40, 4}));
  EXPECT_EQ(types["blk.0.attn_v.weight"], "Q5_0!");
  EXPECT_EQ(types["blk.1.attn_v.weight"], "F16!");
}

TEST_F(QuantizePlanTest, QuantisedInput) {
  auto file =
      TwoLayerModel().SetTensor("blk.0.attn_v.weight", DType::kQ8_0, {256, 64});
  Plan(file);
  EXPECT_THAT(error, HasSubstr("test.gguf: tensor \"blk.0.attn_v.weight\" is "
                               "Q8_0 already"));
  EXPECT_EQ(code, ErrorCode::kInvalidArgument);
  options.allow_requantize = true;
  Plan(file);
  EXPECT_EQ(types["blk.0.attn_v.weight"], "Q4_K");
  // What has its type already is no second time.
  options.allow_requantize = false;
  options.type = gguf::FileType::kQ8_0;
  Plan(file);
  EXPECT_EQ(types["blk.0.attn_v.weight"], "Q8_0");
  // Nor may it be blown up to floats by mistake.
  options.type = gguf::FileType::kF16;
  Plan(file);
  EXPECT_THAT(error, HasSubstr("F16 is larger, but brings back nothing"));
  EXPECT_EQ(remedy, Remedy::kRequantize);
}

TEST_F(QuantizePlanTest, TypesThatCannotBeReadStayOrFail) {
  Plan(TwoLayerModel().SetTensor("blk.0.gpu_idx", DType::kI32, {256}));
  EXPECT_EQ(types["blk.0.gpu_idx"], "I32");
  Plan(TwoLayerModel().SetTensor("blk.0.attn_v.weight", DType::kIQ4_XS,
                                 {256, 4}));
  EXPECT_THAT(error, HasSubstr("is IQ4_XS, which this version cannot read"));
  EXPECT_EQ(code, ErrorCode::kUnsupported);
}

TEST_F(QuantizePlanTest, FilesThatAreNoModels) {
  for (const gguf::TestFile& file :
       {model::TestHot(2, 8), model::TestOrder(2, 8)}) {
    Plan(file);
    EXPECT_THAT(error, HasSubstr("test.gguf: is a model's split file"));
    EXPECT_EQ(code, ErrorCode::kUnsupported);
  }
  Plan(TwoLayerModel().SetU32("thermocline.version", 1));
  EXPECT_THAT(error, HasSubstr("test.gguf: is a prepared model"));
  EXPECT_EQ(code, ErrorCode::kUnsupported);
  Plan(TwoLayerModel()
           .SetU32("thermocline.version", 1)
           .SetText("general.type", "thermocline-parts"));
  EXPECT_THAT(error, HasSubstr("test.gguf: holds predictors of"));
  EXPECT_EQ(code, ErrorCode::kUnsupported);
  gguf::TestFile vocab;
  vocab.SetText("general.architecture", "llama");
  vocab.SetU32("llama.block_count", 2);
  Plan(vocab);
  EXPECT_THAT(error, HasSubstr("test.gguf: has no weights to quantise"));
  EXPECT_EQ(code, ErrorCode::kUnsupported);
  Plan(vocab.SetTensor("blk.0.attn_norm.weight", DType::kF32, {256}));
  EXPECT_THAT(error, HasSubstr("no weights"));
}

TEST_F(QuantizePlanTest, MetadataThatTheRulesNeed) {
  Plan(TwoLayerModel().Remove("general.architecture"));
  EXPECT_THAT(error, HasSubstr("general.architecture"));
  Plan(TwoLayerModel().Remove("llama.block_count"));
  EXPECT_THAT(error, HasSubstr("llama.block_count"));
  Plan(TwoLayerModel().SetU32("llama.block_count", 0xffffffff));
  EXPECT_THAT(error, HasSubstr("\"llama.block_count\" is 4294967295"));
  Plan(TwoLayerModel().SetText("llama.expert_count", "8"));
  EXPECT_THAT(error, HasSubstr("llama.expert_count"));
  EXPECT_EQ(code, ErrorCode::kCorrupt);
}

TEST_F(QuantizePlanTest, EightyLayersWithFewKvHeadsAre70b) {
  const auto attn_v = [&](const std::string& architecture, uint32_t kv_heads) {
    auto file = TwoLayerModel(architecture)
                    .SetU32(architecture + ".block_count", 80)
                    .SetU32(architecture + ".attention.head_count", 64);
    if (kv_heads != 0) {
      file.SetU32(architecture + ".attention.head_count_kv", kv_heads);
    }
    // A layer that the mix gives no more bits.
    Plan(file.SetTensor("blk.10.attn_v.weight", DType::kF16, {256, 64}));
    return types["blk.10.attn_v.weight"];
  };
  EXPECT_EQ(attn_v("llama", 8), "Q5_K");
  EXPECT_EQ(attn_v("llama", 64), "Q4_K");
  EXPECT_EQ(attn_v("llama", 0), "Q4_K");
  EXPECT_EQ(attn_v("qwen2", 64), "Q5_K");
  EXPECT_EQ(attn_v("bamboo", 8), "Q4_K");
}

}  // namespace
}  // namespace thermocline::quantize
