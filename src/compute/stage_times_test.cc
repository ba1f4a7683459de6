#include "compute/stage_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace thermocline::compute {
namespace {

TEST(StageTest, HasANameEach) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kNumStages; ++i) {
    names.insert(NameOf(static_cast<Stage>(i)));
  }
  EXPECT_EQ(names.size(), kNumStages);
  EXPECT_EQ(NameOf(Stage::kHead), "head");
}

TEST(ScopedStageTest, AddsWhatHappensWhileItLives) {
  auto pool = os::ThreadPool::Create({.num_threads = 2});
  ASSERT_TRUE(pool.has_value());
  StageTimes profile;
  const Compute compute = {.pool = pool->get(), .times = &profile};
  const auto join = [&] { (*pool)->Run([](int) {}); };
  join();  // before: nobody's
  for (int i = 0; i < 2; ++i) {
    const ScopedStage stage(compute, Stage::kQkv, 100);
    join();
    join();
  }
  {
    const ScopedStage stage(compute, Stage::kOut);
  }
  const StageTotals& qkv = profile.of(Stage::kQkv);
  EXPECT_EQ(qkv.num_calls, 2u);
  EXPECT_EQ(qkv.num_bytes, 200u);
  EXPECT_EQ(qkv.num_joins, 4u);
  EXPECT_GT(qkv.ns, 0u);
  EXPECT_LE(qkv.wait_ns, qkv.ns);
  EXPECT_EQ(profile.of(Stage::kOut).num_calls, 1u);
  EXPECT_EQ(profile.of(Stage::kOut).num_joins, 0u);
  EXPECT_EQ(profile.of(Stage::kNorm).num_calls, 0u);
}

// Bytes, in the order in which stages end; stages without any are no work.
TEST(ScopedStageTest, TellsWhatTheHostReads) {
  struct Reads final : HostWork {
    void Read(Stage stage, uint64_t num_bytes) override {
      reads.emplace_back(stage, num_bytes);
    }
    std::vector<std::pair<Stage, uint64_t>> reads;
  } work;
  StageTimes times;
  auto pool = os::ThreadPool::Create({.num_threads = 1});
  ASSERT_TRUE(pool.has_value());
  for (StageTimes* account : {static_cast<StageTimes*>(nullptr), &times}) {
    const Compute compute = {
        .pool = pool->get(), .times = account, .work = &work};
    {
      ScopedStage stage(compute, Stage::kQkv, 100);
      stage.AddBytes(11);
    }
    {
      const ScopedStage stage(compute, Stage::kNorm);
    }
    {
      const ScopedStage stage(compute, Stage::kHead, 7);
    }
    AccountBytes(compute, Stage::kHead, 1);
    const std::vector<std::pair<Stage, uint64_t>> expected = {
        {Stage::kQkv, 111}, {Stage::kHead, 7}};
    EXPECT_EQ(std::exchange(work.reads, {}), expected);
  }
  EXPECT_EQ(times.of(Stage::kQkv).num_bytes, 111u);
  EXPECT_EQ(times.of(Stage::kHead).num_bytes, 8u);
}

// A second for each byte.
struct ByteClock final : HostWork {
  void Read(Stage /*stage*/, uint64_t num_bytes) override {
    now += static_cast<double>(num_bytes);
  }
  double now = 0.0;
};

struct WantedSpan {
  const char* name;
  double begin_s, end_s;
  uint64_t num_bytes;
  int32_t layer, number;
};

// What threads wait is no virtual time.
void ExpectSpans(const Timeline& timeline,
                 const std::vector<WantedSpan>& wanted) {
  const auto spans = timeline.Sorted();
  ASSERT_EQ(spans.size(), wanted.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(timeline.name(*spans[i]), wanted[i].name);
    EXPECT_EQ(spans[i]->begin_ns, std::llround(wanted[i].begin_s * 1e9));
    EXPECT_EQ(spans[i]->end_ns, std::llround(wanted[i].end_s * 1e9));
    EXPECT_EQ(spans[i]->num_bytes, wanted[i].num_bytes);
    EXPECT_EQ(spans[i]->layer, wanted[i].layer);
    EXPECT_EQ(spans[i]->number, wanted[i].number);
    EXPECT_LT(spans[i]->wait_share, 0.0F);
  }
}

// The work of a stage belongs to its span.
TEST(ScopedStageTest, DrawsWhatHappensWhileItLives) {
  ByteClock clock;
  auto pool = os::ThreadPool::Create({.num_threads = 2});
  ASSERT_TRUE(pool.has_value());
  Timeline timeline;
  timeline.UseClock([&](double) { return clock.now; });
  StageTimeline stages(&timeline);
  const Compute compute = {
      .pool = pool->get(), .work = &clock, .timeline = &stages};
  {
    const ScopedStage stage(compute, Stage::kEmbed, 2);
  }
  stages.SetLayer(1);
  {
    ScopedStage stage(compute, Stage::kNeurons);
    (*pool)->Run([](int) {});
    clock.Read(Stage::kNeurons, 3);
    stage.DrawBytes(3);
  }
  {
    const ScopedStage stage(compute, Stage::kDevice);
    clock.now = 9.0;
  }
  stages.AddPass("token", 13, 0.0);
  ExpectSpans(timeline, {{"token", 0.0, 9.0, Timeline::kNoBytes, -1, 13},
                         {"embed", 0.0, 2.0, 2, -1, -1},
                         {"neurons", 2.0, 5.0, 3, 1, -1},
                         {"waiting", 5.0, 9.0, Timeline::kNoBytes, 1, -1}});
}

TEST(ScopedStageTest, DoesNothingWithoutAnAccount) {
  const Compute compute;  // not even a pool to ask
  const ScopedStage stage(compute, Stage::kQkv, 100);
}

TEST(ProfileTest, AddsUp) {
  StageTimes a;
  a.stages[0] = {
      .num_calls = 1, .ns = 2, .num_bytes = 3, .num_joins = 4, .wait_ns = 5};
  a.whole.ns = 7;
  StageTimes b = a;
  b += a;
  EXPECT_EQ(b.stages[0].num_calls, 2u);
  EXPECT_EQ(b.stages[0].ns, 4u);
  EXPECT_EQ(b.stages[0].num_bytes, 6u);
  EXPECT_EQ(b.stages[0].num_joins, 8u);
  EXPECT_EQ(b.stages[0].wait_ns, 10u);
  EXPECT_EQ(b.whole.ns, 14u);
}

}  // namespace
}  // namespace thermocline::compute
