// When the simulated device says that things are done.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/units.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "device/test_every_call.h"
#include "device/testing.h"

namespace thermocline::device {
namespace {

class SimTime : public ::testing::Test {
 protected:
  Buffer Room(size_t num_bytes, MemoryKind kind) {
    return std::move(*sim_->Allocate(num_bytes, kind, "room"));
  }
  double TimeOf(Stream stream) {
    ExpectOk(sim_->Synchronize(stream));
    return sim_->now() - kSync;
  }

  std::unique_ptr<SimDevice> sim_ = MakeSim(TestMachine(), {});
  Stream stream_ = *sim_->MakeStream(Priority::kNormal);
  Stream other_ = *sim_->MakeStream(Priority::kNormal);
};

TEST_F(SimTime, CopiesOfEveryKind) {
  const Buffer device = Room(1 << 16, MemoryKind::kDevice);
  const Buffer pinned = Room(1 << 16, MemoryKind::kPinned);
  std::vector<std::byte> plain(1 << 16);
  const auto copy = [&](void* to, const void* from) {
    const double begin = sim_->now();
    ExpectOk(sim_->Copy(stream_, to, from, 1 << 15));
    return TimeOf(stream_) - begin;
  };
  EXPECT_EQ(copy(device.data(), pinned.data()), kCopy + 0.5);
  EXPECT_EQ(copy(pinned.data(), device.data()), kCopy + 1.0);
  // Read and written at 2^20 bytes a second.
  EXPECT_EQ(copy(device.data() + (1 << 15), device.data()), kLaunch + 0x1p-4);
  // The host reads and writes 2^15 bytes at 2^17 a second.
  EXPECT_EQ(copy(device.data(), plain.data()), 0.5 + kCopy + 0.5);
  EXPECT_EQ(copy(plain.data(), device.data()), kCopy + 1.0 + 0.5);
  EXPECT_EQ(copy(pinned.data(), plain.data()), 0.5);
  const SimAccounts accounts = sim_->accounts();
  EXPECT_EQ(accounts.up_bytes, 2u << 15);
  EXPECT_EQ(accounts.down_bytes, 2u << 15);
  EXPECT_EQ(accounts.host_bytes, 4u << 15);
  EXPECT_EQ(accounts.host_seconds, 1.0);
}

TEST_F(SimTime, TwoCopiesAndTheHostShareTheBus) {
  const Buffer device = Room(1 << 17, MemoryKind::kDevice);
  const Buffer pinned = Room(1 << 17, MemoryKind::kPinned);
  std::byte* half = pinned.data() + (1 << 16);
  ExpectOk(sim_->Copy(stream_, device.data(), pinned.data(), 1 << 16));
  ExpectOk(sim_->Copy(other_, half, device.data() + (1 << 16), 1 << 15));
  // All of the bus for kCopy, 2^15 bytes for a second, then all of it.
  sim_->HostWork((1 << 9) + (1 << 15) + (1 << 16));
  EXPECT_EQ(sim_->now(), kCopy + 1.0 + 0.5);
  EXPECT_EQ(TimeOf(stream_), sim_->now() - kSync);
  EXPECT_EQ(sim_->accounts().waiting_seconds, kSync);
}

TEST_F(SimTime, AnEventTakesTheLater) {
  const Buffer device = Room(1 << 18, MemoryKind::kDevice);
  const auto event = sim_->MakeEvent();
  ExpectOk(sim_->Fill(stream_, device.data(), 0, 1 << 18));
  ExpectOk(sim_->Record(stream_, *event));
  ExpectOk(sim_->Wait(other_, *event));
  ExpectOk(sim_->Fill(other_, device.data(), 0, 1 << 18));
  EXPECT_FALSE(*sim_->IsReached(*event));
  EXPECT_EQ(sim_->now(), kSync);  // asking costs
  sim_->HostSeconds(kLaunch + 0.25 - 2 * kSync);
  EXPECT_TRUE(*sim_->IsReached(*event));
  ExpectOk(sim_->Synchronize(other_));
  EXPECT_EQ(sim_->now(), 2 * (kLaunch + 0.25) + kSync);
  // Waiting for what is over takes nothing of a stream's time.
  ExpectOk(sim_->Wait(stream_, *event));
  ExpectOk(sim_->Fill(stream_, device.data(), 0, 1 << 18));
  const double begin = sim_->now();
  EXPECT_EQ(TimeOf(stream_), begin + kLaunch + 0.25);
}

TEST_F(SimTime, AGraphIsLaunchedOnce) {
  const Buffer device = Room(1 << 17, MemoryKind::kDevice);
  ExpectOk(sim_->BeginGraph(stream_));
  for (int i = 0; i < 4; ++i) {
    ExpectOk(sim_->Fill(stream_, device.data(), 0, 1 << 17));
  }
  const auto graph = sim_->EndGraph(stream_);
  EXPECT_EQ(sim_->accounts().device_bytes, 0u);
  ExpectOk(sim_->Launch(stream_, *graph));
  EXPECT_EQ(TimeOf(stream_), kLaunch + 4 * (kGraphOp + 0.125));
}

TEST_F(SimTime, AnOperationTakesTheBytesThatItMoves) {
  const Buffer weights = Room(64 * 1024, MemoryKind::kDevice);
  const Buffer x = Room(4096, MemoryKind::kDevice);
  const Buffer out = Room(4096, MemoryKind::kDevice);
  ExpectOk(sim_->Fill(stream_, weights.data(), 0, weights.size()));
  ExpectOk(sim_->Fill(stream_, x.data(), 0, x.size()));
  const double begin = TimeOf(stream_) + kSync;
  kernels::GemvArgs gemv{.weights = {.rows = weights.data(),
                                     .row_bytes = 1024,
                                     .dtype = DType::kF16,
                                     .num_rows = 64,
                                     .n = 512},
                         .num_tokens = 2,
                         .x = reinterpret_cast<const float*>(x.data()),
                         .out = reinterpret_cast<float*>(out.data())};
  ExpectOk(sim_->Run(stream_, gemv));
  const double bytes = 65536 + 2 * 512 * 4 + 2 * 64 * 4;
  EXPECT_EQ(TimeOf(stream_), begin + kLaunch + bytes / 0x1p20);
  // From pinned memory: over the link, beside the rest.
  const Buffer pinned = Room(64 * 1024, MemoryKind::kPinned);
  std::fill_n(pinned.data(), pinned.size(), std::byte{0});
  gemv.weights.rows = pinned.data();
  const double next = sim_->now();
  ExpectOk(sim_->Run(stream_, gemv));
  EXPECT_EQ(TimeOf(stream_), next + kLaunch + kCopy + 1.0);
}

struct Told {
  std::vector<SimCounts> counts;
  size_t next = 0;
};

// With what the data would have said, time alone takes the same time.
TEST(SimTimeOnly, TakesTheTimeOfComputing) {
  Told told;
  const auto computing = MakeSim(
      TestMachine(),
      {.observe = [&](const kernels::DeviceOp&, const SimCounts& counts) {
        told.counts.push_back(counts);
      }});
  const auto timing =
      MakeSim(TestMachine(),
              {.time_only = true, .counts = [&](const kernels::DeviceOp&) {
                 return told.counts[told.next++];
               }});
  EveryCall computed(*computing), timed(*timing);
  ExpectOk(computed.Run());
  ExpectOk(timed.Run());
  EXPECT_EQ(told.next, told.counts.size());
  EXPECT_EQ(computing->now(), timing->now());
  EXPECT_EQ(computing->accounts(), timing->accounts());
  EXPECT_GT(computing->now(), 0.0);
  EXPECT_TRUE(std::isfinite(computed.output()[0]));
  EXPECT_EQ(timed.output()[0], 0.0f);  // nothing was copied
  // Some neurons of those that are resident were listed, some of them opened.
  for (const SimCounts& counts : told.counts) {
    EXPECT_LE(counts.opened, counts.listed);
    EXPECT_LE(counts.listed, uint64_t{EveryCall::kSlots});
  }
}

TEST(SimTimeOnly, TakesTheMostWhereNobodySays) {
  const auto computing = MakeSim(TestMachine(), {});
  const auto timing = MakeSim(TestMachine(), {.time_only = true});
  ExpectOk(EveryCall(*computing).Run());
  ExpectOk(EveryCall(*timing).Run());
  EXPECT_GT(timing->now(), computing->now());
}

// 26 GB of weights on a machine without them.
TEST(SimTimeOnly, NeedsNoMemoryForWhatIsNotThere) {
  Machine machine = TestMachine();
  machine.memory_bytes = 32 * kGiB;
  machine.device_rate = 0x1p40;
  const auto sim = MakeSim(machine, {.time_only = true});
  const auto stream = sim->MakeStream(Priority::kNormal);
  const auto records = sim->Allocate(26 * kGiB, MemoryKind::kDevice, "records");
  ASSERT_TRUE(records.has_value()) << records.error().message;
  ExpectOk(sim->Fill(*stream, records->data(), 1, 26 * kGiB));
  ExpectOk(sim->Synchronize(*stream));
  EXPECT_EQ(sim->now(), kLaunch + 26.0 / 1024 + kSync);
}

}  // namespace
}  // namespace thermocline::device
