// `exact` is `dense`: every golden file and the demo model with an activation
// of the ReLU family, in the type that the file has, in F32 and quantised, as
// it lies, bundled at load and packed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "compute/test_compute.h"
#include "engine/session.h"
#include "engine/test_golden.h"
#include "kernels/isa.h"
#include "model/model.h"
#include "os/test_folder.h"
#include "pack/pack.h"
#include "quantize/quantize.h"

namespace thermocline {
namespace {

using engine::FfnMode;
using engine::SessionOptions;
using gguf::FileType;
using ModelPtr = std::shared_ptr<const model::Model>;

// Weights in floats: the order of sums alone. In blocks: dense rounds the
// hidden vector to 8 bits, exact in other groups or not at all.
constexpr double kFloatNmse = 1e-10;
constexpr double kQuantisedNmse = 1e-3;

const std::string kTestData = std::string(TC_TEST_DATA) + "/";
constexpr char kDemo[] = "thermocline-demo-8.8m-f16.gguf";
// Enough to tell, and soon done in a sanitizer's build.
constexpr size_t kDemoTokens = 12;
constexpr float kFatReluThreshold = 0.05f;

struct Case {
  Golden golden;  // `model` is a path
  std::optional<Activation> activation;
  std::optional<FileType> type;  // absent: as the file is
  std::string name;

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

// The model as the file is; one in floats also in `types`.
void AddCases(const std::string& folder, const Golden& golden,
              std::optional<Activation> activation,
              const std::vector<FileType>& types, std::vector<Case>& cases) {
  Case as_it_is = {.golden = golden, .activation = activation};
  as_it_is.golden.model = folder + golden.model;
  as_it_is.name = golden.model.substr(0, golden.model.find(".gguf"));
  std::ranges::replace_if(
      as_it_is.name, [](char c) { return std::isalnum(c) == 0; }, '_');
  if (activation) {
    as_it_is.name += "_" + std::string(NameOf(*activation));
  }
  cases.push_back(as_it_is);
  if (as_it_is.name.find("f16") == std::string::npos) return;
  for (const FileType type : types) {
    cases.push_back(as_it_is);
    cases.back().type = type;
    cases.back().name += "_as_" + std::string(gguf::InfoOf(type).name);
  }
}

Golden Demo() {
  Golden demo = {.model = kDemo, .tokens = {}, .vocab_size = 2048};
  for (size_t i = 0; i < kDemoTokens; ++i) {
    demo.tokens.push_back(static_cast<text::TokenId>(i * 61 % 2048));
  }
  return demo;
}

// PowerInfer's, those of squared ReLU and the demo model have activations of
// the family, the others are given one. FATReLU jumps at its threshold, so that
// rounding a product otherwise moves more than ReLU would: with the mixture it
// and DReLU are compared in floats.
std::vector<Case> AllCases() {
  const std::vector<FileType> all = {FileType::kF32, FileType::kQ8_0,
                                     FileType::kQ4_0};
  std::vector<Case> cases;
  for (const Golden& golden : ReadGoldens(kTestData + "golden-powerinfer")) {
    AddCases(kTestData + "golden-powerinfer/", golden, {}, all, cases);
  }
  for (const Golden& golden : ReadGoldens(kTestData + "golden")) {
    AddCases(kTestData + "golden/", golden, Activation::kRelu, all, cases);
    if (!golden.model.starts_with("mixtral")) continue;
    for (const Activation other : {Activation::kFatRelu, Activation::kDRelu}) {
      AddCases(kTestData + "golden/", golden, other, {FileType::kF32}, cases);
    }
  }
  const std::string newer = kTestData + "golden-2026/";
  for (const Golden& golden : ReadGoldens(newer)) {
    const bool has_zeros = golden.model.starts_with("nemotron") ||
                           golden.model.starts_with("arcee");
    if (has_zeros) {
      AddCases(newer, golden, {}, all, cases);
    } else {
      AddCases(newer, golden, Activation::kRelu, {}, cases);
    }
  }
  AddCases(std::string(TC_SOURCE_DIR) + "/models/demo/", Demo(), {}, all,
           cases);
  return cases;
}

bool HasFloats(const model::Model& model) {
  return std::ranges::all_of(
      model.file().tensors(), [](const gguf::TensorInfo& tensor) {
        return IsFloat(tensor.dtype) || !InfoOf(tensor.dtype).can_compute;
      });
}

class ExactGolden : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(GetParam().golden.model)) {
      GTEST_SKIP() << "needs " << GetParam().golden.model;
    }
  }

  ModelPtr Open(const std::string& path, bool bundle_at_load = false) const {
    model::ConfigOverrides overrides = {.ffn_activation =
                                            GetParam().activation};
    if (GetParam().activation == Activation::kFatRelu) {
      overrides.ffn_threshold = kFatReluThreshold;
    }
    auto model = model::Model::Open(path, {.bundle_at_load = bundle_at_load,
                                           .num_threads = 2,
                                           .overrides = overrides});
    EXPECT_TRUE(model.has_value()) << model.error().message;
    return model.value_or(nullptr);
  }

  // The file of the case, in another type if it asks for one.
  std::string MakeFile() const {
    if (!GetParam().type) return GetParam().golden.model;
    const auto file = gguf::File::Open(GetParam().golden.model);
    EXPECT_TRUE(file.has_value()) << file.error().message;
    const auto plan = quantize::PlanQuantization(
        **file, {.type = *GetParam().type, .pure = true});
    EXPECT_TRUE(plan.has_value()) << plan.error().message;
    const std::string path = folder_ / "other-type.gguf";
    const Status written =
        quantize::WriteQuantized(**file, *plan, path, {.num_threads = 2});
    EXPECT_TRUE(written.has_value()) << written.error().message;
    return path;
  }

  ModelPtr Packed(const model::Model& model) const {
    const std::string output = folder_ / "packed.gguf";
    const auto packed = pack::Pack(model, {}, output, {.num_threads = 2});
    EXPECT_TRUE(packed.has_value()) << packed.error().message;
    return Open(output);
  }

  std::vector<float> Logits(const ModelPtr& model, SessionOptions options,
                            size_t batch,
                            engine::SparseTotals* totals = nullptr) const {
    const auto& tokens = GetParam().golden.tokens;
    const size_t vocab_size = model->config().vocab_size;
    std::vector<float> logits(tokens.size() * vocab_size);
    options.context = static_cast<int64_t>(tokens.size());
    options.num_threads = 2;
    options.k_type = options.v_type = DType::kF32;
    const auto session = engine::Session::Create(model, options);
    EXPECT_TRUE(session.has_value()) << session.error().message;
    if (!session.has_value()) return logits;
    for (size_t begin = 0; begin < tokens.size(); begin += batch) {
      const size_t count = std::min(batch, tokens.size() - begin);
      const Status status = (*session)->Decode(
          std::span(tokens).subspan(begin, count),
          batch == 1 ? engine::Phase::kGenerate : engine::Phase::kPrompt,
          engine::LogitsOf::kAll,
          std::span(logits).subspan(begin * vocab_size, count * vocab_size));
      EXPECT_TRUE(status.has_value()) << status.error().message;
    }
    if (totals != nullptr) *totals = (*session)->sparse_totals();
    return logits;
  }

  // On every ISA; of the demo model, far larger than the others, on the best.
  std::vector<kernels::Isa> Isas() const {
    if (GetParam().golden.logits.empty()) return {kernels::BestIsa()};
    return compute::testing::IsasOfModels();
  }

  // One by one and in one batch.
  void ExpectExactIsDense(const ModelPtr& model, const char* form,
                          const std::vector<kernels::Isa>& isas) {
    ASSERT_NE(model, nullptr);
    const double most = HasFloats(*model) ? kFloatNmse : kQuantisedNmse;
    for (const kernels::Isa isa : isas) {
      for (const size_t batch : {size_t{1}, GetParam().golden.tokens.size()}) {
        SCOPED_TRACE(std::string(form) + ", " +
                     std::string(kernels::NameOf(isa)) + ", batches of " +
                     std::to_string(batch));
        engine::SparseTotals totals;
        const auto dense =
            Logits(model, {.isa = isa, .ffn = FfnMode::kDense}, batch);
        const auto exact =
            Logits(model, {.isa = isa, .ffn = FfnMode::kExact}, batch, &totals);
        const double nmse = Nmse(exact, dense);
        EXPECT_LE(nmse, most);
        worst_ = std::max(worst_, nmse);
        if (batch > 1) continue;
        // And it is something else that was computed.
        EXPECT_EQ(totals.num_candidates, totals.num_neurons);
        EXPECT_LT(totals.num_open, totals.num_neurons * 7 / 10);
        EXPECT_GT(totals.num_open, 0u);
      }
    }
  }

  void TearDown() override {
    RecordProperty("worst_nmse", std::to_string(worst_ * 1e12) + "e-12");
  }

  os::TestFolder folder_;
  double worst_ = 0;
};

// As it lies, and in both ways that make records of it.
TEST_P(ExactGolden, PlainBundledAndPacked) {
  const ModelPtr model = Open(MakeFile());
  ASSERT_NE(model, nullptr);
  ASSERT_TRUE(HasZeros(CommonFfn(model->config()).activation));
  ExpectExactIsDense(model, "as it lies", Isas());
  const ModelPtr bundled = Open(model->file().path(), true);
  ExpectExactIsDense(bundled, "bundled at load", {kernels::BestIsa()});
  const ModelPtr packed = Packed(*model);
  ExpectExactIsDense(packed, "packed", {kernels::BestIsa()});
  ASSERT_TRUE(bundled != nullptr && packed != nullptr);
  const auto exact = Logits(packed, {.ffn = FfnMode::kExact}, 1);
  EXPECT_EQ(Logits(bundled, {.ffn = FfnMode::kExact}, 1), exact);
  if (!HasFloats(*model)) return;
  EXPECT_LE(Nmse(exact, Logits(model, {.ffn = FfnMode::kDense}, 1)),
            kFloatNmse);
}

INSTANTIATE_TEST_SUITE_P(Files, ExactGolden, ::testing::ValuesIn(AllCases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return info.param.name;
                         });

TEST(ExactGoldenFiles, AreAllRun) {
  const auto cases = AllCases();
  size_t num_files = 0;
  for (const char* folder : {"golden", "golden-2026", "golden-powerinfer"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(kTestData + folder)) {
      if (entry.path().extension() != ".gguf") continue;
      ++num_files;
      EXPECT_TRUE(std::ranges::any_of(cases, [&](const Case& c) {
        return c.golden.model == entry.path();
      })) << entry.path();
    }
  }
  EXPECT_EQ(num_files, 24u);
}

}  // namespace
}  // namespace thermocline
