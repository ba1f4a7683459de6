// OpenVINO itself, where it is: what its CPU computes against the reference,
// and what it says when it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "npu/ir.h"
#include "npu/openvino.h"
#include "npu/ov_compile.h"
#include "npu/ov_program.h"
#include "npu/test_graph.h"
#include "npu/test_openvino.h"
#include "npu/test_real_openvino.h"

namespace thermocline::npu {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr Element kFloats = Element::kF32;
constexpr Element kHalves = Element::kF16;
constexpr double kMostError = 1e-5;

// The squares of differences over those of `wanted`.
double ErrorOfAll(const std::vector<float>& got,
                  const std::vector<float>& wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  double difference = 0.0;
  double signal = 0.0;
  for (size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
    const double d = static_cast<double>(got[i]) - wanted[i];
    difference += d * d;
    signal += static_cast<double>(wanted[i]) * wanted[i];
  }
  return difference / std::max(signal, 1e-30);
}

// A graph whose parameters are named x (floats) and whose result is y.
struct OpCase {
  const char* name;
  std::function<Value(Graph&)> build;
  Dims dims = {2, 3, 4};  // of x
  Element element = kFloats;
};

// Numbers that are no rounder than weights are, from -1 to 1.
Value RandomConstant(Graph& graph, Type type, uint64_t seed,
                     double scale = 1.0) {
  Random random(seed);
  std::vector<double> values = RandomNumbers(random, type.dims);
  for (double& value : values) value *= scale;
  return Numbers(graph, std::move(type), values);
}

void ExpectAsReference(StaticDevice& device, const OpCase& c,
                       double most_error = kMostError,
                       const CompileOptions& options = {.is_exact = true}) {
  SCOPED_TRACE(c.name);
  const auto reference = MakeReferenceDevice();
  Random random(7);
  const std::vector<double> x = RandomNumbers(random, c.dims);
  std::vector<float> results[2];
  for (StaticDevice* one : {&device, reference.get()}) {
    auto graph = std::make_unique<Graph>();
    graph->Output(c.build(*graph), "y");
    BoundProgram program(*one, *graph, options);
    graph.reset();  // which a program does not need
    program.Set("x", x);
    const Status status = program.Infer();
    ASSERT_TRUE(status.has_value()) << status.error().message;
    results[one == &device ? 0 : 1] = program.Get("y");
  }
  EXPECT_LE(ErrorOfAll(results[0], results[1]), most_error);
}

std::vector<OpCase> ElementwiseCases() {
  std::vector<OpCase> cases;
  for (const Element element : {kFloats, kHalves}) {
    const auto x = [element](Graph& graph) {
      return graph.Parameter("x", {element, {2, 3, 4}});
    };
    for (const Op op : {Op::kAdd, Op::kSubtract, Op::kMultiply, Op::kDivide,
                        Op::kGreaterEqual}) {
      cases.push_back({InfoOf(op).type.data(),
                       [=](Graph& graph) {
                         const Value b =
                             RandomConstant(graph, {element, {3, 1}}, 2);
                         return graph.Binary(op, x(graph), b);
                       },
                       {2, 3, 4},
                       element});
    }
    for (const Op op : {Op::kRelu, Op::kSwish, Op::kGelu}) {
      cases.push_back({InfoOf(op).type.data(),
                       [=](Graph& graph) { return graph.Unary(op, x(graph)); },
                       {2, 3, 4},
                       element});
    }
  }
  cases.push_back({"square, then its root", [](Graph& graph) {
                     const Value x = graph.Parameter("x", {kFloats, {2, 3, 4}});
                     const Value square =
                         graph.Binary(Op::kPower, x, graph.Scalar(2.0f));
                     return graph.Unary(Op::kSqrt, square);
                   }});
  return cases;
}

TEST_F(RealOpenVinoTest, ElementsAreTheReferences) {
  for (const OpCase& c : ElementwiseCases()) ExpectAsReference(*cpu_, c);
}

// x and constants of every element, as floats.
TEST_F(RealOpenVinoTest, ConversionsAreTheReferences) {
  for (const Element from : {kFloats, kHalves, Element::kI64, Element::kI8,
                             Element::kU8, Element::kI4, Element::kU4}) {
    const auto build = [from](Graph& graph) {
      const Value x = graph.Parameter("x", {kFloats, {2, 4}});
      const Value half = graph.Convert(graph.Convert(x, kHalves), kFloats);
      const Value c = Numbers(graph, {from, {4}}, {3, 0, 5, 7});
      return graph.Binary(Op::kAdd, half, graph.Convert(c, kFloats));
    };
    ExpectAsReference(*cpu_,
                      {InfoOf(from).name.data(), build, Dims{2, 4}, kFloats});
  }
  ExpectAsReference(*cpu_, {"boolean", [](Graph& graph) {
                              const Value x =
                                  graph.Parameter("x", {kFloats, {2, 3, 4}});
                              const Value is_positive = graph.Binary(
                                  Op::kGreaterEqual, x, graph.Scalar(0.0f));
                              return graph.Convert(is_positive, kFloats);
                            }});
}

const OpCase kMovingCases[] = {
    {"Softmax",
     [](Graph& graph) {
       return graph.Softmax(graph.Parameter("x", {kFloats, {2, 3, 4}}), -1);
     }},
    {"Softmax of another dimension",
     [](Graph& graph) {
       return graph.Softmax(graph.Parameter("x", {kFloats, {2, 3, 4}}), 1);
     }},
    {"ReduceMean",
     [](Graph& graph) {
       return graph.ReduceMean(graph.Parameter("x", {kFloats, {2, 3, 4}}), -1);
     }},
    {"Reshape and Transpose",
     [](Graph& graph) {
       const Value x = graph.Parameter("x", {kFloats, {2, 3, 4}});
       return graph.Transpose(graph.Reshape(x, {3, 4, 2}), {2, 0, 1});
     }},
    {"Split and Concat",
     [](Graph& graph) {
       const Value x = graph.Parameter("x", {kFloats, {2, 3, 4}});
       const std::vector<Value> parts = graph.Split(x, 2, {1, 3});
       return graph.Concat({parts[1], x, parts[0]}, -1);
     }},
    {"Slice",
     [](Graph& graph) {
       return graph.Slice(graph.Parameter("x", {kFloats, {2, 3, 4}}), 1, 1, 3);
     }},
    {"Gather",
     [](Graph& graph) {
       return graph.Gather(graph.Parameter("x", {kFloats, {2, 3, 4}}),
                           graph.Ints({1, 1, 0}), 0);
     }},
    {"ScatterUpdate",
     [](Graph& graph) {
       return graph.ScatterUpdate(
           graph.Parameter("x", {kFloats, {2, 3, 4}}), graph.Ints({2, 0}),
           RandomConstant(graph, {kFloats, {2, 2, 4}}, 3), 1);
     }},
    {"MatMul",
     [](Graph& graph) {
       return graph.MatMul(graph.Parameter("x", {kFloats, {2, 3, 4}}),
                           RandomConstant(graph, {kFloats, {4, 5}}, 3), false);
     }},
    {"MatMul of batches, transposed",
     [](Graph& graph) {
       return graph.MatMul(graph.Parameter("x", {kFloats, {2, 3, 4}}),
                           RandomConstant(graph, {kFloats, {2, 5, 4}}, 3),
                           true);
     }},
};

TEST_F(RealOpenVinoTest, RowsAndColumnsAreTheReferences) {
  for (const OpCase& c : kMovingCases) ExpectAsReference(*cpu_, c);
}

// One value under two names, and a parameter that is a result.
TEST_F(RealOpenVinoTest, ResultsMayBeAnyValue) {
  Graph graph;
  const Value x = graph.Parameter("x", {kFloats, {2}});
  const Value sum = graph.Binary(Op::kAdd, x, x);
  graph.Output(sum, "twice");
  graph.Output(sum, "again");
  graph.Output(x, "same");
  BoundProgram program(*cpu_, graph);
  program.Set("x", std::vector<double>{1, 2});
  ASSERT_TRUE(program.Infer().has_value());
  EXPECT_EQ(program.Get("twice"), (std::vector<float>{2, 4}));
  EXPECT_EQ(program.Get("again"), (std::vector<float>{2, 4}));
  EXPECT_EQ(program.Get("same"), (std::vector<float>{1, 2}));
}

// Row numbers that are only known when it runs, and keys and values in F16.
TEST_F(RealOpenVinoTest, RowsAreTheReferences) {
  const auto reference = MakeReferenceDevice();
  std::vector<float> results[2];
  for (StaticDevice* device : {cpu_.get(), reference.get()}) {
    Graph graph;
    const Value cache = graph.Parameter("x", {kHalves, {1, 6, 2, 4}});
    const Value positions = graph.Parameter("positions", {Element::kI64, {2}});
    const Value rows = RandomConstant(graph, {kHalves, {1, 2, 2, 4}}, 9);
    const Value table = RandomConstant(graph, {kHalves, {6, 4}}, 10);
    graph.Output(graph.ScatterUpdate(cache, positions, rows, 1), "cache");
    graph.Output(graph.Convert(graph.Gather(table, positions, 0), kFloats),
                 "y");
    BoundProgram program(*device, graph);
    Random random(3);
    program.Set("x", RandomNumbers(random, {1, 6, 2, 4}));
    program.Set("positions", std::vector<double>{4, 1});
    ASSERT_TRUE(program.Infer().has_value());
    std::vector<float>& result = results[device == cpu_.get() ? 0 : 1];
    result = program.Get("cache");
    for (const float y : program.Get("y")) result.push_back(y);
  }
  EXPECT_EQ(results[0], results[1]);
}

// Weights of integers as graphs have them: converted, less a zero point, times
// a scale, in groups or by rows. Wide, since narrow products escape the 8-bit
// activations that exactness has to switch off.
struct WeightCase {
  Element element;
  int64_t group;  // 0: one scale a row
  bool has_zero;
};
constexpr int64_t kWeightRows = 24;
constexpr int64_t kWeightColumns = 512;

Value Weights(Graph& graph, const WeightCase& c) {
  const bool has_groups = c.group > 0;
  const Dims dims = has_groups
                        ? Dims{kWeightRows, kWeightColumns / c.group, c.group}
                        : Dims{kWeightRows, kWeightColumns};
  Dims scale_dims = dims;
  scale_dims.back() = 1;
  const double most = InfoOf(c.element).num_bits == 4 ? 7.9 : 127.9;
  const bool is_signed = c.element == Element::kI4 || c.element == Element::kI8;
  Random random(11);
  std::vector<double> numbers = RandomNumbers(random, dims);
  for (double& number : numbers) {
    number = number * most + (is_signed ? 0.0 : most);
  }
  Value w = graph.Convert(Numbers(graph, {c.element, dims}, numbers), kHalves);
  if (c.has_zero) {
    const std::vector<double> zeros(
        static_cast<size_t>(NumElements(scale_dims)), 0.6 * most);
    const Value zero = Numbers(graph, {c.element, scale_dims}, zeros);
    w = graph.Binary(Op::kSubtract, w, graph.Convert(zero, kHalves));
  }
  w = graph.Binary(Op::kMultiply, w,
                   RandomConstant(graph, {kHalves, scale_dims}, 12, 0.01));
  if (has_groups) w = graph.Reshape(w, {kWeightRows, kWeightColumns});
  return graph.Convert(w, kFloats);
}

TEST_F(RealOpenVinoTest, WeightsOfIntegersAreExact) {
  for (const WeightCase& c :
       {WeightCase{Element::kI8, 32, false},
        WeightCase{Element::kI8, 16, false}, WeightCase{Element::kI8, 0, false},
        WeightCase{Element::kI4, 32, false},
        WeightCase{Element::kI4, 128, false},
        WeightCase{Element::kI4, 0, false}, WeightCase{Element::kU8, 0, true},
        WeightCase{Element::kU4, 0, true}}) {
    SCOPED_TRACE(
        fmt::format("{} in groups of {}", InfoOf(c.element).name, c.group));
    const auto build = [&c](Graph& graph) {
      graph.weight_group = c.group == 0 ? -1 : c.group;
      const Value x = graph.Parameter("x", {kFloats, {1, 3, kWeightColumns}});
      return graph.MatMul(x, Weights(graph, c), true);
    };
    const OpCase product = {"product", build, {1, 3, kWeightColumns}};
    ExpectAsReference(*cpu_, product);
    // bf16, or activations of 8 bits.
    ExpectAsReference(*cpu_, product, 1e-3, {.num_threads = 1});
  }
}

TEST_F(RealOpenVinoTest, ResetGivesVariablesBack) {
  Graph graph;
  const Type type = {kFloats, {1, 3}};
  const Value x = graph.Parameter("x", type);
  const Value before =
      graph.ReadValue(Numbers(graph, type, {0, 10, 20}), "total");
  const Value sum = graph.Binary(Op::kAdd, before, x);
  graph.Assign(sum, "total");
  graph.Output(sum, "y");
  BoundProgram program(*cpu_, graph);
  program.Set("x", std::vector<double>{1, 2, 3});
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(program.Infer().has_value());
    EXPECT_EQ(program.Get("y"), (std::vector<float>{1, 12, 23}));
    ASSERT_TRUE(program.Infer().has_value());
    EXPECT_EQ(program.Get("y"), (std::vector<float>{2, 14, 26}));
    ASSERT_TRUE(program.program().Reset().has_value());
  }
}

// A product wide enough for partitioning to mean something.
OpCase LayerCase() {
  return {"layer",
          [](Graph& graph) {
            const Value x = graph.Parameter("x", {kFloats, {1, 8, 64}});
            const Value w = RandomConstant(graph, {kHalves, {64, 64}}, 5, 0.2);
            const Value y = graph.MatMul(x, graph.Convert(w, kFloats), true);
            return graph.Binary(Op::kAdd, x, graph.Unary(Op::kSwish, y));
          },
          {1, 8, 64}};
}

TEST_F(RealOpenVinoTest, TheNpusPartitioningComputesOnTheCpu) {
  const auto device = openvino_->Open("NPU:npuw-cpu");
  ASSERT_TRUE(device.has_value()) << device.error().message;
  ExpectAsReference(**device, LayerCase(), 1e-4);
}

TEST_F(RealOpenVinoTest, DevicesTellWhoTheyAre) {
  EXPECT_THAT(cpu_->Describe(),
              HasSubstr("OpenVINO " + openvino_->version() + " on CPU ("));
  const auto none = openvino_->Open("FOO");
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("has CPU"));
  for (const char* device : {"NPU", "GPU"}) {
    if (Has(device) || Has(std::string(device) + ".0")) continue;
    const auto opened = openvino_->Open(device);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(opened.error().message,
                AnyOf(HasSubstr("its driver is not loaded"),
                      HasSubstr("a library that its plugin or driver needs")))
        << device;
  }
}

// A compile without the checks that come before it.
Result<OvOwned<OvCompiled>> CompileRaw(
    const std::string& device, OvProperties properties, const std::string& xml,
    const std::vector<std::string>& command = {}) {
  OvJob job;
  TC_ASSIGN_OR_RETURN(job.runtime, StartOv(RealLibrary()));
  const Graph graph = AddOne();
  job.device = ParseOvDevice(device);
  job.properties = std::move(properties);
  job.xml = xml.empty() ? WriteIr(graph) : xml;
  TC_ASSIGN_OR_RETURN(job.weights, CopyWeights(*job.runtime, graph.data()));
  return command.empty() ? CompileHere(job)
                         : CompileInChild(job, command, {.most_seconds = 60});
}

TEST_F(RealOpenVinoTest, ItsWordsAreUnderstood) {
  struct Case {
    const char* device;
    const char* key;
    const char* xml;
    ErrorCode code;
    const char* message;
  };
  for (const Case& c :
       {Case{"CPU", "NPU_TURBO", "", ErrorCode::kUnsupported, "a setting"},
        Case{"FOO", "", "", ErrorCode::kNotFound, "no plugin"},
        Case{"NPU", "", "", ErrorCode::kUnsupported, "NPU: compiling"},
        Case{"CPU", "", "<net>", ErrorCode::kIo, "CPU: compiling a graph: "}}) {
    if (Has(c.device) && std::string_view(c.device) == "NPU") continue;
    OvProperties properties;
    if (*c.key != '\0') properties.emplace_back(c.key, "YES");
    const auto compiled = CompileRaw(c.device, properties, c.xml);
    ASSERT_FALSE(compiled.has_value()) << c.message;
    EXPECT_EQ(compiled.error().code, c.code) << compiled.error().message;
    EXPECT_THAT(compiled.error().message, HasSubstr(c.message));
  }
}

TEST_F(RealOpenVinoTest, AChildsResultIsImported) {
  auto compiled = CompileRaw("CPU", {}, "", {TC_COMPILE_CHILD});
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  const auto runtime = *StartOv(RealLibrary());
  auto program =
      OvProgram::Create(runtime, "CPU", *std::move(compiled), AddOne());
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_EQ(RunAddOne(**program), (std::vector<float>{2.0f, 3.0f}));
}

TEST_F(RealOpenVinoTest, ACompileWithoutTimeIsLeftBehind) {
  Graph graph;
  graph.Output(LayerCase().build(graph), "y");
  const auto program = cpu_->Compile(graph, {.most_seconds = 1e-6});
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace thermocline::npu
