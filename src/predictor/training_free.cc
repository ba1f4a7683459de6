#include "predictor/training_free.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "base/check.h"
#include "tensor/codec.h"

namespace thermocline::predictor {
namespace {

using neuron::NeuronSet;

constexpr size_t kSignRows = SelectorScratch::kSignRows;
static_assert(kSignRows % 64 == 0);
// Neurons that a thread takes at a time: whole words of a set, and enough bytes
// of signs to hide the taking.
constexpr size_t kScorePieceBytes = 64 << 10;

class TrainingFreeSelector final : public Selector {
 public:
  TrainingFreeSelector(const model::TrainingFreeWeights& weights,
                       const compute::Compute* compute,
                       const SelectorScratch* scratch)
      : weights_(weights),
        num_words_(weights.signs.row_bytes() / sizeof(uint64_t)),
        compute_(*compute),
        scratch_(*scratch) {}

  Status Select(compute::ProductForm form, const compute::Rows& x,
                size_t num_rows, const neuron::ActiveSets& sets) override {
    for (size_t t = 0; t < num_rows; ++t) {
      compute_.kernels->pack_signs(x.row(t), x.width, SignsOf(t));
    }
    const size_t num_neurons = weights_.signs.shape.num_rows();
    compute_.pool->ParallelFor(
        num_neurons, NeuronsPerPiece(weights_.signs.row_bytes()),
        [&](size_t begin, size_t end, int worker_idx) {
          CompareSigns(begin, end, num_rows, sets, worker_idx);
        });
    num_checked_ = 0;
    if (!weights_.down) return {};
    return TakeMargin(form, x, num_rows, sets);
  }

  size_t num_bytes() const override {
    return weights_.signs.num_bytes() +
           (weights_.down ? weights_.up.num_bytes() +
                                num_checked_ * weights_.down.row_bytes()
                          : 0);
  }

 private:
  uint64_t* SignsOf(size_t token_idx) const {
    return scratch_.signs + token_idx * num_words_;
  }

  static size_t NeuronsPerPiece(size_t row_bytes) {
    return std::clamp(
        kScorePieceBytes / std::max<size_t>(row_bytes, 1) / 64 * 64, size_t{64},
        kSignRows);
  }

  void CompareSigns(size_t begin, size_t end, size_t num_rows,
                    const neuron::ActiveSets& sets, int worker_idx) const {
    uint32_t* counts =
        scratch_.differences + static_cast<size_t>(worker_idx) * kSignRows;
    const auto* rows = reinterpret_cast<const uint64_t*>(weights_.signs.data);
    for (size_t t = 0; t < num_rows; ++t) {
      compute_.kernels->count_differences(rows + begin * num_words_,
                                          end - begin, SignsOf(t), num_words_,
                                          counts);
      const NeuronSet set = sets.named(t).Part(begin, end - begin);
      set.Clear();
      for (size_t i = 0; i < end - begin; ++i) {
        if (counts[i] <= weights_.max_differences) set.Add(i);
      }
    }
  }

  // Leaves those of the candidates that the low-rank image lets through.
  Status TakeMargin(compute::ProductForm form, const compute::Rows& x,
                    size_t num_rows, const neuron::ActiveSets& sets) {
    const size_t rank = weights_.up.shape.num_rows();
    TC_CHECK(rank <= scratch_.hidden.width);
    const compute::Rows image = {scratch_.hidden.data, rank,
                                 scratch_.hidden.stride};
    const std::array<compute::Product, 1> up = {
        {{weights_.up, TensorView(), image}}};
    MultiplyAll(compute_, form, x, num_rows, up);
    std::atomic<bool> is_finite = true;
    for (size_t t = 0; t < num_rows; ++t) {
      if (!compute_.kernels->all_finite(image.row(t), rank)) is_finite = false;
    }
    if (!IsFloat(weights_.down.dtype)) RoundRows(compute_, image, num_rows);
    std::atomic<size_t> num_checked = 0;
    compute_.pool->ParallelFor(
        weights_.down.shape.num_rows(),
        NeuronsPerPiece(weights_.down.row_bytes()),
        [&](size_t begin, size_t end, int /*worker_idx*/) {
          size_t count = 0;
          for (size_t t = 0; t < num_rows; ++t) {
            count += CheckMargin(begin, end, t, image, sets, is_finite);
          }
          num_checked.fetch_add(count, std::memory_order_relaxed);
        });
    num_checked_ = num_checked.load(std::memory_order_relaxed);
    if (!is_finite) return ScoresNotFinite();
    return {};
  }

  // Of neurons [begin, end). Returns how many were looked at. Clears
  // `is_finite` where a score of theirs is not.
  size_t CheckMargin(size_t begin, size_t end, size_t token_idx,
                     const compute::Rows& image, const neuron::ActiveSets& sets,
                     std::atomic<bool>& is_finite) const {
    const NeuronSet set = sets.named(token_idx).Part(begin, end - begin);
    uint32_t ids[kSignRows];
    size_t count = 0;
    set.ForEachIn(0, end - begin, [&](size_t i) {
      ids[count++] = static_cast<uint32_t>(begin + i);
    });
    // Nothing else is in the row of a token now.
    float* scores = scratch_.scores.row(token_idx) + begin;
    compute_.kernels->dot_rows(weights_.down.dtype)(
        {.rows = weights_.down.data,
         .row_bytes = weights_.down.row_stride(),
         .ids = ids,
         .num_rows = count,
         .n = rank(),
         .x = InputFor(compute_, weights_.down.dtype, image, token_idx),
         .x_stride_bytes = 0,
         .num_tokens = 1,
         .out = scores,
         .out_stride = count});
    const auto* bias = reinterpret_cast<const float*>(weights_.bias.data);
    set.Clear();
    for (size_t i = 0; i < count; ++i) {
      scores[i] += bias == nullptr ? 0.0f : bias[ids[i]];
      if (!(scores[i] < 0.0f)) set.Add(ids[i] - begin);
    }
    if (!compute_.kernels->all_finite(scores, count)) is_finite = false;
    return count;
  }

  size_t rank() const { return weights_.up.shape.num_rows(); }

  model::TrainingFreeWeights weights_;
  size_t num_words_;  // of an input's signs
  const compute::Compute& compute_;
  const SelectorScratch& scratch_;
  size_t num_checked_ = 0;
};

size_t WordsPerRow(const model::Config& config) {
  return neuron::WordsOf(config.width);
}

}  // namespace

std::unique_ptr<Selector> MakeTrainingFreeSelector(
    const model::TrainingFreeWeights& weights, const compute::Compute* compute,
    const SelectorScratch* scratch) {
  TC_CHECK(weights.signs);
  return std::make_unique<TrainingFreeSelector>(weights, compute, scratch);
}

uint64_t OwnSigns::NumBytes(const model::Config& config) {
  // Far below 2^64: a word stands for weights that a file holds.
  uint64_t num_neurons = 0;
  for (const model::LayerSpec& layer : config.layers) {
    num_neurons += NumNeurons(layer.ffn);
  }
  return num_neurons * WordsPerRow(config) * sizeof(uint64_t);
}

Result<OwnSigns> OwnSigns::Make(const model::Config& config,
                                const model::Weights& weights,
                                const compute::Compute& compute) {
  const size_t num_words = WordsPerRow(config);
  const size_t width = config.width;
  TC_ASSIGN_OR_RETURN(auto buffer,
                      os::AlignedBuffer::Allocate(NumBytes(config)));
  const auto num_threads = static_cast<size_t>(compute.pool->num_threads());
  TC_ASSIGN_OR_RETURN(
      const auto decoded,  // a row for each thread
      os::AlignedBuffer::Allocate(num_threads * width * sizeof(float)));
  OwnSigns signs(std::move(buffer));
  auto* words = reinterpret_cast<uint64_t*>(signs.words_.data());
  const auto pack = [&](const model::FfnSpec& spec,
                        const model::FfnMatrices& matrices, uint64_t* to) {
    const TensorView& tested = spec.gated ? matrices.gate : matrices.up;
    compute.pool->ParallelFor(
        tested.shape.num_rows(), 64,
        [&](size_t begin, size_t end, int worker_idx) {
          float* row = reinterpret_cast<float*>(decoded.data()) +
                       static_cast<size_t>(worker_idx) * width;
          for (size_t i = begin; i < end; ++i) {
            DequantizeRow(tested.dtype, tested.row(i), {row, width});
            compute.kernels->pack_signs(row, width, to + i * num_words);
          }
        });
  };
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const model::LayerWeights& layer = weights.layers[i];
    const model::FfnSpec& spec = config.layers[i].ffn;
    const size_t num_neurons = NumNeurons(spec);
    if (layer.ffn.experts.empty()) pack(spec, layer.ffn, words);
    for (size_t e = 0; e < layer.ffn.experts.size(); ++e) {
      pack(spec, layer.ffn.experts[e], words + e * spec.width * num_words);
    }
    signs.layers_.push_back(
        {.signs = {.dtype = DType::kI8,
                   .shape = {.ne = {num_words * sizeof(uint64_t), num_neurons,
                                    1, 1},
                             .rank = 2},
                   .data = reinterpret_cast<const std::byte*>(words)},
         .max_differences = config.width / 2});
    words += num_neurons * num_words;
  }
  return signs;
}

}  // namespace thermocline::predictor
