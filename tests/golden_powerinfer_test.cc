// PowerInfer's files, run as PowerInfer runs them: its logits of tiny random
// models, one token at a time, with its predictors deciding at every position.
#include <gtest/gtest.h>

#include <cctype>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/session.h"
#include "engine/test_golden.h"
#include "kernels/isa.h"
#include "kernels/kernels.h"
#include "model/model.h"

namespace thermocline {
namespace {

const std::string kFolder = std::string(TC_TEST_DATA) + "/golden-powerinfer";
// PowerInfer rounds what meets F16 weights to F16, and a score within rounding
// of the threshold flips a neuron: 7e-4 was measured. A predictor that is fed
// the wrong tensor is off by 5e-3 at least.
constexpr double kTolerance = 2e-3;

// Of products whose inputs are rounded to 2^-18, and not.
constexpr double kFormsNmse = 1e-9;

// Whether many tokens of F16 are multiplied otherwise than a few.
bool HasFormForMany(kernels::Isa isa) {
  return kernels::KernelsFor(isa).float_batch.multiply(DType::kF16) != nullptr;
}

struct Case {
  Golden golden;
  kernels::Isa isa;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.golden.model << " with " << kernels::NameOf(c.isa);
  }
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const Golden& golden : ReadGoldens(kFolder)) {
    for (const kernels::Isa isa : kernels::SupportedIsas()) {
      cases.push_back({golden, isa});
    }
  }
  return cases;
}

std::string NameOfCase(const ::testing::TestParamInfo<Case>& param_info) {
  std::string name = param_info.param.golden.model + "_" +
                     std::string(kernels::NameOf(param_info.param.isa));
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

std::shared_ptr<const model::Model> Open(const std::string& name) {
  auto model = model::Model::Open(kFolder + "/" + name);
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return model.has_value() ? *model : nullptr;
}

std::vector<float> LogitsOf(std::shared_ptr<const model::Model> model,
                            const Golden& golden, size_t batch,
                            engine::SessionOptions options) {
  options.num_threads = 2;
  options.k_type = options.v_type = DType::kF32;
  auto session = engine::Session::Create(std::move(model), options);
  EXPECT_TRUE(session.has_value()) << session.error().message;
  std::vector<float> logits(golden.logits.size());
  if (!session.has_value()) return logits;
  for (size_t begin = 0; begin < golden.tokens.size(); begin += batch) {
    const Status status = (*session)->Decode(
        std::span(golden.tokens).subspan(begin, batch),
        batch == 1 ? engine::Phase::kGenerate : engine::Phase::kPrompt,
        engine::LogitsOf::kAll,
        std::span(logits).subspan(begin * golden.vocab_size,
                                  batch * golden.vocab_size));
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
  return logits;
}

class GoldenPowerInfer : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenPowerInfer, LogitsOneByOneAndInOneBatch) {
  const Golden& golden = GetParam().golden;
  ASSERT_EQ(golden.logits.size(), golden.tokens.size() * golden.vocab_size);
  const auto model = Open(golden.model);
  ASSERT_NE(model, nullptr);
  std::vector<float> one_by_one;
  for (const size_t batch : {size_t{1}, golden.tokens.size()}) {
    const std::vector<float> logits =
        LogitsOf(model, golden, batch, {.isa = GetParam().isa});
    const double nmse = Nmse(logits, golden.logits);
    EXPECT_LE(nmse, kTolerance) << "batch of " << batch;
    RecordProperty("nmse", std::to_string(nmse * 1e6) + "e-6");
    for (size_t t = 0; t < golden.tokens.size(); ++t) {
      const size_t begin = t * golden.vocab_size;
      ExpectSameChoice(
          std::span(logits).subspan(begin, golden.vocab_size),
          std::span(golden.logits).subspan(begin, golden.vocab_size), t);
    }
    if (batch == 1) {
      one_by_one = logits;
    } else if (HasFormForMany(GetParam().isa)) {
      EXPECT_LE(Nmse(logits, one_by_one), kFormsNmse);
    } else {
      EXPECT_EQ(logits, one_by_one) << "batches change bits";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenPowerInfer,
                         ::testing::ValuesIn(AllCases()), NameOfCase);

// What the tolerance can tell: the mask matters.
TEST(PowerInferMask, DenseIsAnotherResult) {
  const std::vector<Golden> goldens = ReadGoldens(kFolder);
  ASSERT_FALSE(goldens.empty()) << kFolder;
  for (const Golden& golden : goldens) {
    const auto model = Open(golden.model);
    ASSERT_NE(model, nullptr);
    const auto logits =
        LogitsOf(model, golden, 1, {.ffn = engine::FfnMode::kDense});
    EXPECT_GT(Nmse(logits, golden.logits), 2 * kTolerance) << golden.model;
  }
}

}  // namespace
}  // namespace thermocline
