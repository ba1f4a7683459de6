// A graph of operations with static shapes, in the words of OpenVINO's IR: what
// an NPU can be given. Built by block.h, written and read by ir.h, carried out
// by a StaticDevice: the reference or, through openvino.h, OpenVINO.
#ifndef THERMOCLINE_NPU_GRAPH_H_
#define THERMOCLINE_NPU_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace thermocline::npu {

enum class Element : uint8_t { kF32, kF16, kI64, kI8, kU8, kI4, kU4, kBool };

// What is known of each, in the order above.
struct ElementInfo {
  Element element;
  std::string_view name;       // "f32", of attributes
  std::string_view precision;  // "FP32", of ports
  size_t num_bits;
};
const ElementInfo& InfoOf(Element element);
std::optional<Element> ParseElement(std::string_view name);
std::optional<Element> ParsePrecision(std::string_view precision);

using Dims = std::vector<int64_t>;
// The product; 1 of no dimensions. Requires that it does not overflow, which
// Graph checks of every type it takes.
int64_t NumElements(const Dims& dims);

struct Type {
  Element element = Element::kF32;
  Dims dims;
  bool operator==(const Type&) const = default;
};
// Elements of 4 bits lie two to a byte, the first in the low half.
size_t NumBytes(const Type& type);
std::string ToString(const Type& type);  // "f16[1,4,64]"

// All of opset 13 and older, so that OpenVINO reads them from 2023.2 on.
enum class Op : uint8_t {
  kParameter,
  kConstant,
  kResult,
  // Element by element, shapes broadcast as numpy's.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kPower,
  kGreaterEqual,  // to kBool
  // Element by element, of one input.
  kSqrt,
  kRelu,
  kSwish,       // x / (1 + exp(-x))
  kGelu,        // its tanh form
  kConvert,     // to kF32 or kF16
  kSoftmax,     // over `axis`
  kReduceMean,  // axes: input 1; the extents stay as 1
  kMatMul,      // of the last two dimensions; the ones before broadcast
  kReshape,     // to input 1
  kTranspose,   // by input 1
  kConcat,
  kVariadicSplit,  // along input 1, lengths: input 2
  kSlice,          // inputs 1 to 4: begin, end, step, axes
  kGather,         // rows of input 0 by input 1, along input 2
  kScatterUpdate,  // of input 0: rows input 1 along axis input 3 become input 2
  // A variable that lives as long as the request: what was assigned last.
  kReadValue,  // input 0 at first
  kAssign,
};

// What is known of each, in the order above: names are those of the IR.
struct OpInfo {
  Op op;
  std::string_view type;   // "SoftMax"
  std::string_view opset;  // "opset8"
  size_t num_inputs;       // kConcat: at least
};
const OpInfo& InfoOf(Op op);
std::optional<Op> ParseOp(std::string_view type);

// One output of a node.
struct Value {
  uint32_t node = 0;
  uint32_t output = 0;
  bool operator==(const Value&) const = default;
};

struct Node {
  Op op = Op::kParameter;
  // Of the tensor, for parameters and results: unique among these. Others: for
  // people, or empty. Without control characters and backslashes, which not all
  // readers of IR take as they are.
  std::string name;
  std::vector<Value> inputs;
  std::vector<Type> outputs;  // those of Parameter and Constant are given
  // What the operation needs besides.
  int64_t axis = 0;            // kSoftmax, kConcat; may be negative
  bool transpose_a = false;    // kMatMul
  bool transpose_b = false;    // kMatMul
  Element to = Element::kF32;  // kConvert
  std::string variable;        // kReadValue, kAssign
  size_t offset = 0;           // kConstant: of its bytes in data(), aligned
};

// Nodes in an order in which each reads what came before. Copyable, movable.
class Graph {
 public:
  // Constants lie at multiples of it.
  static constexpr size_t kAlignment = 64;

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(Value value) const { return nodes_[value.node]; }
  const Type& type(Value value) const {
    return nodes_[value.node].outputs[value.output];
  }
  std::span<const std::byte> data() const { return data_; }
  std::span<const std::byte> bytes_of(const Node& constant) const;
  // The elements of a constant of kI64, also through a reader's eyes.
  // kUnsupported: it is none.
  Result<std::vector<int64_t>> IntsOf(Value value) const;

  // Adds a node after checking it: inputs exist and have types that the
  // operation takes, shapes agree, names are new, constants lie within data(),
  // a variable is of one type, read once and assigned once. Sets its outputs.
  // kCorrupt, the node and what is wrong named: for who reads graphs of others.
  // Those below CHECK.
  Result<Value> Add(Node node);

  Value Parameter(std::string name, Type type);
  // Copies the bytes; room for them may have been reserved.
  Value Constant(Type type, std::span<const std::byte> bytes);
  // A constant whose bytes the caller fills before the next node is added.
  Value Constant(Type type, std::span<std::byte>* bytes);
  Value Ints(std::vector<int64_t> values);  // [n]
  Value Scalar(float value);                // [1] of kF32
  // A kResult, by way of a kReshape that changes nothing if the value is a
  // parameter or another result: OpenVINO finds results by the name of what
  // they read, and a name of two tensors is one of them.
  void Output(Value value, std::string name);
  void Assign(Value value, std::string variable);
  Value ReadValue(Value initial, std::string variable);

  Value Unary(Op op, Value x);
  Value Binary(Op op, Value a, Value b);
  Value Convert(Value x, Element to);
  Value Softmax(Value x, int64_t axis);
  Value ReduceMean(Value x, int64_t axis);
  Value MatMul(Value a, Value b, bool transpose_b);
  Value Reshape(Value x, Dims dims);
  Value Transpose(Value x, std::vector<int64_t> order);
  Value Concat(std::vector<Value> parts, int64_t axis);
  std::vector<Value> Split(Value x, int64_t axis, std::vector<int64_t> lengths);
  Value Slice(Value x, int64_t axis, int64_t begin, int64_t end);
  Value Gather(Value table, Value indices, int64_t axis);
  Value ScatterUpdate(Value x, Value indices, Value rows, int64_t axis);

  void ReserveData(size_t num_bytes) { data_.reserve(num_bytes); }
  // For readers: the constants' bytes, before nodes are added.
  void SetData(std::vector<std::byte> data) { data_ = std::move(data); }

  // Of parameters and results, in the order they were added.
  std::vector<const Node*> parameters() const { return OfKind(Op::kParameter); }
  std::vector<const Node*> results() const { return OfKind(Op::kResult); }
  // For messages and for OpenVINO: facts about the whole.
  std::string title = "thermocline";
  // rt_info nncf/weight_compression/group_size of 4- and 8-bit constants: -1
  // one scale per row, else elements per scale, 0 no such constants.
  int64_t weight_group = 0;

 private:
  // Adds what cannot be wrong.
  Value Must(Node node);
  std::vector<const Node*> OfKind(Op op) const;

  Status CheckNames(const Node& node) const;
  Status CheckResult(Value value) const;
  Status CheckVariable(const Node& node) const;

  std::vector<Node> nodes_;
  std::vector<std::byte> data_;
  // Of tensors (kParameter), and of variables that are read or assigned.
  std::set<std::pair<Op, std::string>> taken_;
  std::map<std::string, Type> variables_;
  std::set<std::pair<uint32_t, uint32_t>> results_;  // what they read
};

// The types of its outputs. `node` has inputs that are in `graph`; of its own
// outputs only those of parameters and constants count. kCorrupt, without the
// node's name: a number of inputs, elements, extents or attributes that the
// operation does not take; extents below 1; tensors of more than 2^40 elements;
// a constant outside of the graph's data or not aligned. kUnsupported: an input
// that has to be a constant is none.
Result<std::vector<Type>> InferTypes(const Graph& graph, const Node& node);

// Of a dimension, counted from the end if negative. kCorrupt: there is none.
Result<size_t> AxisOf(int64_t axis, size_t rank);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_GRAPH_H_
