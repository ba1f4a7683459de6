#include "pack/down_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "model/bundle.h"
#include "model/profile_file.h"
#include "neuron/record_builder.h"
#include "tensor/codec.h"

namespace thermocline::pack {
namespace {

// Down columns that differ by more than this, as RMS of the difference over
// that of the better ones, are another model's: types of one model differ by a
// tenth or so, weights that have nothing to do with each other by 1.4.
constexpr double kMostDownDifference = 0.5;

// Outputs and neurons that are compared, at even distances.
constexpr uint64_t kMaxSampled = 32;

// Weights of an FFN from sampled neurons to sampled outputs: [outputs, neurons]
// whichever of the two the file has as rows.
std::vector<float> SampleDown(const model::FfnMatrices& ffn) {
  const bool is_by_neuron = static_cast<bool>(ffn.down_t);
  const TensorView& matrix = is_by_neuron ? ffn.down_t : ffn.down;
  const uint64_t height = matrix.shape.num_rows();
  const uint64_t width = matrix.shape.ne[0];
  const uint64_t num_rows = std::min(kMaxSampled, height);
  const uint64_t num_columns = std::min(kMaxSampled, width);
  std::vector<float> row(width);
  std::vector<float> sample(num_rows * num_columns);
  for (uint64_t r = 0; r < num_rows; ++r) {
    DequantizeRow(matrix.dtype, matrix.row(r * height / num_rows), row);
    for (uint64_t c = 0; c < num_columns; ++c) {
      sample[is_by_neuron ? c * num_rows + r : r * num_columns + c] =
          row[c * width / num_columns];
    }
  }
  return sample;
}

// Of a layer, all experts together.
double DownDifference(const model::FfnWeights& source,
                      const model::FfnWeights& better) {
  const auto ours = model::ExpertsOf(source);
  const auto theirs = model::ExpertsOf(better);
  neuron::DownCost cost;
  for (size_t e = 0; e < ours.size(); ++e) {
    const std::vector<float> a = SampleDown(ours[e]);
    const std::vector<float> b = SampleDown(theirs[e]);
    TC_CHECK(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const double error = double{a[i]} - b[i];
      cost.squared_error += error * error;
      cost.squared_norm += double{b[i]} * b[i];
    }
  }
  return cost.RelativeError();
}

}  // namespace

Status CheckDownSource(const model::Model& source, const model::Model& better) {
  TC_RETURN_IF_ERROR(model::CheckSameModel(
      model::FingerprintOf(better), source,
      better.file().path() + ": the down columns in it are"));
  const auto& layers = source.weights().layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    const double difference =
        DownDifference(layers[i].ffn, better.weights().layers[i].ffn);
    if (!(difference > kMostDownDifference)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "{}: the down columns in it are for another model than {}, "
                "though the norms are the same: in layer {} they differ by "
                "{:.0f} %, and types of one model differ by some 10 %",
                better.file().path(), source.file().path(), i,
                100 * difference);
  }
  return {};
}

}  // namespace thermocline::pack
