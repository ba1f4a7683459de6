#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "cuda_on_host/small_kernels.h"
#include "cuda_on_host/testing.h"

namespace thermocline::cuda_on_host {
namespace {

using testing::HasSubstr;

class Streams : public DeviceTest {
 protected:
  static cudaEvent_t NewEvent() {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
              cudaSuccess);
    return event;
  }

  // Two streams that add to the same memory, in order if `ordered`.
  static std::string FaultOfTwoStreams(int* y, uint64_t seed, bool ordered) {
    ReviveDevice(seed, seed % 2 == 0);
    const cudaStream_t first = NewStream(), second = NewStream();
    const cudaEvent_t event = NewEvent();
    LaunchIncrement(y, 64, first);
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
    if (ordered) {
      EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    }
    LaunchIncrement(y, 64, second);
    const cudaError_t error = cudaDeviceSynchronize();
    const std::string fault = TakeFault();
    EXPECT_EQ(error == cudaSuccess, fault.empty());
    ReviveDevice(seed, false);
    EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    return fault;
  }
};

TEST_F(Streams, AMissingWaitShowsOnALazyDevice) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    ReviveDevice(seed, true);
    int* y = AllocateZero<int>(1);
    const cudaStream_t stream = NewStream();
    int back = -1;
    LaunchIncrement(y, 1, stream);
    EXPECT_EQ(
        cudaMemcpyAsync(&back, y, sizeof back, cudaMemcpyDeviceToHost, stream),
        cudaSuccess);
    EXPECT_EQ(back, -1);  // looked at too early
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(back, 1);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
}

TEST_F(Streams, EventsTellTheTimeBetweenThem) {
  ReviveDevice(1, true);
  int* y = AllocateZero<int>(32);
  const cudaStream_t stream = NewStream();
  cudaEvent_t begin = nullptr, end = nullptr;
  for (cudaEvent_t* event : {&begin, &end}) {
    ASSERT_EQ(cudaEventCreateWithFlags(event, cudaEventDefault), cudaSuccess);
  }
  float ms = -1.0F;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end),
            cudaErrorInvalidResourceHandle);  // never recorded
  EXPECT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  LaunchIncrement(y, 32, stream);
  EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GE(ms, 0.0F);
  const cudaEvent_t without = NewEvent();
  EXPECT_EQ(cudaEventRecord(without, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, without),
            cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {begin, end, without}) {
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  (void)cudaGetLastError();
}

TEST_F(Streams, ALazyDeviceWorksForWhoPolls) {
  ReviveDevice(1, true);
  int* y = AllocateZero<int>(32);
  const cudaEvent_t event = NewEvent();
  LaunchIncrement(y, 32, nullptr);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  while (cudaEventQuery(event) == cudaErrorNotReady) {
  }
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(Streams, MemoryOfTwoStreamsWantsAnOrder) {
  int* y = AllocateZero<int>(64);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(FaultOfTwoStreams(y, seed, true), "") << seed;
    EXPECT_THAT(FaultOfTwoStreams(y, seed, false),
                HasSubstr("race on device memory"))
        << seed;
  }
}

TEST_F(Streams, MappedMemoryWantsAnOrderToo) {
  void* y = nullptr;
  ASSERT_EQ(cudaHostAlloc(&y, 256, cudaHostAllocMapped), cudaSuccess);
  std::memset(y, 0, 256);
  EXPECT_EQ(FaultOfTwoStreams(static_cast<int*>(y), 1, true), "");
  EXPECT_EQ(static_cast<int*>(y)[63], 2);
  EXPECT_THAT(FaultOfTwoStreams(static_cast<int*>(y), 1, false),
              HasSubstr("race on mapped memory"));
  EXPECT_EQ(cudaFreeHost(y), cudaSuccess);
}

TEST_F(Streams, ACopyIsAnOperationOfItsStream) {
  int* y = AllocateZero<int>(64);
  int host[64];
  const cudaStream_t stream = NewStream();
  LaunchIncrement(y, 64, nullptr);
  EXPECT_EQ(cudaMemcpyAsync(host, y, 256, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeFault(), HasSubstr("another stream's operation"));
}

TEST_F(Streams, TheHostsWaitOrdersStreamsToo) {
  int* y = AllocateZero<int>(64);
  const cudaStream_t first = NewStream(), second = NewStream();
  const cudaEvent_t event = NewEvent();
  LaunchIncrement(y, 64, first);
  EXPECT_EQ(cudaStreamSynchronize(first), cudaSuccess);
  LaunchIncrement(y, 64, second);
  EXPECT_EQ(cudaEventRecord(event, second), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  LaunchIncrement(y, 64, first);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(Read(y, 64), std::vector<int>(64, 3));
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// The order of streams comes from the seed.
TEST_F(Streams, RunInManyOrders) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ReviveDevice(seed, true);
    std::vector<cudaStream_t> streams;
    std::vector<cudaEvent_t> events;
    int* y = AllocateZero<int>(4 * 32);
    for (int i = 0; i < 4; ++i) {
      streams.push_back(NewStream());
      events.push_back(NewEvent());
      LaunchIncrement(y + 32 * i, 32, streams.back());
      EXPECT_EQ(cudaEventRecord(events.back(), streams.back()), cudaSuccess);
    }
    std::vector<int> order;
    while (order.size() < 4) {
      for (int i = 0; i < 4; ++i) {
        if (events[i] == nullptr || cudaEventQuery(events[i]) != cudaSuccess) {
          continue;
        }
        order.push_back(i);
        EXPECT_EQ(cudaEventDestroy(events[i]), cudaSuccess);
        events[i] = nullptr;
      }
    }
    orders.insert(order);
    for (const cudaStream_t stream : streams) {
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
  }
  EXPECT_GT(orders.size(), 5u);
}

TEST_F(Streams, AGraphRunsWhatWasCaptured) {
  int* y = AllocateZero<int>(64);
  const cudaStream_t stream = NewStream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
            cudaSuccess);
  LaunchIncrement(y, 64, stream);
  LaunchIncrement(y, 32, stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(Read(y, 64), std::vector<int>(64, 0));
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  std::vector<int> expected(64, 3);
  std::fill_n(expected.begin(), 32, 6);
  EXPECT_EQ(Read(y, 64), expected);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Streams, WrongHandlesAndFlagsAreErrors) {
  const cudaStream_t stream = NewStream();
  cudaStream_t other = nullptr;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamCreateWithFlags(&other, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventQuery(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamEndCapture(nullptr, &graph), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
}

}  // namespace
}  // namespace thermocline::cuda_on_host
