#include "synth/fill.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "synth/codes.h"

namespace thermocline::synth {
namespace {

constexpr uint64_t kTile = kSynthRowGrain;

float StepFor(DType dtype, double deviation) {
  return static_cast<float>(deviation / CodeDeviation(dtype));
}

void RandomRow(const SynthPlan& plan, SynthPart part, uint64_t place,
               uint64_t row_idx, DType dtype, double deviation,
               std::span<uint8_t> codes, std::byte* out) {
  Random random = RandomFor(plan.options.seed, part, place, row_idx);
  FillCodes(dtype, random, codes);
  EncodeCodes(dtype, StepFor(dtype, deviation), codes, out);
}

// The down matrix in squares of kTile neurons by kTile dimensions, so that its
// rows and its columns can be made alike.
class DownTiles {
 public:
  DownTiles(const SynthPlan& plan, uint64_t layer_idx)
      : plan_(plan), layer_idx_(layer_idx) {}

  // codes[n * kTile + d] of neuron first_neuron + n, dimension first_dim + d.
  void Fill(uint64_t first_neuron, uint64_t first_dim,
            std::span<uint8_t> codes) const {
    const uint64_t tiles_per_row = plan_.shape.width / kTile;
    Random random =
        RandomFor(plan_.options.seed, SynthPart::kDown, layer_idx_,
                  first_neuron / kTile * tiles_per_row + first_dim / kTile);
    FillCodes(plan_.options.dtype, random, codes);
  }

 private:
  const SynthPlan& plan_;
  uint64_t layer_idx_;
};

// The columns of kTile neurons as rows: codes [kTile, D].
void FillDownColumns(const SynthPlan& plan, uint64_t layer_idx,
                     uint64_t first_neuron, std::span<uint8_t> codes) {
  const DownTiles tiles(plan, layer_idx);
  const uint64_t width = plan.shape.width;
  uint8_t tile[kTile * kTile];
  for (uint64_t dim = 0; dim < width; dim += kTile) {
    tiles.Fill(first_neuron, dim, tile);
    for (uint64_t n = 0; n < kTile; ++n) {
      std::copy_n(&tile[n * kTile], kTile, &codes[n * width + dim]);
    }
  }
}

}  // namespace

neuron::RecordLayout SynthRecordLayout(const SynthPlan& plan) {
  const DType dtype = plan.options.dtype;
  const bool for_storage = plan.options.for_storage;
  const bool bundles_gate =
      plan.shape.arch().gated && (plan.options.with_predictor || for_storage);
  auto layout = neuron::MakeRecordLayout(
      bundles_gate ? std::optional(dtype) : std::nullopt, dtype, dtype,
      plan.shape.width,
      for_storage ? neuron::kStorageAlignment : neuron::kRecordAlignment);
  TC_CHECK(layout.has_value());
  return *layout;
}

FillFn FillRows(DType dtype, uint64_t width, RowFn make) {
  return [=, make = std::move(make)](uint64_t first, uint64_t count,
                                     std::byte* out) {
    std::vector<float> row(width);
    for (uint64_t i = first; i < first + count; ++i) {
      make(i, row);
      EncodeRow(dtype, row, out);
      out += BytesOf(dtype, width);
    }
  };
}

FillFn FillRandom(const SynthPlan& plan, SynthPart part, uint64_t place,
                  DType dtype, uint64_t width, double deviation) {
  return [=, &plan](uint64_t first, uint64_t count, std::byte* out) {
    std::vector<uint8_t> codes(width);
    for (uint64_t i = first; i < first + count; ++i) {
      RandomRow(plan, part, place, i, dtype, deviation, codes, out);
      out += BytesOf(dtype, width);
    }
  };
}

FillFn FillConstant(uint64_t width, float value) {
  return FillRows(DType::kF32, width, [value](uint64_t, std::span<float> row) {
    std::ranges::fill(row, value);
  });
}

FillFn FillDownTransposed(const SynthWeights& weights, uint64_t layer_idx) {
  return [layer_idx, &weights](uint64_t first, uint64_t count, std::byte* out) {
    const SynthPlan& plan = weights.plan();
    const DType dtype = plan.options.dtype;
    const uint64_t width = plan.shape.width;
    const float step = StepFor(dtype, weights.down_deviation());
    std::vector<uint8_t> codes(kTile * width);
    for (uint64_t i = first; i < first + count; i += kTile) {
      FillDownColumns(plan, layer_idx, i, codes);
      EncodeCodes(dtype, step, codes, out);
      out += BytesOf(dtype, codes.size());
    }
  };
}

FillFn FillDown(const SynthWeights& weights, uint64_t layer_idx) {
  return [layer_idx, &weights](uint64_t first, uint64_t count, std::byte* out) {
    const SynthPlan& plan = weights.plan();
    const DownTiles tiles(plan, layer_idx);
    const DType dtype = plan.options.dtype;
    const uint64_t ffn_width = plan.shape.ffn_width;
    const float step = StepFor(dtype, weights.down_deviation());
    std::vector<uint8_t> codes(kTile * ffn_width);
    uint8_t tile[kTile * kTile];
    for (uint64_t i = first; i < first + count; i += kTile) {
      const uint64_t first_neuron = i / plan.shape.width * ffn_width;
      for (uint64_t n = 0; n < ffn_width; n += kTile) {
        tiles.Fill(first_neuron + n, i % plan.shape.width, tile);
        for (uint64_t k = 0; k < kTile * kTile; ++k) {
          codes[k % kTile * ffn_width + n + k / kTile] = tile[k];
        }
      }
      EncodeCodes(dtype, step, codes, out);
      out += BytesOf(dtype, codes.size());
    }
  };
}

FillFn FillLooks(const SynthWeights& weights, uint64_t layer_idx) {
  const SynthPlan& plan = weights.plan();
  return FillRows(plan.options.dtype, plan.shape.width,
                  [layer_idx, &weights](uint64_t i, std::span<float> row) {
                    weights.Gate(layer_idx, i, row);
                  });
}

FillFn FillRecords(const SynthWeights& weights, uint64_t layer_idx) {
  const neuron::RecordLayout layout = SynthRecordLayout(weights.plan());
  return [=, &weights](uint64_t first, uint64_t count, std::byte* out) {
    const SynthPlan& plan = weights.plan();
    const DType dtype = plan.options.dtype;
    const uint64_t width = plan.shape.width;
    const float step = StepFor(dtype, weights.down_deviation());
    std::vector<float> row(width);
    std::vector<uint8_t> up(width);
    std::vector<uint8_t> down(kTile * width);
    std::fill_n(out, count * layout.stride, std::byte{0});
    for (uint64_t i = first; i < first + count; ++i) {
      if (i % kTile == 0) FillDownColumns(plan, layer_idx, i, down);
      if (layout.gate || !plan.shape.arch().gated) {
        weights.Gate(layer_idx, i, row);
        EncodeRow(dtype, row, out);
      }
      if (plan.shape.arch().gated) {
        RandomRow(plan, SynthPart::kUp, layer_idx, i, dtype,
                  weights.reading_deviation(), up, out + layout.up_offset());
      }
      EncodeCodes(dtype, step,
                  std::span(down).subspan(i % kTile * width, width),
                  out + layout.down_offset());
      out += layout.stride;
    }
  };
}

FillFn FillPredictorUp(const SynthWeights& weights, uint64_t layer_idx,
                       uint64_t place, DType dtype, SynthWeights::Reads reads) {
  return [=, &weights](uint64_t first, uint64_t count, std::byte* out) {
    const SynthPlan& plan = weights.plan();
    const double scale =
        reads == SynthWeights::Reads::kNormed ? 1.0 : plan.stream_rms;
    std::vector<float> row(plan.shape.width);
    std::vector<uint8_t> codes(plan.shape.width);
    for (uint64_t i = first; i < first + count; ++i) {
      if (i < plan.needed_rank()) {
        weights.PredictorUp(layer_idx, i, reads, row);
        EncodeRow(dtype, row, out);
      } else {
        RandomRow(plan, SynthPart::kFiller, place, i, dtype,
                  weights.reading_deviation() / scale, codes, out);
      }
      out += BytesOf(dtype, plan.shape.width);
    }
  };
}

}  // namespace thermocline::synth
