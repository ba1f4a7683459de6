#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "npu/reference_ops.h"

namespace thermocline::npu {
namespace {

// Calls f(output's offset, a's, b's) for the beginning of each run along the
// last dimension, of `length` elements that lie step_a and step_b apart.
struct PairRuns {
  Dims outer;
  int64_t length = 1;
  int64_t step_a = 0;
  int64_t step_b = 0;
  std::vector<int64_t> strides_a;
  std::vector<int64_t> strides_b;
};

PairRuns PairRunsOf(const Dims& dims, const Dims& a, const Dims& b) {
  PairRuns runs = {.outer = dims,
                   .strides_a = BroadcastStrides(a, dims),
                   .strides_b = BroadcastStrides(b, dims)};
  if (dims.empty()) return runs;
  runs.length = dims.back();
  runs.step_a = runs.strides_a.back();
  runs.step_b = runs.strides_b.back();
  runs.outer.pop_back();
  runs.strides_a.pop_back();
  runs.strides_b.pop_back();
  return runs;
}

// f(a, b) of elements that are broadcast, to `out`.
template <typename Out, typename F>
void ForPairs(const Dims& dims, const HostTensor& a, const HostTensor& b,
              Out* out, F f) {
  const FloatsOf floats_a(a);
  const FloatsOf floats_b(b);
  const PairRuns runs = PairRunsOf(dims, a.type.dims, b.type.dims);
  Odometer<2> at(runs.outer, {runs.strides_a, runs.strides_b});
  const int64_t num_runs = NumElements(runs.outer);
  for (int64_t run = 0; run < num_runs; ++run, at.Next()) {
    const float* from_a = floats_a.data() + at.at(0);
    const float* from_b = floats_b.data() + at.at(1);
    for (int64_t i = 0; i < runs.length; ++i) {
      *out++ = f(from_a[i * runs.step_a], from_b[i * runs.step_b]);
    }
  }
}

template <typename F>
HostTensor OfPairs(const Node& node, std::span<const HostTensor> inputs, F f) {
  FloatTensor out(node.outputs[0]);
  ForPairs(node.outputs[0].dims, inputs[0], inputs[1], out.data(), f);
  return out.Finish();
}

HostTensor Compared(const Node& node, std::span<const HostTensor> inputs) {
  std::byte* bytes = nullptr;
  HostTensor out = MakeTensor(node.outputs[0], &bytes);
  ForPairs(
      node.outputs[0].dims, inputs[0], inputs[1], bytes,
      [](float a, float b) { return a >= b ? std::byte{1} : std::byte{0}; });
  return out;
}

template <typename F>
HostTensor OfEach(const Node& node, const HostTensor& x, F f) {
  const FloatsOf floats(x);
  FloatTensor out(node.outputs[0]);
  std::ranges::transform(floats.values(), out.data(), f);
  return out.Finish();
}

float PowerOf(float x, float exponent) {
  // Of norms: exactly the square, and quickly.
  return exponent == 2.0f ? x * x : std::pow(x, exponent);
}

float GeluOf(float x) {
  constexpr float kFactor =
      static_cast<float>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  const float inner = kFactor * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + std::tanh(inner));
}

// `count` elements that lie `step` apart.
void SoftmaxOf(const float* x, int64_t count, int64_t step, float* out) {
  float most = x[0];
  for (int64_t i = 1; i < count; ++i) most = std::max(most, x[i * step]);
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    out[i * step] = std::exp(x[i * step] - most);
    sum += out[i * step];
  }
  for (int64_t i = 0; i < count; ++i) {
    out[i * step] = static_cast<float>(out[i * step] / sum);
  }
}

HostTensor Softmaxed(const Node& node, const HostTensor& x) {
  const FloatsOf floats(x);
  FloatTensor out(node.outputs[0]);
  const Dims& dims = x.type.dims;
  const size_t axis = *AxisOf(node.axis, dims.size());
  const int64_t step = StridesOf(dims)[axis];
  const int64_t count = dims[axis];
  const int64_t num_elements = NumElements(dims);
  for (int64_t outer = 0; outer < num_elements; outer += count * step) {
    for (int64_t inner = outer; inner < outer + step; ++inner) {
      SoftmaxOf(floats.data() + inner, count, step, out.data() + inner);
    }
  }
  return out.Finish();
}

HostTensor MeanOf(const Node& node, const HostTensor& x) {
  const FloatsOf floats(x);
  FloatTensor out(node.outputs[0]);
  const Dims& dims = x.type.dims;
  std::vector<double> sums(out.values().size(), 0.0);
  // An output is broadcast over what it is the mean of.
  Odometer<1> at(dims, {BroadcastStrides(node.outputs[0].dims, dims)});
  for (const float value : floats.values()) {
    sums[static_cast<size_t>(at.at(0))] += value;
    at.Next();
  }
  const double count = static_cast<double>(floats.values().size()) /
                       static_cast<double>(sums.size());
  std::ranges::transform(sums, out.data(), [&](double sum) {
    return static_cast<float>(sum / count);
  });
  return out.Finish();
}

HostTensor ComputeUnary(const Node& node, const HostTensor& x) {
  switch (node.op) {
    case Op::kSqrt:
      return OfEach(node, x, [](float v) { return std::sqrt(v); });
    case Op::kRelu:
      return OfEach(node, x, [](float v) { return v < 0.0f ? 0.0f : v; });
    case Op::kSwish:
      return OfEach(node, x, [](float v) { return v / (1.0f + std::exp(-v)); });
    case Op::kGelu:
      return OfEach(node, x, GeluOf);
    default:
      TC_CHECK(node.op == Op::kConvert);
      return OfEach(node, x, [](float v) { return v; });
  }
}

}  // namespace

HostTensor Compute(const Node& node, std::span<const HostTensor> inputs) {
  switch (node.op) {
    case Op::kAdd:
      return OfPairs(node, inputs, [](float a, float b) { return a + b; });
    case Op::kSubtract:
      return OfPairs(node, inputs, [](float a, float b) { return a - b; });
    case Op::kMultiply:
      return OfPairs(node, inputs, [](float a, float b) { return a * b; });
    case Op::kDivide:
      return OfPairs(node, inputs, [](float a, float b) { return a / b; });
    case Op::kPower:
      return OfPairs(node, inputs, PowerOf);
    case Op::kGreaterEqual:
      return Compared(node, inputs);
    case Op::kSoftmax:
      return Softmaxed(node, inputs[0]);
    case Op::kReduceMean:
      return MeanOf(node, inputs[0]);
    case Op::kMatMul:
      return MatrixProduct(node, inputs[0], inputs[1]);
    default:
      return ComputeUnary(node, inputs[0]);
  }
}

}  // namespace thermocline::npu
