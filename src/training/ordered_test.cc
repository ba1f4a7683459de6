// Files whose neurons lie in the order in which they fire together, against
// the model that they were made of.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "engine/session.h"
#include "training/prepare.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using OrderedPtr = std::shared_ptr<const model::Model>;
// Chunk, layer and position -> candidates and who fired, ascending.
using SeenSets = std::map<std::tuple<size_t, size_t, int64_t>,
                          std::array<std::vector<uint32_t>, 2>>;

std::vector<uint32_t> SourceNumbers(const model::Model& model,
                                    size_t layer_idx) {
  const TensorView& view = model.weights().layers[layer_idx].source_neurons;
  std::vector<uint32_t> numbers(view ? view.shape.num_elems() : 0);
  if (view) std::memcpy(numbers.data(), view.data, view.num_bytes());
  return numbers;
}

// By the numbers of the model that it was made of.
SeenSets SeenBy(const OrderedPtr& model, const Corpus& corpus,
                const engine::SessionOptions& options) {
  SeenSets seen;
  const auto status = RunCorpus(
      model, corpus, options, "test", {},
      [&](size_t chunk_idx, const engine::FfnObservation& token) {
        const auto numbers = SourceNumbers(*model, token.layer_idx);
        auto& sets = seen[{chunk_idx, token.layer_idx, token.position}];
        for (const size_t i : {0, 1}) {
          for (const uint32_t neuron :
               i == 0 ? token.candidates : token.fired) {
            sets[i].push_back(numbers.empty() ? neuron : numbers[neuron]);
          }
          std::ranges::sort(sets[i]);
        }
      });
  EXPECT_TRUE(status) << status.error().message;
  return seen;
}

// Inputs of the first layer have the same bits; those of others are sums in
// another order, that may move a neuron across its threshold.
void ExpectSameSets(const SeenSets& a, const SeenSets& b) {
  ASSERT_EQ(a.size(), b.size());
  size_t num_other = 0;
  for (const auto& [place, sets] : a) {
    const bool is_same = sets == b.at(place);
    if (std::get<1>(place) == 0) EXPECT_TRUE(is_same);
    num_other += is_same ? 0 : 1;
  }
  EXPECT_LE(num_other, a.size() / 100);
}

std::vector<float> LogitsOf(const OrderedPtr& model, const Corpus& corpus,
                            const engine::SessionOptions& options) {
  const auto session = engine::Session::Create(model, options);
  EXPECT_TRUE(session) << session.error().message;
  std::vector<float> logits(model->config().vocab_size);
  EXPECT_TRUE(
      (*session)->Prompt(corpus.chunk(0), engine::LogitsOf::kLast, logits));
  return logits;
}

double NmseOf(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return error / norm;
}

class OrderedTest : public ::testing::Test {
 protected:
  OrderedTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  ~OrderedTest() override { std::filesystem::remove_all(folder_); }

  OrderedPtr Write(bool in_order) const {
    const FindOptions find = {.session = {.num_threads = 2}, .num_steps = 20};
    const std::string path =
        folder_ + (in_order ? "/ordered.gguf" : "/plain.gguf");
    const auto prepared = PrepareTo(
        source_, corpus_, find,
        {.record_alignment = 4096, .in_order = in_order, .num_threads = 2},
        path);
    EXPECT_TRUE(prepared) << prepared.error().message;
    return model::Model::Open(path).value();
  }

  std::string folder_ = ::testing::TempDir() + "/ordered";
  OrderedPtr source_ = OpenTiny();
  Corpus corpus_ = SmallCorpus(*source_, 16);
};

TEST_F(OrderedTest, ComputesWhatTheSourceDoes) {
  const OrderedPtr plain = Write(false);
  const OrderedPtr ordered = Write(true);
  EXPECT_FALSE(std::ranges::is_sorted(SourceNumbers(*ordered, 0)));
  EXPECT_TRUE(SourceNumbers(*plain, 0).empty());
  using enum engine::PredictorChoice;
  for (const auto& [mode, predictor] :
       {std::pair{engine::FfnMode::kDense, kAuto},
        std::pair{engine::FfnMode::kExact, kAuto},
        std::pair{engine::FfnMode::kFast, kTrained},
        std::pair{engine::FfnMode::kFast, kTrainingFree}}) {
    SCOPED_TRACE(::testing::Message() << NameOf(mode));
    // The self-test runs as sessions open.
    const engine::SessionOptions options = {
        .num_threads = 2, .ffn = mode, .predictor = predictor};
    ExpectSameSets(SeenBy(ordered, corpus_, options),
                   SeenBy(plain, corpus_, options));
    EXPECT_LT(NmseOf(LogitsOf(ordered, corpus_, options),
                     LogitsOf(plain, corpus_, options)),
              mode == engine::FfnMode::kFast ? 1e-5 : 1e-9);
  }
  EXPECT_LT(
      NmseOf(LogitsOf(ordered, corpus_, {.ffn = engine::FfnMode::kExact}),
             LogitsOf(source_, corpus_, {.ffn = engine::FfnMode::kDense})),
      1e-9);
}

}  // namespace
}  // namespace thermocline::training
