#include "engine/ffn/predictor_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compute/test_compute.h"
#include "engine/session.h"
#include "engine/testing/test_mixtures.h"
#include "engine/testing/test_predictor_parts.h"
#include "engine/testing/tiny_model.h"
#include "tensor/codec.h"

namespace thermocline::engine {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::PredictorParts;
using testing::TinySpec;

using Set = std::vector<uint32_t>;
using ModelPtr = std::shared_ptr<const model::Model>;

ModelPtr OpenGolden(const std::string& name) {
  auto model =
      model::Model::Open(std::string(TC_TEST_DATA) + "/golden-powerinfer/" +
                         name + "-f16.powerinfer.gguf");
  EXPECT_TRUE(model) << model.error().message;
  return *model;
}

// Generates a few tokens.
void Observe(const ModelPtr& model, SessionOptions options,
             const FfnObserver& look) {
  options.context = 16;
  options.num_threads = 2;
  options.observer = look;
  auto session = Session::Create(model, options);
  ASSERT_TRUE(session) << session.error().message;
  for (text::TokenId token = 3; token < 11; ++token) {
    const Status status =
        (*session)->Generate({&token, 1}, LogitsOf::kNone, {});
    ASSERT_TRUE(status) << status.error().message;
  }
}

// In a fast session the candidates of each layer are whom the probe finds from
// the input of the layer that its predictor was made for.
void ExpectCandidates(const ModelPtr& model, PredictorChoice predictor) {
  for (const kernels::Isa isa : compute::testing::IsasOfModels()) {
    auto probe = PredictorProbe::Create(model, isa);
    ASSERT_TRUE(probe) << probe.error().message;
    std::map<size_t, Set> wanted;  // by layer
    size_t num_named = 0;
    const auto look = [&](const FfnObservation& seen) {
      for (const size_t l : {seen.layer_idx, seen.layer_idx + 1}) {
        if (l >= model->config().num_layers) continue;
        if ((*probe)->SourceOf(l) != seen.layer_idx) continue;
        const auto named = (*probe)->Ask(seen, l);
        ASSERT_TRUE(named) << named.error().message;
        wanted[l] = Set(named->begin(), named->end());
      }
      EXPECT_THAT(seen.candidates, ElementsAreArray(wanted[seen.layer_idx]));
      num_named += seen.candidates.size();
    };
    Observe(model, {.isa = isa, .ffn = FfnMode::kFast, .predictor = predictor},
            look);
    const model::Config& config = model->config();
    const size_t num_used = model::CommonFfn(config).num_experts_used;
    const size_t num_all = 8 * config.num_layers * MaxFfnWidth(config) *
                           std::max<size_t>(num_used, 1);
    EXPECT_GT(num_named, 0u);
    EXPECT_LT(num_named, num_all * 9 / 10);  // else it shows nothing
  }
}

TEST(PredictorProbe, NamesTheCandidatesOfPowerInfersFiles) {
  for (const char* name : {"llama", "bamboo", "opt", "falcon"}) {
    SCOPED_TRACE(name);
    ExpectCandidates(OpenGolden(name), PredictorChoice::kTrained);
  }
}

// The layer before, and layers without one, whose neurons are all named.
TEST(PredictorProbe, NamesTheCandidatesOfKairoxsFiles) {
  TinySpec spec = {.num_layers = 4, .predictor_rank = 32};
  testing::UseArchitecture("prosparse-llama", spec);
  spec.predictor_rank = 32;
  spec.low_ranks = {0, 32, 0, 32};
  ExpectCandidates(testing::MakeTinyModel(spec), PredictorChoice::kTrained);
}

TEST(PredictorProbe, NamesTheCandidatesOfOurFiles) {
  for (const size_t lookahead : {0, 1}) {
    TinySpec spec = {.num_layers = 3, .activation = "relu"};
    const ModelPtr source =
        testing::OpenTinyModel(spec, {.bundle_at_load = true}).value();
    PredictorParts parts(spec, lookahead);
    parts.Gather(source);
    ExpectCandidates(testing::OpenWithParts(*source, parts).value(),
                     PredictorChoice::kTrained);
  }
}

TEST(PredictorProbe, OfAMixtureThoseOfItsExperts) {
  const testing::TwoMixtures mixture({.name = "with predictors",
                                      .activation = "relu",
                                      .mode = FfnMode::kFast,
                                      .form = testing::Form::kWithPredictors});
  ExpectCandidates(mixture.mapped, PredictorChoice::kTrained);
}

// Of a file that has signs alone; here they are random.
TEST(PredictorProbe, NamesWhomSignsLetThrough) {
  TinySpec spec = {.num_layers = 3, .activation = "relu"};
  const ModelPtr source =
      testing::OpenTinyModel(spec, {.bundle_at_load = true}).value();
  PredictorParts parts(spec);
  parts.has_signs = true;
  std::vector<model::ExtraTensor> tensors;
  Random random(5);
  for (model::ExtraTensor& tensor : parts.Tensors()) {
    if (tensor.name.find("tc_free") == std::string::npos) continue;
    for (std::byte& byte : tensor.bytes) {
      byte = static_cast<std::byte>(random.Uniform() * 256);
    }
    // The bits behind the width are 0.
    const size_t row_bytes = tensor.shape.ne[0];
    for (size_t i = 0; i < tensor.bytes.size(); ++i) {
      if (i % row_bytes >= spec.width / 8) tensor.bytes[i] = std::byte{0};
    }
    tensors.push_back(std::move(tensor));
  }
  const std::vector<gguf::KeyValue> keys = {
      {"thermocline.free.max_differences", gguf::ValueType::kArray,
       gguf::Array{
           gguf::ValueType::kI64,
           std::vector<int64_t>(3, static_cast<int64_t>(spec.width / 2))}}};
  const os::TestFolder folder;
  const std::string path = folder / "model.gguf";
  ASSERT_TRUE(model::WritePreparedFile(*source, keys, tensors, path));
  ExpectCandidates(model::Model::Open(path).value(),
                   PredictorChoice::kTrainingFree);
}

std::vector<double> RowOf(const TensorView& matrix, size_t row) {
  std::vector<float> values(matrix.shape.ne[0]);
  DequantizeRow(matrix.dtype, matrix.row(row), values);
  return {values.begin(), values.end()};
}

double BiasOf(const TensorView& bias, size_t i) {
  return bias ? reinterpret_cast<const float*>(bias.data)[i] : 0.0;
}

// Scores of a trained predictor, in double precision.
std::vector<double> SlowScores(const model::PredictorWeights& weights,
                               std::span<const float> x) {
  std::vector<double> hidden;
  for (size_t r = 0; r < weights.up.shape.num_rows(); ++r) {
    const std::vector<double> row = RowOf(weights.up, r);
    double sum = BiasOf(weights.up_bias, r);
    for (size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
    hidden.push_back(std::max(sum, 0.0));
  }
  std::vector<double> scores;
  for (size_t n = 0; n < weights.down.shape.num_rows(); ++n) {
    const std::vector<double> row = RowOf(weights.down, n);
    double sum = BiasOf(weights.down_bias, n);
    for (size_t r = 0; r < hidden.size(); ++r) sum += row[r] * hidden[r];
    scores.push_back(sum);
  }
  return scores;
}

// Every layer asked from every earlier one, against sums in double precision.
TEST(PredictorProbe, AskedAheadItNamesWhatItsScoresSay) {
  const ModelPtr model = OpenGolden("llama");
  const model::Config& config = model->config();
  ASSERT_EQ(config.predictor.input, model::PredictorInput::kStream);
  auto probe = PredictorProbe::Create(model, kernels::BestIsa());
  ASSERT_TRUE(probe);
  size_t num_differ = 0;  // from what is named without looking ahead
  const auto look = [&](const FfnObservation& seen) {
    const auto own = (*probe)->Ask(seen, seen.layer_idx);
    const Set near(own->begin(), own->end());
    for (size_t l = seen.layer_idx; l < config.num_layers; ++l) {
      const auto named = (*probe)->Ask(seen, l);
      ASSERT_TRUE(named);
      num_differ += Set(named->begin(), named->end()) == near ? 0 : 1;
      const std::vector<double> scores =
          SlowScores(model->weights().layers[l].predictor, seen.stream);
      for (uint32_t i = 0; i < scores.size(); ++i) {
        const double above = scores[i] - config.predictor.threshold;
        if (std::abs(above) < 1e-3) continue;
        EXPECT_EQ(std::ranges::binary_search(*named, i), above > 0.0)
            << seen.layer_idx << ' ' << l << ' ' << i;
      }
    }
  };
  Observe(model, {.ffn = FfnMode::kDense}, look);
  EXPECT_GT(num_differ, 0u);
}

TEST(PredictorProbe, SaysWhatIsMissing) {
  const auto probe =
      PredictorProbe::Create(testing::MakeTinyModel({}), kernels::BestIsa());
  ASSERT_FALSE(probe);
  EXPECT_EQ(probe.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(probe.error().message, HasSubstr("brings no predictors"));
}

TEST(PredictorProbe, NamesALayerWhoseScoresAreNotFinite) {
  TinySpec spec = {.num_layers = 3};
  testing::UseArchitecture("prosparse-llama", spec);
  spec.predictor_rank = 32;
  spec.edit = [](const std::string& name, std::span<float> values) {
    if (name == "blk.2.ffn_pred_down.weight") values[0] = NAN;
  };
  const ModelPtr model = testing::MakeTinyModel(spec);
  auto probe = PredictorProbe::Create(model, kernels::BestIsa());
  ASSERT_TRUE(probe) << probe.error().message;
  const std::vector<float> x(model->config().width, 1.0f);
  const FfnObservation seen = {.layer_idx = 1, .input = x, .stream = x};
  EXPECT_TRUE((*probe)->Ask(seen, 1));
  const auto named = (*probe)->Ask(seen, 2);
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message, HasSubstr(": layer 2: "));
}

}  // namespace
}  // namespace thermocline::engine
