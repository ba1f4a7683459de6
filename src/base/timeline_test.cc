#include "base/timeline.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/test_timeline.h"

namespace thermocline {
namespace {

using Row = Timeline::Row;

TEST(TimelineTest, ARowIsTheSameForTheSameNames) {
  Timeline timeline;
  const Row main = timeline.AddRow("host", "main");
  const Row other = timeline.AddRow("sim0", "main");
  EXPECT_NE(main, other);
  EXPECT_EQ(timeline.AddRow("host", "main"), main);
  ASSERT_EQ(timeline.rows().size(), 2u);
  EXPECT_EQ(timeline.rows()[1].process, "sim0");
}

// By rows and beginnings, whatever the order of telling; what begins together
// stays as it was told.
TEST(TimelineTest, SortsByRowAndBeginning) {
  Timeline timeline;
  const Row a = timeline.AddRow("p", "a");
  const Row b = timeline.AddRow("p", "b");
  timeline.Add(b, {.name = "4", .begin_s = 0.0, .end_s = 1.0});
  timeline.Add(a, {.name = "3", .begin_s = 2e-6, .end_s = 3e-6});
  timeline.Add(a, {.name = "1", .begin_s = 1e-6, .end_s = 1e-6});
  timeline.Add(a, {.name = "2", .begin_s = 1e-6, .end_s = 2e-6});
  std::string order;
  for (const Timeline::Kept* span : timeline.Sorted()) {
    order += timeline.name(*span);
  }
  EXPECT_EQ(order, "1234");
  EXPECT_EQ(timeline.end_s(), 1.0);
}

TEST(TimelineTest, KeepsWhatItIsTold) {
  Timeline timeline;
  timeline.Add(timeline.AddRow("p", "a"), {.name = "token",
                                           .begin_s = 1.0,
                                           .end_s = 0.5,
                                           .number = int64_t{1} << 40,
                                           .layer = 3,
                                           .num_bytes = 7,
                                           .wait_share = 0.25});
  const Timeline::Kept& span = *timeline.Sorted().front();
  EXPECT_EQ(timeline.name(span), "token");
  EXPECT_EQ(span.begin_ns, 1'000'000'000);
  EXPECT_EQ(span.end_ns, span.begin_ns);  // not before it
  EXPECT_EQ(span.number, INT32_MAX);
  EXPECT_EQ(span.layer, 3);
  EXPECT_EQ(span.num_bytes, 7u);
  EXPECT_EQ(span.wait_share, 0.25F);
}

TEST(TimelineTest, CountsWhatItHasNoRoomFor) {
  Timeline timeline(2);
  const Row row = timeline.AddRow("p", "a");
  for (int i = 0; i < 5; ++i) {
    timeline.Add(row, {.name = "x", .begin_s = 1.0 * i, .end_s = 1.0 * i});
  }
  EXPECT_EQ(timeline.Sorted().size(), 2u);
  timeline.Drop();
  EXPECT_EQ(timeline.num_dropped(), 4u);
  EXPECT_EQ(timeline.end_s(), 4.0);
}

// A second clock goes on from what the first one left.
TEST(TimelineTest, TakesOtherClocks) {
  Timeline timeline;
  EXPECT_FALSE(timeline.is_virtual());
  EXPECT_GE(timeline.Now(), 0.0);
  double now = 0.0;
  const auto clock = [&](double origin_s) { return origin_s + now; };
  EXPECT_EQ(timeline.UseClock(clock), 0.0);
  EXPECT_TRUE(timeline.is_virtual());
  now = 2.0;
  timeline.Add(timeline.AddRow("p", "a"),
               {.name = "x", .begin_s = 0.0, .end_s = timeline.Now()});
  timeline.HoldClock();
  now = 9.0;
  EXPECT_EQ(timeline.Now(), 2.0);
  EXPECT_EQ(timeline.UseClock(clock), 2.0);
  EXPECT_EQ(timeline.Now(), 11.0);
}

TEST(TimelineTest, SaysHowMuchOfItsTimeARowIsUsed) {
  Timeline timeline;
  const Row a = timeline.AddRow("p", "a");
  const Row b = timeline.AddRow("p", "b");
  timeline.AddRow("p", "nothing");
  const auto add = [&](Row row, int begin_ns, int end_ns, uint64_t bytes) {
    timeline.Add(row, {.name = "x",
                       .begin_s = begin_ns * 1e-9,
                       .end_s = end_ns * 1e-9,
                       .num_bytes = bytes});
  };
  add(a, 100, 200, 1);
  add(b, 120, 140, 2);
  add(b, 130, 150, 4);  // beside another
  add(b, 180, 190, 8);
  const struct {
    const char* name;
    RowUse use;
  } wants[] = {{"a", {1, 1, 100, 0, 0, 0}},
               {"b", {3, 14, 40, 60, 3, 30}},
               {"nothing", {0, 0, 0, 100, 1, 100}}};
  for (const auto& want : wants) {
    const RowUse use = UseOf(timeline, "p", want.name);
    EXPECT_EQ(use.num_spans, want.use.num_spans) << want.name;
    EXPECT_EQ(use.num_bytes, want.use.num_bytes) << want.name;
    EXPECT_EQ(use.busy_ns, want.use.busy_ns) << want.name;
    EXPECT_EQ(use.idle_ns, want.use.idle_ns) << want.name;
    EXPECT_EQ(use.num_gaps, want.use.num_gaps) << want.name;
    EXPECT_EQ(use.longest_gap_ns, want.use.longest_gap_ns) << want.name;
  }
  EXPECT_TRUE(UseOfRows({}, 0).empty());
}

TEST(TimelineTest, TakesSpansOfSeveralThreads) {
  constexpr int kThreads = 4, kSpans = 200;
  Timeline timeline;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&timeline, i] {
      const Row row = timeline.AddRow("p", std::to_string(i));
      for (int j = 0; j < kSpans; ++j) {
        timeline.Add(row, {.name = std::to_string(j % 7),
                           .begin_s = 1.0 * j,
                           .end_s = 1.0 * j + 1.0});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(timeline.Sorted().size(), size_t{kThreads} * kSpans);
  ExpectOneAtATime(timeline);
}

}  // namespace
}  // namespace thermocline
