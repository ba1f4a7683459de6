#include "planner/storage_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "planner/test_storage.h"

namespace thermocline::planner {
namespace {

CoreShare FourFast() {
  return {.row_rate = 32e9,
          .prompt_rate = 320e9,
          .read_share = 1.0,
          .num_compute = 4,
          .num_io = 1};
}

// Equations 2 and 6 to 11 by hand, with memory's time.
TEST(StorageCost, IsThePapersModelWithMemory) {
  const StorageMachine phone = TestPhone();
  const StreamModel model = TestStream();
  for (const uint32_t missed : {0u, 20u, 400u}) {
    const StorageCost cost =
        PredictStorage(phone, model, FourFast(), TestUses(missed));
    const double fixed = std::max(32e6 / 32e9, 32e6 / 40e9);
    const double products = 1000 * 4096.0 / 32e9;
    const double memory = (1000 + missed) * 4096.0 / 40e9;
    const double storage =
        missed == 0 ? 0.0 : missed / (10e3 * std::min(missed, 32u));
    const double expected = fixed + 2 * std::max({products, memory, storage});
    EXPECT_NEAR(cost.seconds, expected, 1e-9) << missed;
    EXPECT_NEAR(
        cost.compute_seconds + cost.memory_seconds + cost.storage_seconds,
        cost.seconds, 1e-12);
    EXPECT_EQ(cost.num_missed, 2 * missed);
    EXPECT_EQ(cost.read_bytes, 2 * missed * 4096.0);
    EXPECT_NEAR(cost.p99_seconds, cost.p50_seconds, 1e-12);
    EXPECT_EQ(cost.storage_seconds > 0.0, missed == 400);
  }
}

// Pieces that wait for their last miss: longer than the longest of both, no
// longer than one behind the other, and as the paper's where pieces are many.
TEST(StorageCost, PiecesWaitForTheirMisses) {
  const StorageMachine phone = TestPhone();
  const auto seconds_with = [&](uint32_t pieces, uint32_t missed) {
    StreamModel model = TestStream();
    model.num_pieces = pieces;
    return PredictStorage(phone, model, FourFast(), TestUses(missed));
  };
  for (const uint32_t missed : {1u, 10u, 40u, 100u, 400u}) {
    const StorageCost ideal = seconds_with(0, missed);
    const StorageCost one = seconds_with(1, missed);
    double before = one.seconds;
    for (const uint32_t pieces : {2u, 8u, 32u, 1024u}) {
      const StorageCost cost = seconds_with(pieces, missed);
      EXPECT_GE(cost.seconds, ideal.seconds - 1e-12);
      EXPECT_LE(cost.seconds, before + 1e-12) << missed << " " << pieces;
      EXPECT_NEAR(
          cost.compute_seconds + cost.memory_seconds + cost.storage_seconds,
          cost.seconds, 1e-12);
      before = cost.seconds;
    }
    EXPECT_NEAR(before, ideal.seconds, 0.01 * ideal.seconds);
  }
  EXPECT_EQ(seconds_with(32, 0).seconds, seconds_with(0, 0).seconds);
}

TEST(StorageCost, ThreadsThatComputeReadToo) {
  StorageMachine phone = TestPhone();
  phone.read_cpu_seconds = 10e-6;
  const auto seconds_with = [&](uint32_t num_io) {
    CoreShare cores = FourFast();
    cores.num_io = num_io;
    return PredictStorage(phone, TestStream(), cores, TestUses(400));
  };
  // 400 reads take 4 ms of one core, or 1 ms of each of four.
  EXPECT_NEAR(seconds_with(0).compute_alone - seconds_with(1).compute_alone,
              2e-3, 1e-9);
  EXPECT_NEAR(seconds_with(1).storage_alone, 8e-3, 1e-9);
}

TEST(StorageCost, TellsSlowTokensFromTheMean) {
  std::vector<TokenUse> uses = TestUses(0, 99);
  uses.push_back(TestUses(900, 1).front());
  const StorageCost cost =
      PredictStorage(TestPhone(), TestStream(), FourFast(), uses);
  EXPECT_NEAR(cost.p50_seconds, cost.p99_seconds, 1e-12);
  EXPECT_GT(cost.seconds, cost.p50_seconds);
  EXPECT_NEAR(cost.num_missed, 18, 1e-9);
}

// Layers known beforehand are read under what is computed.
TEST(StorageCost, LayersInOrderTakeTheLongerOfBoth) {
  const StorageMachine phone = TestPhone();
  StreamModel model = {.timing = ReadTiming::kInOrder};
  TokenUse token;
  for (int i = 0; i < 8; ++i) {
    model.layers.push_back({.fixed_bytes = 40e6});
    token.push_back(i % 2 == 0 ? LayerUse{1, 1, 40, 40 << 20} : LayerUse{1});
  }
  const double products = 8 * 40e6 / 32e9;
  const double storage =
      4 / 0.5 * ReadSeconds(phone, /*is_random=*/false, 40, 40 << 20);
  const auto cost_with = [&](double faster, uint32_t slots) {
    CoreShare cores = FourFast();
    cores.read_share = faster;
    model.num_slots = slots;
    return PredictStorage(phone, model, cores, {3, token});
  };
  // Reading is the longer one, then computing.
  EXPECT_NEAR(cost_with(0.5, 2).seconds, storage, 1e-6);
  const StorageCost fast = cost_with(100.0, 2);
  EXPECT_NEAR(fast.seconds, products + 4 * 40 * 1.048576e6 / 40e9, 4e-3);
  EXPECT_EQ(fast.num_missed, 4);
  // With one slot nothing is read under the layer that has it.
  EXPECT_GT(cost_with(0.5, 1).seconds, cost_with(0.5, 2).seconds);
  EXPECT_NEAR(cost_with(0.5, 3).seconds, storage, 1e-6);
}

TEST(StorageCost, LongPromptsPayDense) {
  const StorageMachine phone = TestPhone();
  const StreamModel model = TestStream();
  const CoreShare cores = FourFast();
  double before = 0.0;
  for (const uint64_t tokens : {1u, 8u, 64u, 512u}) {
    const double seconds = PromptSeconds(phone, model, cores, tokens);
    EXPECT_GE(seconds, before);
    before = seconds;
  }
  const double token =
      PredictStorage(phone, model, cores, TestUses(100)).seconds;
  const uint64_t from = DensePromptPays(phone, model, cores, token);
  ASSERT_GT(from, 1u);
  EXPECT_LE(PromptSeconds(phone, model, cores, from),
            static_cast<double>(from) * token);
  EXPECT_GT(PromptSeconds(phone, model, cores, from - 1),
            static_cast<double>(from - 1) * token);
  EXPECT_EQ(DensePromptPays(phone, model, cores, 1e-9), 0u);
  EXPECT_EQ(DensePromptPays(phone, model, cores, 10.0), 1u);
}

}  // namespace
}  // namespace thermocline::planner
