#include "device/sim/virtual_time.h"

#include <gtest/gtest.h>

#include "device/sim/test_machine.h"

namespace thermocline::device {
namespace {

// Of TestMachine(): all figures are powers of two, so times are exact.
constexpr double kSecondUp = 0x1p16;  // bytes in a second

TEST(VirtualTime, ACopyTakesItsLatencyAndItsBytes) {
  VirtualTime time(TestMachine());
  EXPECT_EQ(time.CopyUp(0.0, 1 << 12), kCopy + 0x1p-4);
  EXPECT_EQ(time.CopyDown(0.0, 1 << 12), kCopy + 0x1p-3);
  // The second one each way waits for the first, its latency too.
  EXPECT_EQ(time.CopyUp(0.0, 1 << 12), 2 * (kCopy + 0x1p-4));
  EXPECT_EQ(time.CopyUp(10.0, 0), 10.0 + kCopy);
  EXPECT_EQ(time.accounts().up_bytes, 2u << 12);
  EXPECT_EQ(time.accounts().down_bytes, 1u << 12);
  EXPECT_EQ(time.accounts().up_seconds, 3 * kCopy + 2 * 0x1p-4);
  EXPECT_EQ(time.accounts().down_seconds, kCopy + 0x1p-3);
  EXPECT_EQ(time.now(), 0.0);
}

TEST(VirtualTime, AnOperationTakesItsLatencyAndItsBytes) {
  VirtualTime time(TestMachine());
  EXPECT_EQ(time.Operate(1.0, 0x1p-10, {.device_bytes = 1 << 18}),
            1.0 + 0x1p-10 + 0.25);
  // Another stream's: its latency passes beside the first, its bytes do not.
  EXPECT_EQ(time.Operate(1.0, 0x1p-10, {.device_bytes = 1 << 18}),
            1.0 + 0x1p-10 + 0.5);
  // Pinned memory is read beside the device's own.
  EXPECT_EQ(
      time.Operate(8.0, 0.0, {.device_bytes = 1 << 18, .up_bytes = 1 << 15}),
      8.0 + kCopy + 0.5);
  EXPECT_EQ(time.Operate(16.0, 0.5, {}), 16.5);
  EXPECT_EQ(time.accounts().device_seconds, 0.75);
  EXPECT_EQ(time.accounts().device_bytes, 3u << 18);
}

TEST(VirtualTime, CopiesAndTheHostShareTheBus) {
  VirtualTime time(TestMachine());
  // Both ways at once: 2^16 and 2^15 of 2^17 bytes a second.
  const double up = time.CopyUp(0.0, 1 << 16);
  const double down = time.CopyDown(0.0, 1 << 15);
  EXPECT_EQ(up, kCopy + 1.0);
  EXPECT_EQ(down, kCopy + 1.0);
  // The host has all of the bus for kCopy, then 2^17 - 2^16 - 2^15 for a
  // second, then all again.
  const double first = kCopy * 0x1p17, second = 0x1p15, rest = 0x1p16;
  time.HostWork(static_cast<uint64_t>(first + second + rest));
  EXPECT_EQ(time.now(), kCopy + 1.0 + 0.5);
  EXPECT_EQ(time.accounts().host_seconds, kCopy + 1.5);
  EXPECT_EQ(time.accounts().host_bytes,
            static_cast<uint64_t>(first + second + rest));
}

TEST(VirtualTime, ACopyGetsWhatCopiesOnTheHostLeave) {
  VirtualTime time(TestMachine());
  EXPECT_EQ(time.CopyOnHost(0.0, 1 << 16), 1.0);  // 2^17 bytes read and written
  EXPECT_EQ(time.CopyUp(0.0, 1 << 16), 2.0);
  EXPECT_EQ(time.accounts().up_seconds, kCopy + 1.0);
}

TEST(VirtualTime, TheHostWaitsAndWorks) {
  VirtualTime time(TestMachine());
  time.HostSeconds(3.0);
  EXPECT_EQ(time.now(), 3.0);
  // What is enqueued now begins now.
  const double end = time.CopyUp(1.0, static_cast<uint64_t>(kSecondUp));
  EXPECT_EQ(end, 3.0 + kCopy + 1.0);
  time.Synchronize(end);
  EXPECT_EQ(time.now(), end + kSync);
  EXPECT_EQ(time.accounts().waiting_seconds, kCopy + 1.0 + kSync);
  // What is over costs the call alone.
  time.Synchronize(1.0);
  EXPECT_EQ(time.now(), end + 2 * kSync);
  time.WaitUntil(1.0);
  EXPECT_EQ(time.now(), end + 2 * kSync);
}

}  // namespace
}  // namespace thermocline::device
