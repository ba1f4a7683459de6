#include "device/sim/sim_timeline.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/test_timeline.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "device/test_every_call.h"
#include "device/testing.h"

namespace thermocline::device {
namespace {

using Kept = Timeline::Kept;

// What every call of a device comes to, and the same of a second one behind it.
TEST(SimTimeline, DrawsWhatTheAccountsSay) {
  for (const bool is_late : {false, true}) {
    Timeline timeline;
    SimAccounts sum;
    for (int i = 0; i < 2; ++i) {
      const double origin_s = timeline.end_s();
      const auto sim =
          MakeSim(TestMachine(), {.is_late = is_late, .timeline = &timeline});
      EXPECT_EQ(timeline.Now(), origin_s);
      ExpectOk(EveryCall(*sim).Run());
      const SimAccounts accounts = sim->accounts();
      sum.up_bytes += accounts.up_bytes;
      sum.down_bytes += accounts.down_bytes;
      sum.up_seconds += accounts.up_seconds;
      sum.down_seconds += accounts.down_seconds;
      EXPECT_EQ(timeline.Now(), origin_s + sim->now());
      EXPECT_LE(timeline.end_s(), origin_s + sim->now());
    }
    ExpectOneAtATime(timeline);
    const RowUse up = UseOf(timeline, "sim0", "link up");
    const RowUse down = UseOf(timeline, "sim0", "link down");
    EXPECT_EQ(up.num_bytes, sum.up_bytes);
    EXPECT_EQ(down.num_bytes, sum.down_bytes);
    EXPECT_GT(down.num_bytes, 0u);
    const auto seconds = [](const RowUse& use) {
      return static_cast<double>(use.busy_ns) / 1e9;
    };
    EXPECT_NEAR(seconds(up), sum.up_seconds, 1e-6);
    EXPECT_NEAR(seconds(down), sum.down_seconds, 1e-6);
    EXPECT_GT(UseOf(timeline, "sim0", "stream 0").num_spans, 10u);
    EXPECT_GT(UseOf(timeline, "sim0", "stream 1").num_spans, 10u);
    EXPECT_TRUE(timeline.is_virtual());
  }
}

TEST(SimTimeline, NamesWhatAStreamDoes) {
  Timeline timeline;
  const auto sim = MakeSim(TestMachine(), {.timeline = &timeline});
  const Stream stream = *sim->MakeStream(Priority::kNormal);
  const Buffer device = *sim->Allocate(1 << 15, MemoryKind::kDevice, "it");
  const Buffer pinned = *sim->Allocate(1 << 15, MemoryKind::kPinned, "it");
  ExpectOk(sim->Copy(stream, device.data(), pinned.data(), 1 << 14));
  ExpectOk(sim->Copy(stream, pinned.data(), device.data(), 1 << 14));
  ExpectOk(sim->Copy(stream, device.data() + (1 << 14), device.data(), 1024));
  ExpectOk(sim->Fill(stream, device.data(), 0, 1 << 14));
  ExpectOk(sim->Run(
      stream, kernels::AddRowsScaledArgs{
                  .n = 64,
                  .x = reinterpret_cast<const float*>(device.data()),
                  .out = reinterpret_cast<float*>(device.data() + (1 << 14))}));
  ExpectOk(sim->Synchronize(stream));
  std::string names;
  for (const Kept* span : timeline.Sorted()) {
    if (timeline.rows()[span->row].name != "stream 0") continue;
    names += timeline.name(*span) + "; ";
  }
  EXPECT_EQ(names, "copy up; copy down; copy; fill; AddRowsScaled; ");
}

// A copy that had to let others by is several spans, with its bytes.
TEST(SimTimeline, ACopyInPiecesKeepsItsBytes) {
  const struct {
    std::vector<PlacedPiece> pieces;
    std::vector<uint64_t> bytes;
  } cases[] = {
      {{{0.0, 1.0, 0.0}, {1.0, 2.0, 9.0}}, {10}},
      {{{0.0, 1.0, 0.0}, {3.0, 4.0, 9.999}}, {0, 10}},
      {{{0.0, 1.0, 3.3}, {1.0, 2.0, 3.3}, {3.0, 4.0, 3.4}}, {6, 4}},
      {{}, {}},
  };
  for (const auto& c : cases) {
    for (const SimLink link : {SimLink::kUp, SimLink::kDown}) {
      Timeline timeline;
      SimTimeline sim(&timeline, "sim0", 5.0);
      sim.AddCopy(link, c.pieces, 10);
      std::vector<uint64_t> bytes;
      for (const Kept* span : timeline.Sorted()) {
        bytes.push_back(span->num_bytes);
        EXPECT_GE(span->begin_ns, 5'000'000'000);
        EXPECT_EQ(span->row, link == SimLink::kUp ? 0u : 1u);
      }
      EXPECT_EQ(bytes, c.bytes);
    }
  }
}

}  // namespace
}  // namespace thermocline::device
