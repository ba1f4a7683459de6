// Predictors of ours with random weights for a small random model, and files
// that have both, for tests.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_PREDICTOR_PARTS_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_PREDICTOR_PARTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/session.h"
#include "engine/testing/tiny_model.h"
#include "model/test_prepared.h"
#include "os/test_folder.h"

namespace thermocline::engine::testing {

inline constexpr size_t kNumSamples = 8;
inline constexpr size_t kPredictorRank = 32;

template <typename T>
std::vector<std::byte> BytesOfAll(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// A predictor of random weights for every layer, and a self-test of what the
// model does for some tokens.
class PredictorParts {
 public:
  explicit PredictorParts(const TinySpec& spec, size_t lookahead = 0)
      : lookahead(lookahead), spec_(spec) {
    Random random(77);
    const size_t width = spec.width;
    const size_t num_neurons = NumNeurons();
    const size_t num_layers = spec.num_layers;
    const auto fill = [&](size_t count) {
      std::vector<float> values(count);
      for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
      return values;
    };
    for (size_t i = 0; i < num_layers; ++i) {
      up_.push_back(fill(kPredictorRank * width));
      down_.push_back(fill(num_neurons * kPredictorRank));
    }
    inputs_.resize(num_layers);
    fired_.resize(num_layers);
    candidates_.resize(num_layers);
  }

  // Runs the model on all layers' inputs.
  void Gather(const std::shared_ptr<const model::Model>& model) {
    SessionOptions options = {.ffn = FfnMode::kDense};
    options.observer = [&](const FfnObservation& seen) {
      const size_t layer = seen.layer_idx;
      inputs_[layer].insert(inputs_[layer].end(), seen.input.begin(),
                            seen.input.end());
      const size_t set_bytes = (NumNeurons() + 7) / 8;
      const size_t sample = fired_[layer].size() / set_bytes;
      std::vector<uint8_t> set =
          BytesOfSet({seen.fired.begin(), seen.fired.end()});
      fired_[layer].insert(fired_[layer].end(), set.begin(), set.end());
      const bool is_before = lookahead == 1 && layer > 0;
      const size_t source = is_before ? layer - 1 : layer;
      const size_t width = seen.input.size();
      set = BytesOfSet(Candidates(
          layer, std::span(inputs_[source]).subspan(sample * width, width),
          seen.experts));
      candidates_[layer].insert(candidates_[layer].end(), set.begin(),
                                set.end());
    };
    DecodeAll(model, RandomTokens(kNumSamples, spec_.vocab_size), options);
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
    const size_t width = spec_.width;
    const size_t num_neurons = NumNeurons();
    for (size_t i = 0; i < up_.size(); ++i) {
      add(i, "tc_pred_up.weight", DType::kF32, width, kPredictorRank,
          BytesOfAll(up_[i]));
      add(i, "tc_pred_down.weight", DType::kF32, kPredictorRank, num_neurons,
          BytesOfAll(down_[i]));
      tensors.push_back({"blk." + std::to_string(i) + ".tc_pred_down.bias",
                         DType::kF32,
                         {{num_neurons, 1, 1, 1}, 1},
                         BytesOfAll(std::vector<float>(num_neurons))});
      add(i, "tc_selftest.inputs", DType::kF32, width, kNumSamples,
          BytesOfAll(inputs_[i]));
      add(i, "tc_selftest.fired", DType::kI8, (num_neurons + 7) / 8,
          kNumSamples, BytesOfAll(fired_[i]));
      add(i, "tc_selftest.candidates", DType::kI8, (num_neurons + 7) / 8,
          kNumSamples, BytesOfAll(candidates_[i]));
      const size_t sign_bytes = (width + 63) / 64 * sizeof(uint64_t);
      if (has_signs) {
        add(i, "tc_free_signs.weight", DType::kI8, sign_bytes, num_neurons,
            std::vector<std::byte>(num_neurons * sign_bytes));
        add(i, "tc_selftest.free", DType::kI8, (num_neurons + 7) / 8,
            kNumSamples, BytesOfAll(TrainingFreeSets()));
      }
    }
    return tensors;
  }

  // As many differences as there are signs, or none: every neuron goes on, or
  // hardly any.
  std::vector<gguf::KeyValue> Keys() const {
    std::vector<gguf::KeyValue> keys = {{"thermocline.predictor.lookahead",
                                         gguf::ValueType::kU32,
                                         static_cast<int64_t>(lookahead)}};
    if (has_signs) {
      keys.push_back(
          {"thermocline.free.max_differences", gguf::ValueType::kArray,
           gguf::Array{
               gguf::ValueType::kI64,
               std::vector<int64_t>(
                   up_.size(),
                   spoils_signs ? 0 : static_cast<int64_t>(spec_.width))}});
    }
    return keys;
  }

  const size_t lookahead;
  bool has_signs = false;     // a training-free predictor too
  bool spoils_signs = false;  // it names others than when it was made

  // The neurons whose score for x is not below 0; of a mixture, those of the
  // experts in use. Scores nearer to 0 than `margin` are in `unsure` instead.
  std::vector<uint32_t> Candidates(
      size_t layer, std::span<const float> x, std::span<const uint32_t> experts,
      double margin = 0.0, std::vector<uint32_t>* unsure = nullptr) const {
    std::vector<double> hidden(kPredictorRank);
    for (size_t r = 0; r < kPredictorRank; ++r) {
      for (size_t c = 0; c < x.size(); ++c) {
        hidden[r] += static_cast<double>(up_[layer][r * x.size() + c]) * x[c];
      }
      hidden[r] = std::max(hidden[r], 0.0);
    }
    std::vector<uint32_t> set;
    for (uint32_t i = 0; i < NumNeurons(); ++i) {
      const auto expert = i / static_cast<uint32_t>(spec_.ffn_width);
      if (!experts.empty() &&
          std::ranges::find(experts, expert) == experts.end()) {
        continue;
      }
      double score = 0.0;
      for (size_t r = 0; r < kPredictorRank; ++r) {
        score += down_[layer][i * kPredictorRank + r] * hidden[r];
      }
      if (std::abs(score) < margin) {
        unsure->push_back(i);
      } else if (score >= 0.0) {
        set.push_back(i);
      }
    }
    return set;
  }

 private:
  size_t NumNeurons() const {
    return spec_.ffn_width * std::max<size_t>(spec_.num_experts, 1);
  }
  std::vector<uint8_t> BytesOfSet(const std::vector<uint32_t>& ids) const {
    std::vector<uint8_t> set((NumNeurons() + 7) / 8);
    for (const uint32_t i : ids) {
      set[i / 8] |= static_cast<uint8_t>(1u << i % 8);
    }
    return set;
  }

  // Every neuron of every sample.
  std::vector<uint8_t> TrainingFreeSets() const {
    const size_t num_neurons = NumNeurons();
    std::vector<uint8_t> set((num_neurons + 7) / 8, 0xff);
    if (num_neurons % 8 != 0) {
      set.back() = static_cast<uint8_t>((1u << num_neurons % 8) - 1);
    }
    std::vector<uint8_t> sets;
    for (size_t s = 0; s < kNumSamples; ++s) {
      sets.insert(sets.end(), set.begin(), set.end());
    }
    return sets;
  }

  TinySpec spec_;
  std::vector<std::vector<float>> up_, down_, inputs_;
  std::vector<std::vector<uint8_t>> fired_, candidates_;
};

// The model with these parts; `source` was opened with bundle_at_load.
inline Result<std::shared_ptr<const model::Model>> OpenWithParts(
    const model::Model& source, const PredictorParts& parts) {
  const os::TestFolder folder;
  const std::string path = folder.path() + "/model.gguf";
  TC_RETURN_IF_ERROR(
      model::WritePreparedFile(source, parts.Keys(), parts.Tensors(), path));
  return model::Model::Open(path);
}

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_PREDICTOR_PARTS_H_
