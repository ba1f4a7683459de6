#include "engine/ffn/predictor_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/session.h"
#include "engine/testing/tiny_model.h"
#include "model/test_prepared.h"
#include "os/test_folder.h"
#include "tensor/codec.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::TinySpec;

constexpr size_t kSamples = 8;
constexpr size_t kRank = 32;

TinySpec SpecOf(uint64_t seed) {
  TinySpec spec;
  spec.activation = "relu";
  spec.num_layers = 4;
  spec.seed = seed;
  return spec;
}

std::shared_ptr<const model::Model> OpenBundled(const TinySpec& spec) {
  const auto model = testing::OpenTinyModel(spec, {.bundle_at_load = true});
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return model.value_or(nullptr);
}

template <typename T>
std::vector<std::byte> BytesOfAll(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A predictor of random weights for every layer, and a self-test of what the
// model does for some tokens.
class Parts {
 public:
  explicit Parts(const TinySpec& spec, int64_t lookahead = 0)
      : lookahead(lookahead), spec_(spec) {
    Random random(77);
    const auto width = static_cast<size_t>(spec.width);
    const auto num_neurons = static_cast<size_t>(spec.ffn_width);
    const auto num_layers = static_cast<size_t>(spec.num_layers);
    const auto fill = [&](size_t count) {
      std::vector<float> values(count);
      for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
      return values;
    };
    for (size_t i = 0; i < num_layers; ++i) {
      up_.push_back(fill(kRank * width));
      down_.push_back(fill(num_neurons * kRank));
    }
    inputs_.resize(num_layers);
    fired_.resize(num_layers);
    candidates_.resize(num_layers);
  }

  // Runs the model on all layers' inputs.
  void Gather(const std::shared_ptr<const model::Model>& model) {
    SessionOptions options = {.ffn = FfnMode::kDense};
    options.observer = [&](const FfnObservation& seen) {
      const auto layer = static_cast<size_t>(seen.layer_idx);
      inputs_[layer].insert(inputs_[layer].end(), seen.input.begin(),
                            seen.input.end());
      const size_t set_bytes = static_cast<size_t>(spec_.ffn_width + 7) / 8;
      const size_t sample = fired_[layer].size() / set_bytes;
      std::vector<uint8_t> set(set_bytes);
      for (const uint32_t i : seen.fired) {
        set[i / 8] |= static_cast<uint8_t>(1u << i % 8);
      }
      fired_[layer].insert(fired_[layer].end(), set.begin(), set.end());
      const bool is_before = lookahead == 1 && layer > 0;
      const size_t source = is_before ? layer - 1 : layer;
      const size_t width = seen.input.size();
      set = Candidates(
          layer, std::span(inputs_[source]).subspan(sample * width, width));
      candidates_[layer].insert(candidates_[layer].end(), set.begin(),
                                set.end());
    };
    testing::DecodeAll(model, testing::RandomTokens(kSamples, spec_.vocab_size),
                       options);
  }

  // Makes the candidates of the last layer others.
  void SpoilCandidates() {
    for (uint8_t& byte : candidates_.back()) {
      byte = static_cast<uint8_t>(~byte);
    }
  }

  std::vector<model::ExtraTensor> Tensors() const {
    std::vector<model::ExtraTensor> tensors;
    const auto add = [&](size_t layer, const std::string& name, DType dtype,
                         size_t n, size_t rows, std::vector<std::byte> bytes) {
      tensors.push_back({"blk." + std::to_string(layer) + "." + name,
                         dtype,
                         {{n, rows, 1, 1}, 2},
                         std::move(bytes)});
    };
    const auto width = static_cast<size_t>(spec_.width);
    const auto num_neurons = static_cast<size_t>(spec_.ffn_width);
    for (size_t i = 0; i < up_.size(); ++i) {
      add(i, "tc_pred_up.weight", DType::kF32, width, kRank,
          BytesOfAll(up_[i]));
      add(i, "tc_pred_down.weight", DType::kF32, kRank, num_neurons,
          BytesOfAll(down_[i]));
      tensors.push_back({"blk." + std::to_string(i) + ".tc_pred_down.bias",
                         DType::kF32,
                         {{num_neurons, 1, 1, 1}, 1},
                         BytesOfAll(std::vector<float>(num_neurons))});
      add(i, "tc_selftest.inputs", DType::kF32, width, kSamples,
          BytesOfAll(inputs_[i]));
      add(i, "tc_selftest.fired", DType::kI8, (num_neurons + 7) / 8, kSamples,
          BytesOfAll(fired_[i]));
      add(i, "tc_selftest.candidates", DType::kI8, (num_neurons + 7) / 8,
          kSamples, BytesOfAll(candidates_[i]));
    }
    return tensors;
  }

  const int64_t lookahead;

 private:
  std::vector<uint8_t> Candidates(size_t layer,
                                  std::span<const float> x) const {
    const auto num_neurons = static_cast<size_t>(spec_.ffn_width);
    std::vector<uint8_t> set((num_neurons + 7) / 8);
    std::vector<double> hidden(kRank);
    for (size_t r = 0; r < kRank; ++r) {
      for (size_t c = 0; c < x.size(); ++c) {
        hidden[r] += static_cast<double>(up_[layer][r * x.size() + c]) * x[c];
      }
      hidden[r] = std::max(hidden[r], 0.0);
    }
    for (size_t i = 0; i < num_neurons; ++i) {
      double score = 0.0;
      for (size_t r = 0; r < kRank; ++r) {
        score += down_[layer][i * kRank + r] * hidden[r];
      }
      if (score >= 0.0) set[i / 8] |= static_cast<uint8_t>(1u << i % 8);
    }
    return set;
  }

  TinySpec spec_;
  std::vector<std::vector<float>> up_, down_, inputs_;
  std::vector<std::vector<uint8_t>> fired_, candidates_;
};

// Opens a session on a model with these parts.
Status OpenWith(const std::shared_ptr<const model::Model>& source,
                const Parts& parts, FfnMode mode = FfnMode::kAuto) {
  const os::TestFolder folder;
  const std::string path = folder.path() + "/model.gguf";
  TC_RETURN_IF_ERROR(
      model::WritePreparedFile(*source,
                               {{"thermocline.predictor.lookahead",
                                 gguf::ValueType::kU32, parts.lookahead}},
                               parts.Tensors(), path));
  TC_ASSIGN_OR_RETURN(const auto model, model::Model::Open(path));
  TC_ASSIGN_OR_RETURN(const auto session,
                      Session::Create(model, {.num_threads = 2, .ffn = mode}));
  EXPECT_EQ(session->ffn(), mode == FfnMode::kAuto ? FfnMode::kFast : mode);
  return {};
}

TEST(SelfTest, PredictorsOfTheModelPass) {
  const auto model = OpenBundled(SpecOf(1));
  ASSERT_NE(model, nullptr);
  for (const int64_t lookahead : {0, 1}) {
    Parts parts(SpecOf(1), lookahead);
    parts.Gather(model);
    const Status status = OpenWith(model, parts);
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
}

TEST(SelfTest, PredictorsOfAnotherModelAreRefused) {
  const auto model = OpenBundled(SpecOf(1));
  const auto other = OpenBundled(SpecOf(2));
  ASSERT_TRUE(model != nullptr && other != nullptr);
  Parts parts(SpecOf(1));
  parts.Gather(model);
  const Status refused = OpenWith(other, parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("another model"));
  EXPECT_THAT(refused.error().message, HasSubstr("neurons that fired"));
  EXPECT_TRUE(OpenWith(other, parts, FfnMode::kExact).has_value());
}

TEST(SelfTest, OtherPredictorsAreRefused) {
  const auto model = OpenBundled(SpecOf(1));
  ASSERT_NE(model, nullptr);
  Parts parts(SpecOf(1));
  parts.Gather(model);
  parts.SpoilCandidates();
  const Status refused = OpenWith(model, parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("candidates when layer 3"));
}

}  // namespace
}  // namespace thermocline::engine
