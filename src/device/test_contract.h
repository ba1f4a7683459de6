// What device.h promises, as suites that run for every device. A test program
// includes this in one source and instantiates DeviceContract with
// DeviceMakers; beside it are test_contract_ops.h and test_contract_sets.h.
#ifndef THERMOCLINE_DEVICE_TEST_CONTRACT_H_
#define THERMOCLINE_DEVICE_TEST_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "device/testing.h"

namespace thermocline::device {

class DeviceContract : public ::testing::TestWithParam<DeviceMaker> {
 protected:
  DeviceContract() : on_(GetParam().make()) {}

  OnDevice on_;
  Device& device_ = on_.device();
  const Stream stream_ = on_.stream();
  const uint32_t token_step_ = GetParam().token_step;
};

// "cuda0", of whichever suite.
inline std::string NameOfMaker(
    const ::testing::TestParamInfo<DeviceMaker>& test) {
  return test.param.name;
}

inline std::vector<uint8_t> SomeBytes(size_t count, uint8_t first) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(first + 7 * i);
  }
  return bytes;
}

TEST_P(DeviceContract, SaysWhatItIs) {
  const auto before = device_.Info();
  ASSERT_TRUE(before.has_value()) << before.error().message;
  EXPECT_FALSE(before->id.empty());
  EXPECT_FALSE(before->name.empty());
  EXPECT_GT(before->total_bytes, 0u);
  EXPECT_LE(before->free_bytes, before->total_bytes);
}

TEST_P(DeviceContract, BuffersAreCounted) {
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinned}) {
    const uint64_t before = device_.allocated_bytes(kind);
    {
      auto first = device_.Allocate(1000, kind, "first");
      auto second = device_.Allocate(3, kind, "second");
      ASSERT_TRUE(first.has_value() && second.has_value());
      EXPECT_EQ(first->size(), 1000u);
      EXPECT_EQ(first->kind(), kind);
      for (const Buffer* buffer : {&*first, &*second}) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 256, 0u);
      }
      EXPECT_EQ(device_.allocated_bytes(kind), before + 1003);
      // Moved ones are freed once, those they replace at once.
      Buffer moved = std::move(*first);
      EXPECT_FALSE(*first);
      EXPECT_EQ(device_.allocated_bytes(kind), before + 1003);
      moved = std::move(*second);
      EXPECT_EQ(device_.allocated_bytes(kind), before + 3);
    }
    EXPECT_EQ(device_.allocated_bytes(kind), before);
    EXPECT_EQ(device_.peak_bytes(kind), before + 1003);
  }
}

TEST(Buffer, ThatHoldsNothingFreesNothing) {
  Buffer buffer;
  EXPECT_FALSE(buffer);
  EXPECT_EQ(buffer.size(), 0u);
  Buffer other = std::move(buffer);
  buffer = std::move(other);
  EXPECT_FALSE(buffer);
}

TEST_P(DeviceContract, MoreMemoryThanThereIsIsRefusedByName) {
  const auto info = device_.Info();
  ASSERT_TRUE(info.has_value());
  const uint64_t before = device_.allocated_bytes(MemoryKind::kDevice);
  const auto buffer = device_.Allocate(
      info->total_bytes + 1, MemoryKind::kDevice, "layer 3's records");
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(buffer.error().message.find("layer 3's records"), std::string::npos)
      << buffer.error().message;
  EXPECT_EQ(device_.allocated_bytes(MemoryKind::kDevice), before);
}

// Through memory of every kind, at sizes and places of any kind.
TEST_P(DeviceContract, CopiesArriveWhole) {
  for (const size_t size : {0u, 1u, 15u, 257u, 4099u}) {
    const auto bytes = SomeBytes(size, 3);
    auto* pinned = on_.Room<uint8_t>(size + 1, MemoryKind::kPinned);
    auto* first = on_.Room<uint8_t>(size + 3);
    auto* second = on_.Room<uint8_t>(size + 5);
    auto* back = on_.Room<uint8_t>(size + 1, MemoryKind::kPinned);
    std::copy(bytes.begin(), bytes.end(), pinned + 1);
    ExpectOk(device_.Copy(stream_, first + 3, pinned + 1, size));
    ExpectOk(device_.Copy(stream_, second + 5, first + 3, size));
    ExpectOk(device_.Copy(stream_, back + 1, second + 5, size));
    ExpectOk(device_.Synchronize(stream_));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), back + 1)) << size;
    EXPECT_EQ(on_.Get(on_.Put(bytes), size), bytes);
  }
}

TEST_P(DeviceContract, FillsNoMoreThanItIsAskedTo) {
  auto* bytes = on_.Put(SomeBytes(100, 0));
  ExpectOk(device_.Fill(stream_, bytes + 3, 0xab, 50));
  auto want = SomeBytes(100, 0);
  std::fill_n(want.begin() + 3, 50, 0xab);
  EXPECT_EQ(on_.Get(bytes, 100), want);
}

TEST_P(DeviceContract, PackedRowsAreWholeAndAtMostFifteenBytesLonger) {
  const RowLayout& layout = device_.layout();
  EXPECT_FALSE(layout.CanCompute(DType::kI32));
  EXPECT_FALSE(TypesOf(device_).empty());
  for (const DType dtype : TypesOf(device_)) {
    const size_t n = WidthOf(dtype, 33);
    const size_t bytes = layout.RowBytes(dtype, n);
    EXPECT_EQ(bytes % 16, 0u) << NameOf(dtype);
    EXPECT_GE(bytes, BytesOf(dtype, n)) << NameOf(dtype);
    EXPECT_LE(bytes, BytesOf(dtype, n) + 15) << NameOf(dtype);
  }
}

TEST_P(DeviceContract, OperationsReadPinnedMemory) {
  auto* x = on_.Room<float>(5, MemoryKind::kPinned);
  for (int i = 0; i < 5; ++i) x[i] = static_cast<float>(i);
  auto* out = on_.Put(std::vector<float>(5, 1.0f));
  on_.Run(kernels::AddRowsScaledArgs{.n = 5, .x = x, .out = out});
  EXPECT_EQ(on_.Get(out, 5), (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST_P(DeviceContract, AStreamWaitsForAnothersEvent) {
  const auto other = device_.MakeStream(Priority::kHigh);
  const auto written = device_.MakeEvent();
  const auto added = device_.MakeEvent();
  ASSERT_TRUE(other.has_value() && written.has_value() && added.has_value());
  auto* values = on_.Room<float>(1000);
  auto* sum = on_.Put(std::vector<float>(1000, 0.0f));
  auto* source = on_.Room<float>(1000, MemoryKind::kPinned);
  auto* back = on_.Room<float>(1000, MemoryKind::kPinned);
  // The events are used again in every round.
  for (int round = 1; round <= 3; ++round) {
    std::fill_n(source, 1000, static_cast<float>(round));
    ExpectOk(device_.Copy(stream_, values, source, 4000));
    ExpectOk(device_.Record(stream_, *written));
    ExpectOk(device_.Wait(*other, *written));
    ExpectOk(device_.Run(*other, kernels::AddRowsScaledArgs{
                                     .n = 1000, .x = values, .out = sum}));
    ExpectOk(device_.Copy(*other, back, sum, 4000));
    ExpectOk(device_.Record(*other, *added));
    ExpectOk(device_.Synchronize(*added));
    EXPECT_EQ(back[0], static_cast<float>(round * (round + 1) / 2));
    EXPECT_EQ(back[999], back[0]);
  }
  const auto reached = device_.IsReached(*added);
  ASSERT_TRUE(reached.has_value());
  EXPECT_TRUE(*reached);
}

TEST_P(DeviceContract, PollingEnds) {
  const auto event = device_.MakeEvent();
  ASSERT_TRUE(event.has_value());
  auto* bytes = on_.Room<uint8_t>(1 << 16);
  ExpectOk(device_.Fill(stream_, bytes, 1, 1 << 16));
  ExpectOk(device_.Record(stream_, *event));
  while (true) {
    const auto reached = device_.IsReached(*event);
    ASSERT_TRUE(reached.has_value()) << reached.error().message;
    if (*reached) break;
  }
  EXPECT_EQ(on_.Get(bytes, 1)[0], 1);
}

TEST_P(DeviceContract, AnEventThatWasNeverRecordedIsReached) {
  const auto event = device_.MakeEvent();
  ASSERT_TRUE(event.has_value());
  EXPECT_TRUE(device_.IsReached(*event).value_or(false));
  ExpectOk(device_.Wait(stream_, *event));
  ExpectOk(device_.Synchronize(*event));
}

TEST_P(DeviceContract, AGraphIsDoneWhenItIsLaunchedAndAsOften) {
  auto* x = on_.Put(std::vector<float>(33, 1.0f));
  auto* sum = on_.Put(std::vector<float>(33, 0.0f));
  auto* copy = on_.Put(std::vector<float>(33, -1.0f));
  auto* pinned = on_.Room<float>(33, MemoryKind::kPinned);
  std::fill_n(pinned, 33, 0.0f);
  kernels::AddRowsScaledArgs args{.n = 33, .x = x, .out = sum};
  ExpectOk(device_.BeginGraph(stream_));
  ExpectOk(device_.Run(stream_, args));
  args.n = 1;  // values were kept
  ExpectOk(device_.Run(
      stream_, kernels::AddRowsScaledArgs{.n = 33, .x = x, .out = sum}));
  ExpectOk(device_.Copy(stream_, copy, sum, 33 * 4));
  ExpectOk(device_.Copy(stream_, pinned, copy, 33 * 4));
  ExpectOk(device_.Fill(stream_, copy, 0, 4));
  const auto graph = device_.EndGraph(stream_);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(on_.Get(sum, 33), std::vector<float>(33, 0.0f));
  ExpectOk(device_.Launch(stream_, *graph));
  ExpectOk(device_.Launch(stream_, *graph));
  EXPECT_EQ(on_.Get(sum, 33), std::vector<float>(33, 4.0f));
  EXPECT_EQ(pinned[0], 4.0f);
  // What arguments point at is what is there at the launch.
  on_.Write(x, std::vector<float>(33, 10.0f));
  ExpectOk(device_.Launch(stream_, *graph));
  std::vector<float> want(33, 24.0f);
  want[0] = 0.0f;
  EXPECT_EQ(on_.Get(copy, 33), want);
}

// Small, as a token's is often; TC_GRAPH_REPLAYS of it, up to three at once.
TEST_P(DeviceContract, AGraphIsReplayedManyTimes) {
  constexpr size_t kCount = 33;
  auto* up = on_.Room<float>(kCount, MemoryKind::kPinned);
  auto* down = on_.Room<float>(kCount, MemoryKind::kPinned);
  auto* x = on_.Room<float>(kCount);
  auto* sum = on_.Put(std::vector<float>(kCount, 0.0f));
  ExpectOk(device_.BeginGraph(stream_));
  ExpectOk(device_.Copy(stream_, x, up, kCount * sizeof(float)));
  ExpectOk(device_.Run(
      stream_, kernels::AddRowsScaledArgs{.n = kCount, .x = x, .out = sum}));
  ExpectOk(device_.Copy(stream_, down, sum, kCount * sizeof(float)));
  const auto graph = device_.EndGraph(stream_);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const uint64_t num_replays = NumberFrom("TC_GRAPH_REPLAYS", 40);
  float want = 0.0f;  // small enough to be exact
  for (uint64_t i = 0; i < num_replays;) {
    const uint64_t at_once = 1 + i % 3;
    const auto value = static_cast<float>(i % 4);
    std::fill_n(up, kCount, value);
    for (uint64_t j = 0; j < at_once; ++j, ++i) {
      ExpectOk(device_.Launch(stream_, *graph));
      want += value;
    }
    ExpectOk(device_.Synchronize(stream_));
    ASSERT_EQ(down[0], want) << "after " << i;
    ASSERT_EQ(down[kCount - 1], want) << "after " << i;
  }
}

TEST_P(DeviceContract, EventsAreNoPartOfAGraph) {
  const auto event = device_.MakeEvent();
  ASSERT_TRUE(event.has_value());
  ExpectOk(device_.BeginGraph(stream_));
  for (const Status& status :
       {device_.Record(stream_, *event), device_.Wait(stream_, *event)}) {
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  }
  // The graph goes on without them.
  const auto graph = device_.EndGraph(stream_);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ExpectOk(device_.Launch(stream_, *graph));
  ExpectOk(device_.Synchronize(stream_));
}

TEST_P(DeviceContract, GraphsAreManyAndBesideOtherWork) {
  auto* sum = on_.Put(std::vector<float>(7, 0.0f));
  std::vector<Graph> graphs;
  for (int i = 0; i < 3; ++i) {
    auto* x = on_.Put(std::vector<float>(7, std::pow(10.0f, i)));
    ExpectOk(device_.BeginGraph(stream_));
    ExpectOk(device_.Run(
        stream_, kernels::AddRowsScaledArgs{.n = 7, .x = x, .out = sum}));
    const auto graph = device_.EndGraph(stream_);
    ASSERT_TRUE(graph.has_value());
    graphs.push_back(*graph);
  }
  const auto other = device_.MakeStream(Priority::kHigh);
  ASSERT_TRUE(other.has_value());
  for (const int i : {2, 0, 1, 2}) ExpectOk(device_.Launch(*other, graphs[i]));
  ExpectOk(device_.Synchronize(*other));
  EXPECT_EQ(on_.Get(sum, 7), std::vector<float>(7, 211.0f));
}

// Synchronize and IsReached beside the other calls; TSan looks on.
TEST_P(DeviceContract, OthersMayWaitBesideTheOneThatEnqueues) {
  const auto done = device_.MakeEvent();
  ASSERT_TRUE(done.has_value());
  auto* bytes = on_.Room<uint8_t>(4096);
  auto* pinned = on_.Room<uint8_t>(4096, MemoryKind::kPinned);
  std::atomic<bool> stops = false;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 2; ++i) {
    waiters.emplace_back([&] {
      while (!stops.load()) {
        EXPECT_TRUE(device_.IsReached(*done).has_value());
        ExpectOk(device_.Synchronize(*done));
        ExpectOk(device_.Synchronize(stream_));
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const auto value = static_cast<uint8_t>(i);
    ExpectOk(device_.Fill(stream_, bytes, value, 4096));
    ExpectOk(device_.Copy(stream_, pinned, bytes, 4096));
    ExpectOk(device_.Record(stream_, *done));
    ExpectOk(device_.Synchronize(*done));
    EXPECT_EQ(pinned[4095], value);
  }
  stops = true;
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_TEST_CONTRACT_H_
