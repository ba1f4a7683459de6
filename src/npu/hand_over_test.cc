#include "npu/hand_over.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "npu/test_npu_model.h"

namespace thermocline::npu {
namespace {

using Put = std::tuple<size_t, int64_t, int64_t>;

struct HandOverFixture {
  std::shared_ptr<const model::Model> model = MakeNpuModel({});
  StaticKv kv = StaticKv::Create(&model->config(), 64).value();
  std::vector<uint16_t> room = std::vector<uint16_t>(8 * 32);
};

TEST(HandOverTest, GivesAllInOrderFromAThreadOfItsOwn) {
  HandOverFixture fixture;
  std::vector<Put> puts;
  const auto caller = std::this_thread::get_id();
  const KvSink sink = {.put = [&](size_t layer_idx, int64_t first,
                                  int64_t count, const uint16_t*,
                                  const uint16_t*) {
    EXPECT_NE(std::this_thread::get_id(), caller);
    puts.emplace_back(layer_idx, first, count);
  }};
  StaticTimes times;
  HandOver hand_over(&fixture.kv, &sink, fixture.room.data());
  ASSERT_TRUE(hand_over.Start());
  hand_over.Add(0, 0, 8);
  hand_over.Add(1, 0, 8);
  hand_over.Add(0, 8, 3);
  hand_over.Finish(times);
  EXPECT_EQ(puts, (std::vector<Put>{{0, 0, 8}, {1, 0, 8}, {0, 8, 3}}));
  EXPECT_GT(times.hand_over_s, 0.0);
}

TEST(HandOverTest, WithoutASinkThereIsNothingToDo) {
  HandOverFixture fixture;
  StaticTimes times;
  HandOver hand_over(&fixture.kv, nullptr, nullptr);
  ASSERT_TRUE(hand_over.Start());
  hand_over.Add(0, 0, 8);
  hand_over.Finish(times);
  EXPECT_EQ(times.hand_over_s, 0.0);
}

// A run that failed: what has not been begun is dropped, what has been ends.
TEST(HandOverTest, EndsEarly) {
  HandOverFixture fixture;
  std::mutex mutex;
  std::condition_variable changed;
  size_t num_puts = 0;
  const KvSink sink = {
      .put = [&](size_t, int64_t, int64_t, const uint16_t*, const uint16_t*) {
        const std::lock_guard lock(mutex);
        ++num_puts;
        changed.notify_all();
      }};
  {
    HandOver hand_over(&fixture.kv, &sink, fixture.room.data());
    ASSERT_TRUE(hand_over.Start());
    hand_over.Add(0, 0, 1);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return num_puts == 1; });
  }
  EXPECT_EQ(num_puts, 1u);
}

}  // namespace
}  // namespace thermocline::npu
