// Faults on purpose: each is reported in CUDA's words, and nothing is lost.
#ifdef TC_CUDA_ON_HOST

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "device/cuda/test_cuda.h"
#include "device/test_every_call.h"
#include "device/testing.h"

namespace thermocline::device {
namespace {

class CudaFaults : public CudaDeviceTest {
 protected:
  // EveryCall, whose call-th call of CUDA's fails. Kernels are not looked at.
  Status FailAt(uint64_t call, cudaError_t error) {
    device_ = OpenPlayed(call, call % 2 == 0, false);
    cuda_on_host::FailCall(call, error);
    const Status status = EveryCall(*device_).Run();
    cuda_on_host::FailCall(0, cudaSuccess);
    return status;
  }

  uint64_t LoseAtEachCall();
  void FailEachCall(uint64_t first, uint64_t step);

  void ExpectNothingIsLeft() {
    // What could not be freed then is freed at the next chance.
    EXPECT_TRUE(device_->Allocate(0, MemoryKind::kDevice, "no").has_value());
    EXPECT_EQ(device_->allocated_bytes(MemoryKind::kDevice), 0u);
    EXPECT_EQ(device_->allocated_bytes(MemoryKind::kPinned), 0u);
    const auto info = device_->Info();
    ASSERT_TRUE(info.has_value()) << info.error().message;
    EXPECT_EQ(info->free_bytes, info->total_bytes);
  }
};

// Returns how many calls of CUDA's there are.
uint64_t CudaFaults::LoseAtEachCall() {
  for (uint64_t call = 1;; ++call) {
    const Status status = FailAt(call, cudaErrorLaunchFailure);
    if (status.has_value()) return call - 1;
    ExpectError(status, ErrorCode::kIo, "cuda0: device lost, noticed when ");
    ExpectError(status, ErrorCode::kIo, "(cudaErrorLaunchFailure, 719)");
    // Though CUDA itself had recovered.
    cuda_on_host::ReviveDevice(1, false);
    ExpectError(EveryCall(*device_).Run(), ErrorCode::kIo, "device lost");
    ExpectError(device_->Info(), ErrorCode::kIo, "device lost");
    ExpectError(device_->IsReached(Event{}), ErrorCode::kIo, "device lost");
    ExpectError(device_->Synchronize(Stream{}), ErrorCode::kIo, "device lost");
    ExpectError(device_->EndGraph(Stream{}), ErrorCode::kIo, "device lost");
    EXPECT_EQ(device_->allocated_bytes(MemoryKind::kDevice), 0u);
  }
}

// An argument that CUDA refuses: this call fails, and then all works. Calls
// that free something are made again, later.
void CudaFaults::FailEachCall(uint64_t first, uint64_t step) {
  static const uint64_t num_calls = LoseAtEachCall();
  uint64_t num_reported = 0;
  for (uint64_t call = first; call <= num_calls; call += step) {
    const Status status = FailAt(call, cudaErrorInvalidValue);
    if (!status.has_value()) {
      ++num_reported;
      ExpectError(status, ErrorCode::kCorrupt, "(cudaErrorInvalidValue, 1)");
      ExpectError(status, ErrorCode::kCorrupt, "cuda0: ");
    }
    ExpectNothingIsLeft();
    if (call % 16 == 0) ExpectOk(EveryCall(*device_).Run());
  }
  // All but the one that throws a graph's plan away.
  EXPECT_GE(num_reported + 1, num_calls / step);
}

TEST_F(CudaFaults, ALostDeviceStaysLost) {
  EXPECT_GT(LoseAtEachCall(), 100u);
  // Another one can be opened, with all of the memory.
  device_ = OpenPlayed(1, false);
  ExpectNothingIsLeft();
}

TEST_F(CudaFaults, AFailedCallIsReported) { FailEachCall(1, 7); }

using CudaFaultsLongDraws = CudaFaults;
TEST_F(CudaFaultsLongDraws, EveryThirdFailedCallIsReported) {
  FailEachCall(2, 2);
}

TEST_F(CudaFaults, OutOfMemoryNamesWhatWantedIt) {
  for (uint64_t call = 5; call < 14; ++call) {
    const Status status = FailAt(call, cudaErrorMemoryAllocation);
    if (status.has_value()) continue;
    EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
    ExpectNothingIsLeft();
  }
  ExpectError(device_->Allocate(uint64_t{2} << 30, MemoryKind::kDevice, "all"),
              ErrorCode::kResourceExhausted,
              "cuda0: no memory for all: 2.00 GiB are asked for, 1.00 GiB are "
              "free");
  cuda_on_host::FailCall(1, cudaErrorMemoryAllocation);
  ExpectError(device_->Allocate(5000, MemoryKind::kPinned, "the link"),
              ErrorCode::kResourceExhausted,
              "cuda0: the host has no 4.88 KiB to lock for the link");
}

// What a kernel does wrong is known at the next wait at the latest.
TEST_F(CudaFaults, AnIllegalAccessLosesTheDevice) {
  for (const bool lazy : {false, true}) {
    device_ = OpenPlayed(1, lazy);
    const Stream stream = *device_->MakeStream(Priority::kNormal);
    const Buffer buffer = *device_->Allocate(64, MemoryKind::kDevice, "it");
    auto* values = reinterpret_cast<float*>(buffer.data());
    ExpectOk(device_->Fill(stream, values, 0, 64));
    (void)device_->Run(stream, kernels::AddRowsScaledArgs{
                                   .n = 17, .x = values, .out = values});
    ExpectError(device_->Synchronize(stream), ErrorCode::kIo, "device lost");
    EXPECT_NE(cuda_on_host::TakeFault().find("AddRowsScaled"),
              std::string::npos);
    cuda_on_host::ReviveDevice(1, false);
  }
}

// A graph whose making fails leaves a stream that works.
TEST_F(CudaFaults, AFailedGraphIsGone) {
  const Stream stream = *device_->MakeStream(Priority::kNormal);
  const Buffer buffer = *device_->Allocate(64, MemoryKind::kDevice, "it");
  for (uint64_t call = 1; call <= 2; ++call) {
    ExpectOk(device_->BeginGraph(stream));
    ExpectOk(device_->Fill(stream, buffer.data(), 1, 64));
    cuda_on_host::FailCall(call, cudaErrorInvalidValue);
    ExpectError(device_->EndGraph(stream), ErrorCode::kCorrupt, "a graph was");
  }
  ExpectOk(device_->BeginGraph(stream));
  ExpectOk(device_->Fill(stream, buffer.data(), 7, 64));
  const auto graph = device_->EndGraph(stream);
  ASSERT_TRUE(graph.has_value());
  ExpectOk(device_->Launch(stream, *graph));
  std::vector<uint8_t> bytes(64);
  ExpectOk(device_->Copy(stream, bytes.data(), buffer.data(), 64));
  ExpectOk(device_->Synchronize(stream));
  EXPECT_EQ(bytes, std::vector<uint8_t>(64, 7));
}

TEST_F(CudaFaults, NoDriverIsSaidAndNoError) {
  for (const int error : {cudaErrorInsufficientDriver, cudaErrorNoDevice}) {
    cuda_on_host::FailCall(1, error);
    const Found found = FindCudaDevices();
    EXPECT_TRUE(found.devices.empty());
    EXPECT_EQ(found.why_none, "no NVIDIA driver");
    ExpectError(OpenCuda(0), ErrorCode::kNotFound, "cuda0: no NVIDIA driver");
    cuda_on_host::ReviveDevice(1, false);
  }
}

TEST_F(CudaFaults, FindingAndOpeningReportEachFailure) {
  const Found found = FindCudaDevices();
  ASSERT_EQ(found.devices.size(), 1u);
  EXPECT_EQ(found.devices[0].id, "cuda0");
  EXPECT_EQ(found.why_none, "");
  ExpectError(OpenCuda(1), ErrorCode::kNotFound,
              "cuda1: no such GPU: there is 1");
  ExpectError(OpenCuda(-1), ErrorCode::kNotFound, "no such GPU");
  for (uint64_t call = 1; call <= 4; ++call) {
    cuda_on_host::FailCall(call, cudaErrorUnknown);
    const Found none = FindCudaDevices();
    EXPECT_TRUE(none.devices.empty()) << call;
    EXPECT_NE(none.why_none.find("cudaErrorUnknown, 999"), std::string::npos)
        << none.why_none;
    cuda_on_host::ReviveDevice(1, false);
    cuda_on_host::FailCall(call, cudaErrorUnknown);
    EXPECT_FALSE(OpenCuda(0).has_value()) << call;
    cuda_on_host::ReviveDevice(1, false);
  }
}

}  // namespace
}  // namespace thermocline::device

#endif  // TC_CUDA_ON_HOST
