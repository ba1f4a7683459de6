// For tests: graphs that make no sense and use every operation.
#ifndef THERMOCLINE_NPU_TEST_RANDOM_GRAPH_H_
#define THERMOCLINE_NPU_TEST_RANDOM_GRAPH_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "npu/graph.h"
#include "npu/test_graph.h"

namespace thermocline::npu {

class RandomGraph {
 public:
  // Small numbers, so that exponents and products stay within F16.
  explicit RandomGraph(uint64_t seed, int num_steps = 40) : random_(seed) {
    AddParameter();
    for (int i = 0; i < num_steps; ++i) {
      const Value x = Pick();
      const uint64_t kind = random_.Below(4);
      if (kind == 0) AddSource();
      if (kind == 1) values_.push_back(Computed(x));
      if (kind >= 2) values_.push_back(Moved(x));
    }
    for (int i = 0; i < 4; ++i) {
      graph_.Output(Pick(), fmt::format("y,{} <&\"'>", i));
    }
    graph_.Output(values_.back(), "y");
    graph_.title = fmt::format("seed {} & more", seed);
    graph_.weight_group = static_cast<int64_t>(random_.Below(3)) - 1;
  }

  const Graph& graph() const { return graph_; }

 private:
  Value Pick() { return values_[random_.Below(values_.size())]; }
  const Dims& DimsOf(Value x) const { return graph_.type(x).dims; }
  size_t AnyAxis(Value x) { return random_.Below(DimsOf(x).size()); }

  Dims AnyDims() {
    Dims dims(1 + random_.Below(3));
    for (int64_t& extent : dims) {
      extent = 1 + static_cast<int64_t>(random_.Below(4));
    }
    return dims;
  }
  Element AnyFloat() {
    return random_.Below(3) == 0 ? Element::kF16 : Element::kF32;
  }
  Value AnyNumbers(const Type& type) {
    return Numbers(graph_, type, RandomNumbers(random_, type.dims));
  }
  // A constant that broadcasts to x.
  Value Beside(Value x) {
    Type type = graph_.type(x);
    for (int64_t& extent : type.dims) {
      if (random_.Below(2) == 0) extent = 1;
    }
    return AnyNumbers(type);
  }

  void AddParameter() {
    const std::string name = fmt::format("x_{}", graph_.nodes().size());
    values_.push_back(graph_.Parameter(name, {AnyFloat(), AnyDims()}));
  }

  void AddSource() {
    const uint64_t kind = random_.Below(3);
    if (kind == 0) return AddParameter();
    const Type type = {AnyFloat(), AnyDims()};
    if (kind == 1) {
      const std::string name = fmt::format("v{}", graph_.nodes().size());
      const Value read = graph_.ReadValue(AnyNumbers(type), name);
      values_.push_back(graph_.Binary(Op::kAdd, read, AnyNumbers(type)));
      return graph_.Assign(values_.back(), name);
    }
    constexpr Element kWhole[] = {Element::kI64, Element::kI8, Element::kU8,
                                  Element::kI4, Element::kU4};
    std::vector<double> values(static_cast<size_t>(NumElements(type.dims)));
    for (double& value : values) {
      value = static_cast<double>(random_.Below(8));
    }
    const Value whole =
        Numbers(graph_, {kWhole[random_.Below(5)], type.dims}, values);
    values_.push_back(graph_.Convert(whole, type.element));
  }

  Value Computed(Value x) {
    constexpr Op kUnary[] = {Op::kRelu, Op::kSwish, Op::kGelu};
    constexpr Op kBinary[] = {Op::kAdd, Op::kSubtract, Op::kMultiply};
    switch (random_.Below(7)) {
      case 0:
        return graph_.Unary(kUnary[random_.Below(3)], x);
      case 1:
        return graph_.Binary(kBinary[random_.Below(3)], x, Beside(x));
      case 2:
        return graph_.Convert(graph_.Binary(Op::kGreaterEqual, x, Beside(x)),
                              AnyFloat());
      case 3:
        return graph_.Softmax(x, static_cast<int64_t>(AnyAxis(x)));
      case 4:
        return graph_.ReduceMean(x, -1);
      case 5:
        return Rooted(x);
      default:
        return Multiplied(x);
    }
  }

  // x / sqrt(x^2 + 1)
  Value Rooted(Value x) {
    const Element element = graph_.type(x).element;
    const Value two = Numbers(graph_, {element, {1}}, {2});
    const Value one = Numbers(graph_, {element, {1}}, {1});
    const Value square = graph_.Binary(Op::kPower, x, two);
    const Value root =
        graph_.Unary(Op::kSqrt, graph_.Binary(Op::kAdd, square, one));
    return graph_.Binary(Op::kDivide, x, root);
  }

  Value Multiplied(Value x) {
    const Value matrix = graph_.Reshape(x, {NumElements(DimsOf(x)), 1});
    const bool transpose_b = random_.Below(2) == 0;
    const Dims dims = transpose_b ? Dims{3, 1} : Dims{1, 3};
    const Value other = AnyNumbers({graph_.type(x).element, dims});
    return graph_.MatMul(matrix, other, transpose_b);
  }

  Value Moved(Value x) {
    const size_t axis = AnyAxis(x);
    const auto along = static_cast<int64_t>(axis);
    const int64_t extent = DimsOf(x)[axis];
    switch (random_.Below(6)) {
      case 0: {
        std::vector<int64_t> order;
        for (size_t d = 0; d < DimsOf(x).size(); ++d) {
          order.insert(order.begin() + static_cast<int64_t>(
                                           random_.Below(order.size() + 1)),
                       static_cast<int64_t>(d));
        }
        return graph_.Transpose(x, std::move(order));
      }
      case 1:
        return extent > 8
                   ? x
                   : graph_.Concat({x, AnyNumbers(graph_.type(x))}, along);
      case 2:
        return extent < 2 ? x : graph_.Split(x, along, {1, extent - 1})[1];
      case 3:
        return graph_.Slice(x, along, extent / 2, extent);
      case 4:
        return graph_.Gather(x, graph_.Ints({DimsOf(x)[0] - 1, 0}), 0);
      default:
        return graph_.ScatterUpdate(x, graph_.Ints({extent - 1}),
                                    graph_.Slice(x, along, 0, 1), along);
    }
  }

  Random random_;
  Graph graph_;
  std::vector<Value> values_;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TEST_RANDOM_GRAPH_H_
