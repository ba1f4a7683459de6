// For tests: a static model beside what it gave.
#ifndef THERMOCLINE_NPU_TEST_STATIC_MODEL_H_
#define THERMOCLINE_NPU_TEST_STATIC_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "npu/static_kv.h"
#include "npu/static_model.h"
#include "npu/test_npu_model.h"

namespace thermocline::npu {

// Does what another one does, and may fail.
class FaultyDevice final : public StaticDevice {
 public:
  // Fails the call of Infer, or Compile, of that number, from 0 on.
  int failing_infer = -1;
  int failing_compile = -1;
  ErrorCode compile_code = ErrorCode::kUnsupported;
  bool spoils = false;  // what the last of a graph's layers gives
  int num_infers = 0;
  int num_compiles = 0;

  std::string name() const override { return "faulty"; }
  std::string Describe() const override { return "faulty device"; }
  CompileOptions OptionsThatCount(
      const CompileOptions& options) const override {
    return {.is_exact = options.is_exact, .is_one_row = options.is_one_row};
  }
  Result<std::unique_ptr<StaticProgram>> Compile(
      const Graph& graph, const CompileOptions& options) override {
    if (num_compiles++ == failing_compile) {
      return Fail(compile_code, "the compiler refused");
    }
    TC_ASSIGN_OR_RETURN(auto program, reference_->Compile(graph, options));
    return std::make_unique<Program>(this, std::move(program));
  }

 private:
  class Program final : public StaticProgram {
   public:
    Program(FaultyDevice* device, std::unique_ptr<StaticProgram> program)
        : device_(device), program_(std::move(program)) {}
    Status Bind(std::string_view name, const Type& type,
                std::byte* data) override {
      if (name == "y") {
        y_ = {reinterpret_cast<float*>(data),
              static_cast<size_t>(NumElements(type.dims))};
      }
      return program_->Bind(name, type, data);
    }
    Status Infer() override {
      if (device_->num_infers++ == device_->failing_infer) {
        return Fail(ErrorCode::kIo, "the device is lost");
      }
      TC_RETURN_IF_ERROR(program_->Infer());
      for (size_t i = 0; i < y_.size() && device_->spoils; i += 3) {
        y_[i] = -y_[i];
      }
      return {};
    }
    Status Reset() override { return program_->Reset(); }

   private:
    FaultyDevice* device_;
    std::unique_ptr<StaticProgram> program_;
    std::span<float> y_;
  };

  std::unique_ptr<StaticDevice> reference_ = MakeReferenceDevice();
};

// Rows as an embedding gives them.
inline std::vector<float> RandomStream(int64_t num_rows, size_t width,
                                       uint64_t seed) {
  Random random(seed);
  std::vector<float> x(static_cast<size_t>(num_rows) * width);
  for (float& value : x) value = random.Uniform(-1.0f, 1.0f);
  return x;
}

// The host's keys and values, as a sink is given them.
class HostKv {
 public:
  explicit HostKv(const model::Config* config) : config_(config) {}

  // A position comes once, unless Truncate has given it up.
  KvSink Sink() {
    return {.put = [this](size_t layer_idx, int64_t first, int64_t count,
                          const uint16_t* k, const uint16_t* v) {
      const KvWidths widths = KvWidthsOf(*config_, layer_idx);
      for (int64_t i = 0; i < count; ++i, k += widths.k, v += widths.v) {
        const bool is_new =
            rows_
                .emplace(std::pair(layer_idx, first + i),
                         std::pair(std::vector(k, k + widths.k),
                                   std::vector(v, v + widths.v)))
                .second;
        EXPECT_TRUE(is_new) << layer_idx << " " << first + i;
      }
    }};
  }
  KvSource Source() const {
    return {.get = [this](size_t layer_idx, int64_t first, int64_t count,
                          uint16_t* k, uint16_t* v) {
      for (int64_t i = 0; i < count; ++i) {
        const auto& [keys, values] = rows_.at({layer_idx, first + i});
        k = std::ranges::copy(keys, k).out;
        v = std::ranges::copy(values, v).out;
      }
    }};
  }
  void Truncate(int64_t length) {
    std::erase_if(
        rows_, [&](const auto& entry) { return entry.first.second >= length; });
  }
  bool operator==(const HostKv& other) const { return rows_ == other.rows_; }
  size_t size() const { return rows_.size(); }

 private:
  const model::Config* config_;
  std::map<std::pair<size_t, int64_t>,
           std::pair<std::vector<uint16_t>, std::vector<uint16_t>>>
      rows_;
};

struct StaticRig {
  StaticRig(std::shared_ptr<const model::Model> of_model,
            const StaticOptions& options)
      : model(std::move(of_model)), host(&model->config()) {
    auto made = StaticModel::Create(model, device, options);
    if (!made.has_value()) ADD_FAILURE() << made.error().message;
    TC_CHECK(made.has_value());
    graphs = *std::move(made);
  }

  // The last layer's output for more rows; of an error nothing.
  Result<std::vector<float>> Run(std::vector<float> x,
                                 const std::function<bool()>& cancelled = {}) {
    const KvSink sink = host.Sink();
    TC_RETURN_IF_ERROR(
        graphs->Run(PackedRows(x, model->config().width), &sink, cancelled));
    return x;
  }

  std::shared_ptr<const model::Model> model;
  std::shared_ptr<FaultyDevice> device = std::make_shared<FaultyDevice>();
  HostKv host;
  std::unique_ptr<StaticModel> graphs;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TEST_STATIC_MODEL_H_
