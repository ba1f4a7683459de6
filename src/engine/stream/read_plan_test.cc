#include "engine/stream/read_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline::engine {
namespace {

// Of 4 KiB, a record and 128 KiB in thousands a second, at each depth.
struct MadeUpDevice {
  size_t depth = 0;
  double part = 0.0, record = 0.0, many = 0.0;
};

constexpr size_t kPlanStride = 8192;  // of a 7b's Q4_0

neuron::RecordLayout PlanLayout(size_t stride = kPlanStride) {
  return {.gate = DType::kQ4_0,
          .up = DType::kQ4_0,
          .down = DType::kQ4_0,
          .width = stride / 2,
          .stride = stride};
}

std::vector<ReadRate> RatesOf(const std::vector<MadeUpDevice>& device) {
  std::vector<ReadRate> rates;
  for (const MadeUpDevice& at : device) {
    rates.push_back({4096, at.depth, 1e3 * at.part});
    rates.push_back({kPlanStride, at.depth, 1e3 * at.record});
    rates.push_back({128 << 10, at.depth, 1e3 * at.many});
  }
  return rates;
}

TEST(PlanReads, OfMadeUpDevices) {
  const struct {
    const char* name;
    std::vector<MadeUpDevice> device;
    const char* expected;
    size_t longest_kib;
  } cases[] = {
      // UFS 4.0 within 128 MiB (PowerInfer-2 2.3): 1 GB/s in 4 KiB, less in 8.
      {"phone",
       {{8, 240, 90, 22}, {32, 244, 92, 22}, {64, 244, 92, 22}},
       "gates first where under 100 % fire, gaps to 8 KiB, depth 64",
       40},
      // docs/perf/storage.md.
      {"virtio",
       {{8, 75.7, 57, 20.2}, {32, 85.4, 74.2, 22.4}, {64, 107.7, 81.7, 23.1}},
       "gates first where under 25 % fire, gaps to 16 KiB, depth 64",
       148},
      // A read costs little beside its bytes.
      {"nvme",
       {{8, 300, 280, 40}, {32, 900, 610, 50}, {64, 1000, 640, 52}},
       "gates first where under 48 % fire, gaps to 0 KiB, depth 64",
       12},
      // Takes as long for a byte as for many.
      {"disk",
       {{8, 0.1, 0.1, 0.1}, {32, 0.1, 0.1, 0.1}},
       "whole records, gaps to 16 KiB, depth 32",
       256},
      {"nothing measured", {}, "whole records, gaps to 12 KiB, depth 64", 128},
  };
  for (const auto& test : cases) {
    const ReadPlan plan = PlanReads(RatesOf(test.device), PlanLayout());
    EXPECT_EQ(Describe(plan, PlanLayout()), test.expected) << test.name;
    EXPECT_EQ(plan.longest_bytes, test.longest_kib << 10) << test.name;
  }
}

// Where most records are missed, long reads bring them faster whole.
TEST(GateFirstBelow, IsForScatteredRecords) {
  const ReadPlan phone = {
      .first_cost = 0.38, .rest_cost = 0.38, .bytes_cost = 0.24};
  EXPECT_GT(GateFirstBelow(phone, 0.9), 0.6);
  EXPECT_LT(GateFirstBelow(phone, 0.1), 0.0);
  EXPECT_LT(GateFirstBelow(ReadPlan(), 1.0), 0.0);
}

TEST(PlanReads, NeedsTwoSizes) {
  const ReadPlan plan = PlanReads({{4096, 8, 1e5}}, PlanLayout());
  EXPECT_EQ(plan, ReadPlan());
}

TEST(FirstBytes, EndsWithAPart) {
  EXPECT_EQ(FirstBytes(PlanLayout(), 4096), 4096u);
  EXPECT_EQ(FirstBytes(PlanLayout(4096), 4096), 0u);  // one part
  neuron::RecordLayout layout = PlanLayout();
  EXPECT_EQ(FirstBytes(layout, 12288), 0u);  // other parts
  layout.gate.reset();
  EXPECT_EQ(FirstBytes(layout, 4096), 0u);
  layout.gate = DType::kF16;  // 8 KiB: nothing is behind
  EXPECT_EQ(FirstBytes(layout, 4096), 0u);
}

}  // namespace
}  // namespace thermocline::engine
