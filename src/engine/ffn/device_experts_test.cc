#include "engine/ffn/device_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "base/random.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/ffn/neuron_ffn.h"

namespace thermocline::engine {
namespace {

using kernels::kDeviceRows;
using ::testing::HasSubstr;

// Rows and sets of these widths do not end at multiples of 16 bytes.
constexpr size_t kOddWidth = 37;
constexpr size_t kOddNeurons = 71;
constexpr size_t kManyExperts = 24;
constexpr size_t kExpertsUsed = 3;

// Experts in F32 whose rows lie one after the other.
class OddExperts {
 public:
  explicit OddExperts(bool is_transposed) {
    for (size_t e = 0; e < kManyExperts; ++e) {
      model::FfnMatrices& expert = weights.experts.emplace_back();
      expert.gate = Matrix(kOddWidth, kOddNeurons);
      expert.up = Matrix(kOddWidth, kOddNeurons);
      (is_transposed ? expert.down_t : expert.down) =
          is_transposed ? Matrix(kOddWidth, kOddNeurons)
                        : Matrix(kOddNeurons, kOddWidth);
    }
    std::iota(all.begin(), all.end(), 0u);
  }

  TensorView Matrix(size_t n, size_t num_rows) {
    std::vector<float>& values = values_.emplace_back(n * num_rows);
    for (float& value : values) value = random_.Uniform(-0.5f, 0.5f);
    return {.dtype = DType::kF32,
            .shape = {{n, num_rows, 1, 1}, 2},
            .data = reinterpret_cast<const std::byte*>(values.data())};
  }

  // f(gate x) * (up x) of a neuron, 0 for one that is not wanted.
  double Hidden(size_t e, size_t neuron, std::span<const float> x) const {
    const auto dot = [&](const TensorView& view) {
      const auto* row = reinterpret_cast<const float*>(view.row(neuron));
      return std::inner_product(x.begin(), x.end(), row, 0.0);
    };
    return std::max(dot(weights.experts[e].gate), 0.0) *
           dot(weights.experts[e].up);
  }
  double Down(size_t e, size_t neuron, size_t column) const {
    const model::FfnMatrices& expert = weights.experts[e];
    const auto at = [](const TensorView& view, size_t row, size_t i) {
      return reinterpret_cast<const float*>(view.row(row))[i];
    };
    return expert.down_t ? at(expert.down_t, neuron, column)
                         : at(expert.down, column, neuron);
  }

  const model::FfnSpec spec = {.activation = Activation::kRelu,
                               .width = kOddNeurons,
                               .num_experts = kManyExperts,
                               .num_experts_used = kExpertsUsed};
  model::FfnWeights weights;
  std::vector<uint32_t> all = std::vector<uint32_t>(kManyExperts);

 private:
  Random random_{5};
  std::deque<std::vector<float>> values_;
};

// A device with a lane of just what is needed, and all experts.
struct OddDevice {
  OddDevice(const OddExperts& experts, FfnMode mode) {
    device = device::MakeSim(device::TestMachine(), {.is_late = true});
    lane = *DeviceLane::Make(device.get(),
                             DeviceExpertsNeed(experts.spec, kOddWidth));
    const uint64_t before =
        device->allocated_bytes(device::MemoryKind::kDevice);
    resident = *DeviceExperts::Make({.spec = &experts.spec,
                                     .weights = &experts.weights,
                                     .mode = mode,
                                     .resident = experts.all,
                                     .lane = lane.get()});
    num_bytes = device->allocated_bytes(device::MemoryKind::kDevice) - before;
  }

  std::unique_ptr<device::SimDevice> device;
  std::unique_ptr<DeviceLane> lane;
  std::unique_ptr<DeviceExperts> resident;
  uint64_t num_bytes = 0;
};

// As many rows as may be, each of which chose experts of its own.
class DeviceExpertsPass : public ::testing::TestWithParam<bool> {
 protected:
  DeviceExpertsPass() {
    Random random(9);
    for (float& value : x_) value = random.Uniform(-1.0f, 1.0f);
    for (size_t e = 0; e < kManyExperts; ++e) {
      words_[e].resize(neuron::WordsOf(kOddNeurons));
      for (size_t n = 0; n < kOddNeurons; ++n) {
        if (WantsAll(e) || random.Below(2) == 0) Wanted(e).Add(n);
      }
    }
    if (!WantsAll(5)) Wanted(5).Clear();
  }

  // Matrices know no sets.
  static bool WantsAll(size_t e) { return !GetParam() || e % 4 == 0; }
  neuron::NeuronSet Wanted(size_t e) { return {words_[e].data(), kOddNeurons}; }
  std::span<const float> RowOf(size_t e) const {
    return std::span(x_).subspan(e % kDeviceRows * kOddWidth, kOddWidth);
  }

  Status Run() {
    odd_.resident->Start();
    for (size_t e = 0; e < kManyExperts; ++e) {
      const neuron::NeuronSet wanted = Wanted(e);
      odd_.resident->AddExpert(e);
      odd_.resident->AddRow(RowOf(e).data(), WantsAll(e) ? nullptr : &wanted);
    }
    TC_RETURN_IF_ERROR(odd_.resident->Begin(true));
    return odd_.resident->Finish();
  }

  const OddExperts experts_{GetParam()};
  OddDevice odd_{experts_, FfnMode::kExact};
  std::vector<float> x_ = std::vector<float>(kDeviceRows * kOddWidth);
  std::array<std::vector<uint64_t>, kManyExperts> words_;
};

// To the last neuron of the sets that they want.
TEST_P(DeviceExpertsPass, ComputesWhatEachRowWants) {
  ASSERT_TRUE(Run());
  SparseTotals totals;
  for (size_t e = 0; e < kManyExperts; ++e) {
    SCOPED_TRACE(e);
    std::vector<uint64_t> told(2 * words_[e].size());
    const neuron::NeuronSet named = {told.data(), kOddNeurons};
    const neuron::NeuronSet fired = {told.data() + words_[e].size(),
                                     kOddNeurons};
    odd_.resident->Describe(e, 0, named, fired);
    std::vector<double> expected(kOddWidth);
    for (size_t n = 0; n < kOddNeurons; ++n) {
      const double h = Wanted(e).Has(n) ? experts_.Hidden(e, n, RowOf(e)) : 0.0;
      EXPECT_EQ(named.Has(n), Wanted(e).Has(n));
      EXPECT_EQ(fired.Has(n), h != 0.0);
      for (size_t i = 0; i < kOddWidth; ++i) {
        expected[i] += h * experts_.Down(e, n, i);
      }
    }
    for (size_t i = 0; i < kOddWidth; ++i) {
      EXPECT_NEAR(odd_.resident->out(e).row(0)[i], expected[i], 1e-5);
    }
    odd_.resident->Count(e, totals);
  }
  EXPECT_EQ(totals.num_neurons, kManyExperts * kOddNeurons);
  EXPECT_EQ(totals.num_candidates, totals.num_device_candidates);
  EXPECT_EQ(totals.num_candidates == totals.num_neurons, !GetParam());
  EXPECT_EQ(totals.num_union_open, totals.num_open);
}

INSTANTIATE_TEST_SUITE_P(Forms, DeviceExpertsPass, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Records" : "Matrices";
                         });

// Rows that share an expert are counted each, and together.
TEST(DeviceExperts, CountWhatRowsRead) {
  OddExperts experts(true);
  OddDevice odd(experts, FfnMode::kExact);
  const std::vector<float> x(kOddWidth, 0.0f);
  std::vector<uint64_t> words(neuron::WordsOf(kOddNeurons));
  const neuron::NeuronSet wanted = {words.data(), kOddNeurons};
  odd.resident->Start();
  odd.resident->AddExpert(3);
  for (size_t i = 0; i < kDeviceRows; ++i) {
    wanted.Add(2 * i);
    odd.resident->AddRow(x.data(), &wanted);
  }
  ASSERT_TRUE(odd.resident->Begin(false));
  ASSERT_TRUE(odd.resident->Finish());
  SparseTotals totals;
  odd.resident->Count(3, totals);
  EXPECT_EQ(totals.num_candidates, kDeviceRows * (kDeviceRows + 1) / 2);
  EXPECT_EQ(totals.num_union_candidates, kDeviceRows);
  EXPECT_EQ(totals.num_open, 0u);
  EXPECT_EQ(
      totals.num_device_bytes,
      kDeviceRows * odd.device->layout().RowBytes(DType::kF32, kOddWidth));
}

TEST(DeviceExperts, TakeWhatIsPlanned) {
  for (const bool is_transposed : {true, false}) {
    OddExperts experts(is_transposed);
    OddDevice odd(experts, FfnMode::kDense);
    const auto bytes =
        DeviceExpertBytes(experts.spec, experts.weights.experts[0],
                          FfnMode::kDense, odd.device->layout());
    ASSERT_TRUE(bytes) << bytes.error().message;
    EXPECT_EQ(odd.num_bytes, *bytes * kManyExperts);
    EXPECT_EQ(odd.resident->has_raw(), !is_transposed);
  }
}

// All neurons of a matrix are computed; a mode that leaves some out that fire
// needs records. Of types the device has not heard.
TEST(DeviceExperts, SayWhatCannotBeThere) {
  OddExperts experts(false);
  OddDevice odd(experts, FfnMode::kDense);
  const device::RowLayout& layout = odd.device->layout();
  model::FfnMatrices expert = experts.weights.experts[0];
  for (const FfnMode mode : {FfnMode::kFast, FfnMode::kThreshold}) {
    const auto refused = DeviceExpertBytes(experts.spec, expert, mode, layout);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("not prepared"));
    EXPECT_FALSE(DeviceExperts::Make({.spec = &experts.spec,
                                      .weights = &experts.weights,
                                      .mode = mode,
                                      .resident = experts.all,
                                      .lane = odd.lane.get()}));
  }
  expert.up.dtype = DType::kIQ4_XS;
  const auto refused =
      DeviceExpertBytes(experts.spec, expert, FfnMode::kDense, layout);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the up matrix in IQ4_XS"));
}

}  // namespace
}  // namespace thermocline::engine
