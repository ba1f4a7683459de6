#include "bench/op_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/op_host.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;

OpBenchOptions SmallOpOptions() {
  return {.shape = {.dtype = DType::kQ8_0, .width = 64, .num_neurons = 299},
          .targets = {{.machine = device::TestMachine()}},
          .num_threads = 1,
          .rounds = 2,
          .most_bytes = 1 << 20};
}

OpReport RunSmallOp(const OpBenchOptions& options) {
  const auto report = RunOpBench(options);
  EXPECT_TRUE(report.has_value()) << report.error().message;
  return report.value_or(OpReport());
}

TEST(OpBenchTest, SimulatedTimesAreTheSameEveryTimeAndFallWithSparsity) {
  const OpReport report = RunSmallOp(SmallOpOptions());
  EXPECT_EQ(FormatOp(report, BenchFormat::kJson),
            FormatOp(RunSmallOp(SmallOpOptions()), BenchFormat::kJson));
  ASSERT_EQ(report.sparse.size(), 13u);
  EXPECT_FALSE(report.sparse.front().sparsity.has_value());
  for (size_t i = 2; i < report.sparse.size(); ++i) {
    EXPECT_LT(report.sparse[i].seconds, report.sparse[i - 1].seconds);
    EXPECT_LE(*PercentOfBound(report, report.sparse[i]), 100.0);
  }
  const OpSparseRow& last = report.sparse.back();
  EXPECT_EQ(last.num_neurons, 3u);
  EXPECT_NEAR(static_cast<double>(last.num_bytes) /
                  static_cast<double>(report.sparse[1].num_bytes),
              0.01, 0.001);
  ASSERT_EQ(report.moves.size(), 12u);
  for (const OpMoveRow& row : report.moves) {
    EXPECT_GT(row.in_place_seconds, 0.0);
    EXPECT_GT(*row.sum(), *row.move_seconds);
  }
}

TEST(OpBenchTest, TheHostIsMeasuredAloneAndForADevice) {
  OpBenchOptions options = SmallOpOptions();
  options.sparsities = {0.5};
  options.batches = {1, 9};
  options.targets = {{}};
  const OpReport alone = RunSmallOp(options);
  ASSERT_EQ(alone.subjects.size(), 1u);
  EXPECT_EQ(alone.subjects[0].name, "host");
  ASSERT_EQ(alone.moves.size(), 4u);
  EXPECT_FALSE(alone.moves[0].sum().has_value());
  // A computing device, whose time is virtual and so is its host's.
  options.targets.push_back(
      {.device = device::MakeSim(device::TestMachine(), {})});
  const OpReport both = RunSmallOp(options);
  ASSERT_EQ(both.subjects.size(), 2u);
  ASSERT_EQ(both.moves.size(), 4u);
  EXPECT_EQ(both.moves[0].subject, 1u);
  EXPECT_TRUE(both.moves[0].sum().has_value());
  EXPECT_EQ(both.subjects[1].roof_gb_per_s, 0x1p20 / 1e9);
}

// The host's, but for one value of what sparse calls of half the neurons give.
class WrongSubject : public OpSubject {
 public:
  WrongSubject(OpSubject& right, size_t wrong_count)
      : right_(right), wrong_count_(wrong_count) {}
  const OpFacts& facts() const override { return right_.facts(); }
  Result<double> Dense() override { return Keep(right_.Dense(), 0); }
  Result<double> Sparse(std::span<const uint32_t> ids,
                        size_t num_rows) override {
    return Keep(right_.Sparse(ids, num_rows), ids.size());
  }
  std::span<const float> out(size_t) const override { return out_; }
  uint64_t dense_bytes() const override { return right_.dense_bytes(); }
  uint64_t neuron_bytes() const override { return right_.neuron_bytes(); }

 private:
  Result<double> Keep(Result<double> seconds, size_t count) {
    out_.assign(right_.out(0).begin(), right_.out(0).end());
    if (count == wrong_count_) out_[5] *= 1.1f;
    return seconds;
  }

  OpSubject& right_;
  size_t wrong_count_;
  std::vector<float> out_;
};

TEST(OpBenchTest, AWrongResultIsAnErrorAndNoRow) {
  const OpBenchOptions options = SmallOpOptions();
  OpLayer layer(options.shape, 1);
  const auto host = MakeHostSubject(
      layer, {.num_threads = 1, .most_bytes = options.most_bytes});
  ASSERT_TRUE(host.has_value()) << host.error().message;
  struct Case {
    size_t wrong_count;
    const char* what;
  };
  for (const Case& c : {Case{0, "host, the dense product: a wrong result"},
                        Case{150, "host at a sparsity of 50 %: a wrong"}}) {
    WrongSubject wrong(**host, c.wrong_count);
    const auto rows = MeasureSparse(wrong, layer, options);
    ASSERT_FALSE(rows.has_value()) << c.what;
    EXPECT_EQ(rows.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(rows.error().message, HasSubstr(c.what));
  }
  WrongSubject right(**host, 1000);
  EXPECT_TRUE(MeasureSparse(right, layer, options).has_value());
}

TEST(OpBenchTest, RefusesNothingToMeasure) {
  OpBenchOptions options = SmallOpOptions();
  options.rounds = 0;
  EXPECT_EQ(RunOpBench(options).error().code, ErrorCode::kInvalidArgument);
  options = SmallOpOptions();
  options.targets.clear();
  EXPECT_EQ(RunOpBench(options).error().code, ErrorCode::kInvalidArgument);
  options = SmallOpOptions();
  options.shape.width = 63;
  EXPECT_EQ(RunOpBench(options).error().code, ErrorCode::kInvalidArgument);
}

TEST(OpBenchTest, SaysFromWhereOnOneWins) {
  OpReport report;
  report.subjects.resize(2);
  for (const auto& [sparsity, seconds] :
       {std::pair{0.0, 0.9}, {0.5, 1.1}, {0.9, 0.8}, {0.99, 0.1}}) {
    report.sparse.push_back(
        {.sparsity = sparsity, .seconds = seconds, .dense_seconds = 1.0});
  }
  report.sparse.push_back(
      {.subject = 1, .sparsity = 0.9, .seconds = 2, .dense_seconds = 1});
  EXPECT_EQ(SparseWinsFrom(report, 0), 0.9);
  EXPECT_EQ(SparseWinsFrom(report, 1), std::nullopt);
  for (const auto& [batch, in_place] :
       {std::pair<size_t, double>{1, 5.0}, {2, 1.0}, {4, 3.0}, {8, 6.0}}) {
    report.moves.push_back({.share = 0.1,
                            .batch = batch,
                            .in_place_seconds = in_place,
                            .move_seconds = 2.0,
                            .compute_seconds = 0.5});
  }
  EXPECT_EQ(MovingWinsFrom(report, 0, 0.1), 4u);
  EXPECT_EQ(MovingWinsFrom(report, 0, 0.6), std::nullopt);
}

}  // namespace
}  // namespace thermocline::bench
