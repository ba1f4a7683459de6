#include "engine/forward/host_forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "compute/test_compute.h"
#include "engine/session.h"
#include "engine/testing/reference.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::kFloatNmse;
using testing::kRoundedNmse;
using testing::MakeTinyModel;
using testing::Nmse;
using testing::RandomTokens;
using testing::ReferenceLogits;
using testing::TinySpec;
using testing::WideSpec;

std::vector<float> LogitsOf(const std::shared_ptr<const model::Model>& model,
                            const std::vector<text::TokenId>& tokens,
                            kernels::Isa isa) {
  return testing::DecodeAll(model, tokens, {.num_threads = 2, .isa = isa});
}

void ExpectLikeReference(const TinySpec& spec, double tolerance) {
  const auto model = MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto tokens = RandomTokens(23, spec.vocab_size);
  const auto expected = ReferenceLogits(*model, tokens);
  for (const kernels::Isa isa : compute::testing::IsasOfModels()) {
    const bool in_halves =
        kernels::KernelsFor(isa).float_batch.multiply(spec.dtype) != nullptr;
    EXPECT_LE(Nmse(LogitsOf(model, tokens, isa), expected),
              in_halves ? std::max(tolerance, testing::kHalvesNmse) : tolerance)
        << kernels::NameOf(isa);
  }
}

struct Variant {
  std::string name;
  std::function<void(TinySpec&)> change;
};

void PrintTo(const Variant& variant, std::ostream* out) {
  *out << variant.name;
}

class FloatModels : public ::testing::TestWithParam<Variant> {};

TEST_P(FloatModels, AreLikeTheReference) {
  TinySpec spec;
  GetParam().change(spec);
  ExpectLikeReference(spec, kFloatNmse);
}

// What changes the model must change the logits by far more than the
// tolerance, or the comparison above would show nothing.
TEST_P(FloatModels, DifferFromThePlainOne) {
  TinySpec spec;
  GetParam().change(spec);
  const auto changed = MakeTinyModel(spec);
  const auto plain = MakeTinyModel(TinySpec());
  ASSERT_TRUE(changed != nullptr && plain != nullptr);
  if (GetParam().name == "Plain") return;
  const auto tokens = RandomTokens(23, TinySpec().vocab_size);
  const auto expected = ReferenceLogits(*plain, tokens);
  const auto logits = LogitsOf(changed, tokens, kernels::Isa::kScalar);
  EXPECT_GT(Nmse(logits, expected), 1000 * kFloatNmse);
}

INSTANTIATE_TEST_SUITE_P(
    Forward, FloatModels,
    ::testing::Values(
        Variant{"Plain", [](TinySpec&) {}},
        Variant{"F16", [](TinySpec& s) { s.dtype = DType::kF16; }},
        Variant{"Bf16", [](TinySpec& s) { s.dtype = DType::kBF16; }},
        Variant{"Tied", [](TinySpec& s) { s.tied = true; }},
        Variant{"Biases", [](TinySpec& s) { s.biases = true; }},
        Variant{"Qwen2",
                [](TinySpec& s) {
                  s.architecture = "qwen2";
                  s.biases = true;
                }},
        Variant{"MultiHead", [](TinySpec& s) { s.num_kv_heads = 6; }},
        Variant{"MultiQuery", [](TinySpec& s) { s.num_kv_heads = 1; }},
        Variant{"OddSizes",
                [](TinySpec& s) {
                  s.width = 77;
                  s.ffn_width = 131;
                  s.num_heads = 3;
                  s.num_kv_heads = 1;
                  s.head_width = 10;
                  s.vocab_size = 61;
                }},
        // Embeddings about as small as the root of epsilon.
        Variant{"SmallEmbeddings",
                [](TinySpec& s) { s.embedding_scale = 1e-3f; }},
        Variant{"Epsilon", [](TinySpec& s) { s.norm_epsilon = 1e-3f; }},
        Variant{"Base", [](TinySpec& s) { s.rope_base = 500000.0f; }},
        Variant{"FreqFactors", [](TinySpec& s) { s.freq_factors = true; }},
        Variant{"Linear",
                [](TinySpec& s) {
                  s.rope_scaling = "linear";
                  s.rope_factor = 4.0f;
                }},
        Variant{"Yarn",
                [](TinySpec& s) {
                  s.rope_scaling = "yarn";
                  s.rope_factor = 2.0f;
                  s.rope_original_context = 512;
                }},
        Variant{"Gelu", [](TinySpec& s) { s.activation = "gelu"; }},
        Variant{"Relu", [](TinySpec& s) { s.activation = "relu"; }},
        Variant{"DRelu", [](TinySpec& s) { s.activation = "drelu"; }},
        Variant{"FatRelu",
                [](TinySpec& s) {
                  s.activation = "fatrelu";
                  s.threshold = 0.1f;
                }}),
    [](const auto& param_info) { return param_info.param.name; });

class QuantisedModels : public ::testing::TestWithParam<DType> {};

TEST_P(QuantisedModels, AreLikeTheReference) {
  ExpectLikeReference(WideSpec(GetParam()), kRoundedNmse);
}

INSTANTIATE_TEST_SUITE_P(Forward, QuantisedModels,
                         ::testing::Values(DType::kQ8_0, DType::kQ4_0,
                                           DType::kQ4_1, DType::kQ5_0,
                                           DType::kQ5_1, DType::kQ4_K,
                                           DType::kQ5_K, DType::kQ6_K),
                         [](const auto& param_info) {
                           return std::string(NameOf(param_info.param));
                         });

TEST(Forward, TypesMixedWithinALayer) {
  TinySpec spec = WideSpec(DType::kQ4_K);
  spec.value_dtype = DType::kQ6_K;
  spec.embedding_dtype = DType::kF16;
  ExpectLikeReference(spec, kRoundedNmse);
  spec.value_dtype = DType::kF32;  // q and k of 8 bits, v of 32, one region
  ExpectLikeReference(spec, kRoundedNmse);
}

TEST(Forward, EpsilonIsSeenAtItsOwnSize) {
  TinySpec spec;
  spec.embedding_scale = 1e-3f;
  const auto tokens = RandomTokens(9, spec.vocab_size);
  const auto with = MakeTinyModel(spec);
  spec.norm_epsilon = 1e-6f;
  const auto without = MakeTinyModel(spec);
  ASSERT_TRUE(with != nullptr && without != nullptr);
  EXPECT_GT(Nmse(LogitsOf(without, tokens, kernels::Isa::kScalar),
                 ReferenceLogits(*with, tokens)),
            1e-3);
}

}  // namespace
}  // namespace thermocline::engine
