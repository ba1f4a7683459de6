// The fake OpenVINO as tests use it (testing/fake_settings.h).
#ifndef THERMOCLINE_NPU_TEST_OPENVINO_H_
#define THERMOCLINE_NPU_TEST_OPENVINO_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "npu/graph.h"
#include "npu/openvino.h"
#include "npu/static_device.h"

namespace thermocline::npu {

// Variables of the environment, as they were again at the end. No other thread
// may look at them meanwhile.
class TestEnvironment {
 public:
  TestEnvironment(
      std::initializer_list<std::pair<const char*, std::string>> variables) {
    for (const auto& [name, value] : variables) {
      const char* before = std::getenv(name);
      before_.emplace_back(name, before == nullptr ? "" : before);
      setenv(name, value.c_str(), 1);
    }
  }
  ~TestEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value.empty()) {
        unsetenv(name);
      } else {
        setenv(name, value.c_str(), 1);
      }
    }
  }
  TestEnvironment(const TestEnvironment&) = delete;
  TestEnvironment& operator=(const TestEnvironment&) = delete;

 private:
  std::vector<std::pair<const char*, std::string>> before_;
};

inline std::shared_ptr<OpenVino> LoadFake(
    std::vector<std::string> child_command = {}) {
  auto openvino = OpenVino::Load(
      {.library = TC_FAKE_OPENVINO, .child_command = std::move(child_command)});
  EXPECT_TRUE(openvino.has_value()) << openvino.error().message;
  return openvino.has_value() ? *openvino : nullptr;
}

// y = x + 1, two numbers.
inline Graph AddOne() {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {2}});
  graph.Output(graph.Binary(Op::kAdd, x, graph.Scalar(1.0f)), "y");
  return graph;
}

// Memory for one tensor, aligned as programs want it.
template <typename T>
class TestTensor {
 public:
  explicit TestTensor(size_t count)
      : data_(
            static_cast<T*>(std::aligned_alloc(
                Graph::kAlignment, (count * sizeof(T) + Graph::kAlignment) /
                                       Graph::kAlignment * Graph::kAlignment)),
            std::free),
        count_(count) {}

  T& operator[](size_t i) { return data_.get()[i]; }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(data_.get()); }
  std::vector<T> values() const { return {data_.get(), data_.get() + count_}; }

 private:
  std::unique_ptr<T, decltype(&std::free)> data_;
  size_t count_;
};

// What AddOne's program makes of 1 and 2.
inline std::vector<float> RunAddOne(StaticProgram& program) {
  TestTensor<float> x(2);
  TestTensor<float> y(2);
  x[0] = 1.0f;
  x[1] = 2.0f;
  const Type type = {Element::kF32, {2}};
  for (const Status& status :
       {program.Bind("x", type, x.bytes()), program.Bind("y", type, y.bytes()),
        program.Infer()}) {
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
  return y.values();
}

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TEST_OPENVINO_H_
