#include "device/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda/test_cuda.h"
#include "device/test_contract.h"
#include "device/test_contract_draws.h"
#include "device/test_contract_kv.h"
#include "device/test_contract_ops.h"
#include "device/test_contract_sets.h"

namespace thermocline::device {
namespace {

const auto kCudas =
    ::testing::Values(DeviceMaker{"eager", [] { return OpenPlayed(1, false); }},
                      DeviceMaker{"lazy", [] { return OpenPlayed(2, true); }});

// Kernels have tests of their own, where each access is checked. Here it is
// whether the device hands its arguments on.
const auto kUnchecked = ::testing::Values(
    DeviceMaker{"unchecked", [] { return OpenPlayed(3, false, false); }, 5});

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceContract, kCudas, NameOfMaker);
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceOpsContract, kUnchecked, NameOfMaker);
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceKvContract, kUnchecked, NameOfMaker);
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceSetsContract, kUnchecked, NameOfMaker);
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceDrawsContract, kUnchecked, NameOfMaker);

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  const auto info = device_->Info();
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->id, "cuda0");
  EXPECT_FALSE(info->is_simulated);
  EXPECT_GE(info->major, 7);
#ifdef TC_CUDA_ON_HOST
  EXPECT_EQ(info->name, "cuda_on_host");
  {
    const auto buffer = device_->Allocate(1 << 20, MemoryKind::kDevice, "it");
    EXPECT_EQ(device_->Info()->free_bytes, info->free_bytes - (1 << 20));
  }
  EXPECT_EQ(device_->Info()->free_bytes, info->free_bytes);
#endif
}

// Calls in the wrong order, and handles of nothing.
TEST_F(CudaDeviceTest, RefusesWhatMakesNoSense) {
  const Stream stream = *device_->MakeStream(Priority::kNormal);
  const Event event = *device_->MakeEvent();
  const auto expect = [](const auto& result, const std::string& what) {
    ExpectError(result, ErrorCode::kInvalidArgument, "cuda0: " + what);
  };
  expect(device_->EndGraph(stream), "EndGraph: the stream began no graph");
  expect(device_->Launch(stream, Graph{7}), "Launch: no such graph");
  expect(device_->Fill(Stream{7}, nullptr, 0, 0), "Fill: no such stream");
  expect(device_->Record(stream, Event{7}), "Record: no such event");
  expect(device_->Wait(stream, Event{7}), "Wait: no such event");
  expect(device_->Synchronize(Event{7}), "Synchronize: no such event");
  ExpectOk(device_->BeginGraph(stream));
  expect(device_->BeginGraph(stream), "BeginGraph: the stream has begun");
  expect(device_->Synchronize(stream), "Synchronize: the stream has begun");
  expect(device_->Record(stream, event), "Record: an event is no part");
  expect(device_->Wait(stream, event), "Wait: an event is no part");
  ExpectOk(device_->Synchronize(event));
  const auto graph = device_->EndGraph(stream);
  ExpectOk(device_->BeginGraph(stream));
  expect(device_->Launch(stream, *graph), "Launch: a graph is no part");
  ExpectError(device_->Run(stream, kernels::GemvArgs{}), ErrorCode::kCorrupt,
              "cuda0: GemvArgs: a matrix is empty");
}

// Runs of `count` floats: 1, 2, 4 and on.
float* FillWithPowers(const Buffer& buffer, size_t count) {
  auto* values = reinterpret_cast<float*>(buffer.data());
  for (size_t i = 0; i < buffer.size() / sizeof(float); ++i) {
    values[i] = static_cast<float>(1 << i / count);
  }
  return values;
}

// As records are loaded beside the layer before: two buffers, filled by one
// stream and read by another, events both ways.
TEST_F(CudaDeviceTest, CopiesGoOnBesideOperations) {
  constexpr size_t kCount = 96, kRounds = 6;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    device_ = OpenPlayed(seed, seed % 2 == 0);
    const Stream compute = *device_->MakeStream(Priority::kNormal);
    const Stream copies = *device_->MakeStream(Priority::kHigh);
    Buffer staged =
        *device_->Allocate(kRounds * kCount * 4, MemoryKind::kPinned, "staged");
    Buffer sum = *device_->Allocate(kCount * 4, MemoryKind::kDevice, "sum");
    Buffer slots[2];
    Event filled[2], used[2];
    for (int i = 0; i < 2; ++i) {
      slots[i] = *device_->Allocate(kCount * 4, MemoryKind::kDevice, "a slot");
      filled[i] = *device_->MakeEvent();
      used[i] = *device_->MakeEvent();
    }
    float* values = FillWithPowers(staged, kCount);
    ExpectOk(device_->Fill(compute, sum.data(), 0, kCount * 4));
    for (size_t round = 0; round < kRounds; ++round) {
      const size_t i = round % 2;
      ExpectOk(device_->Wait(copies, used[i]));
      ExpectOk(device_->Copy(copies, slots[i].data(), values + round * kCount,
                             kCount * 4));
      ExpectOk(device_->Record(copies, filled[i]));
      ExpectOk(device_->Wait(compute, filled[i]));
      ExpectOk(device_->Run(
          compute, kernels::AddRowsScaledArgs{
                       .n = kCount,
                       .x = reinterpret_cast<const float*>(slots[i].data()),
                       .out = reinterpret_cast<float*>(sum.data())}));
      ExpectOk(device_->Record(compute, used[i]));
    }
    std::vector<float> result(kCount);
    ExpectOk(device_->Copy(compute, result.data(), sum.data(), kCount * 4));
    ExpectOk(device_->Synchronize(compute));
    EXPECT_EQ(result, std::vector<float>(kCount, 63.0f)) << "seed " << seed;
  }
}

#ifdef TC_CUDA_ON_HOST

// Which is why the events are there.
TEST_F(CudaDeviceTest, StreamsWithoutAnOrderAreFound) {
  const Stream first = *device_->MakeStream(Priority::kNormal);
  const Stream second = *device_->MakeStream(Priority::kNormal);
  const Buffer buffer = *device_->Allocate(64, MemoryKind::kDevice, "it");
  ExpectOk(device_->Fill(first, buffer.data(), 1, 64));
  (void)device_->Fill(second, buffer.data(), 2, 64);
  (void)device_->Synchronize(first);
  ExpectError(device_->Synchronize(second), ErrorCode::kIo, "device lost");
  EXPECT_NE(cuda_on_host::TakeFault().find("another stream's"),
            std::string::npos);
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::device
