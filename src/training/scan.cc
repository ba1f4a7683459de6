#include "training/scan.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace thermocline::training {
namespace {

// Bins are 1/1024 of a doubling wide, from 2^-24 to 2^8: 256 KiB a layer. SiLU
// has a least value, -0.278, around which many gates lie close together. The
// first bin holds all that is smaller, the last all that is larger.
constexpr int kBinsPerDoubling = 1024;
constexpr int kLeastExponent = -24;
constexpr size_t kNumBins = size_t{32} * kBinsPerDoubling;
constexpr size_t kGateStep = 8;  // tokens

size_t BinOf(float size) {
  if (!(size > 0.0f)) return 0;
  const float place = (std::log2(size) - kLeastExponent) * kBinsPerDoubling;
  return static_cast<size_t>(
      std::clamp(place, 0.0f, static_cast<float>(kNumBins - 1)));
}

// The least size in a bin, not the first.
float SizeOf(size_t bin) {
  return std::exp2(static_cast<float>(bin) / kBinsPerDoubling + kLeastExponent);
}

}  // namespace

GateSizes::GateSizes(size_t num_layers, Activation activation,
                     const kernels::KernelTable& kernels)
    : activation_(activation),
      kernels_(kernels),
      counts_(num_layers, std::vector<uint64_t>(kNumBins)) {}

void GateSizes::Add(size_t layer_idx, std::span<const float> gate) {
  sizes_.resize(gate.size());
  kernels_.activate(activation_, 0.0f, nullptr, gate.data(), gate.size(),
                    sizes_.data());
  std::vector<uint64_t>& counts = counts_[layer_idx];
  for (const float size : sizes_) ++counts[BinOf(std::abs(size))];
}

float GateSizes::ThresholdFor(size_t layer_idx, double density) const {
  const std::vector<uint64_t>& counts = counts_[layer_idx];
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  if (total == 0) return 0.0f;
  const double wanted = density * static_cast<double>(total);
  uint64_t num_above = 0;
  for (size_t bin = kNumBins; bin-- > 1;) {
    const uint64_t with_bin = num_above + counts[bin];
    if (static_cast<double>(with_bin) >= wanted) {
      // The nearer end of the bin in which the wanted share is reached.
      const bool is_nearer_without =
          num_above > 0 && wanted - static_cast<double>(num_above) <
                               static_cast<double>(with_bin) - wanted;
      return SizeOf(is_nearer_without ? bin + 1 : bin);
    }
    num_above = with_bin;
  }
  return 0.0f;
}

std::vector<float> GateSizes::ThresholdsFor(double density) const {
  std::vector<float> out(counts_.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = ThresholdFor(i, density);
  return out;
}

Scan::Scan(const model::Config& config, const Corpus& corpus, bool wants_gates,
           const kernels::KernelTable& kernels)
    : wants_gates_(wants_gates),
      test_chunk_(7),
      test_step_(std::max<size_t>(1, corpus.chunk_tokens() / kNumSelfTests)),
      builder_(config.num_layers, model::NeuronsPerLayer(config)),
      gates_(config.num_layers, CommonFfn(config).activation, kernels),
      self_test_(config.num_layers) {
  TC_CHECK(corpus.num_chunks() > test_chunk_ && Corpus::IsHeldOut(test_chunk_));
}

void Scan::Add(size_t chunk_idx, const engine::FfnObservation& seen) {
  if (chunk_idx != last_chunk_) {
    builder_.BeginSequence();
    last_chunk_ = chunk_idx;
  }
  const size_t layer_idx = seen.layer_idx;
  builder_.Add(layer_idx, seen.fired);
  // Each position of a chunk as often as any other: the first is like none.
  // Not of chunks on which the search measures what thresholds cost.
  const size_t turn =
      static_cast<size_t>(seen.position) + Corpus::RankOf(chunk_idx);
  if (wants_gates_ && !Corpus::IsHeldOut(chunk_idx) && turn % kGateStep == 0) {
    gates_.Add(layer_idx, seen.gate);
  }
  pack::LayerSelfTest& test = self_test_[layer_idx];
  // The last position of each stretch: the first token of a chunk is BOS, which
  // is like no other.
  if (chunk_idx == test_chunk_ && test.fired.size() < kNumSelfTests &&
      (static_cast<size_t>(seen.position) + 1) % test_step_ == 0) {
    test.inputs.insert(test.inputs.end(), seen.input.begin(), seen.input.end());
    test.fired.emplace_back(seen.fired.begin(), seen.fired.end());
  }
}

}  // namespace thermocline::training
