#include "training/scan.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace thermocline::training {
namespace {

// Bins are 1/32 of a doubling wide, from 2^-24 to 2^8. The first holds all that
// is smaller, the last all that is larger.
constexpr int kBinsPerDoubling = 32;
constexpr int kLeastExponent = -24;
constexpr size_t kNumBins = 32 * kBinsPerDoubling;
constexpr int64_t kGateStep = 8;  // tokens

float Activate(Activation activation, float x) {
  if (activation == Activation::kGelu) {
    const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + std::tanh(inner));
  }
  return x / (1.0f + std::exp(-x));
}

size_t BinOf(float size) {
  if (!(size > 0.0f)) return 0;
  const float place = (std::log2(size) - kLeastExponent) * kBinsPerDoubling;
  return static_cast<size_t>(
      std::clamp(place, 0.0f, static_cast<float>(kNumBins - 1)));
}

// The least size in a bin.
float SizeOf(size_t bin) {
  if (bin == 0) return 0.0f;
  return std::exp2(static_cast<float>(bin) / kBinsPerDoubling + kLeastExponent);
}

}  // namespace

GateSizes::GateSizes(size_t num_layers, Activation activation)
    : activation_(activation),
      counts_(num_layers, std::vector<uint64_t>(kNumBins)) {}

void GateSizes::Add(size_t layer_idx, std::span<const float> gate) {
  std::vector<uint64_t>& counts = counts_[layer_idx];
  for (const float x : gate) {
    ++counts[BinOf(std::abs(Activate(activation_, x)))];
  }
}

float GateSizes::ThresholdFor(size_t layer_idx, double density) const {
  const std::vector<uint64_t>& counts = counts_[layer_idx];
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  if (total == 0) return 0.0f;
  const double wanted = density * static_cast<double>(total);
  uint64_t num_above = 0;
  for (size_t bin = kNumBins; bin-- > 1;) {
    num_above += counts[bin];
    if (static_cast<double>(num_above) >= wanted) return SizeOf(bin);
  }
  return 0.0f;
}

std::vector<float> GateSizes::ThresholdsFor(double density) const {
  std::vector<float> out(counts_.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = ThresholdFor(i, density);
  return out;
}

Scan::Scan(const model::Config& config, const Corpus& corpus, bool wants_gates)
    : wants_gates_(wants_gates),
      test_chunk_(7),
      test_step_(std::max<size_t>(1, corpus.chunk_tokens() / kNumSelfTests)),
      builder_(static_cast<size_t>(config.num_layers),
               static_cast<size_t>(model::NeuronsPerLayer(config))),
      gates_(static_cast<size_t>(config.num_layers), config.ffn.activation),
      self_test_(static_cast<size_t>(config.num_layers)) {
  TC_CHECK(corpus.num_chunks() > test_chunk_ && Corpus::IsHeldOut(test_chunk_));
}

void Scan::Add(size_t chunk_idx, const engine::FfnObservation& seen) {
  if (chunk_idx != last_chunk_) {
    builder_.BeginSequence();
    last_chunk_ = chunk_idx;
  }
  const auto layer_idx = static_cast<size_t>(seen.layer_idx);
  builder_.Add(layer_idx, seen.fired);
  if (wants_gates_ && seen.position % kGateStep == 0) {
    gates_.Add(layer_idx, seen.gate);
  }
  convert::LayerSelfTest& test = self_test_[layer_idx];
  // The last position of each stretch: the first token of a chunk is BOS, which
  // is like no other.
  if (chunk_idx == test_chunk_ && test.fired.size() < kNumSelfTests &&
      (static_cast<size_t>(seen.position) + 1) % test_step_ == 0) {
    test.inputs.insert(test.inputs.end(), seen.input.begin(), seen.input.end());
    test.fired.emplace_back(seen.fired.begin(), seen.fired.end());
  }
}

}  // namespace thermocline::training
