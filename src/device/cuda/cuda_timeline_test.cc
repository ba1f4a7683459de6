#include "device/cuda/cuda_timeline.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/test_timeline.h"
#include "device/cuda/test_cuda.h"
#include "device/test_every_call.h"
#include "device/testing.h"

namespace thermocline::device {
namespace {

using Kept = Timeline::Kept;

class CudaTimelineTest : public CudaDeviceTest {
 protected:
  CudaTimelineTest() { device_ = OpenDrawn(); }
  // The timeline lives as long as the device.
  ~CudaTimelineTest() override { device_.reset(); }

  std::unique_ptr<Device> OpenDrawn() {
    auto device = OpenCuda(0, &timeline_);
    EXPECT_TRUE(device.has_value()) << device.error().message;
    return device.has_value() ? *std::move(device) : nullptr;
  }

  std::string NamesOf(const std::string& row) const {
    std::string names;
    for (const Kept* span : timeline_.Sorted()) {
      if (timeline_.rows()[span->row].name != row) continue;
      names += timeline_.name(*span) + "; ";
    }
    return names;
  }

  Timeline timeline_;
};

TEST_F(CudaTimelineTest, NamesWhatAStreamDoes) {
  const Stream stream = *device_->MakeStream(Priority::kNormal);
  constexpr size_t kBytes = 1 << 12;
  const Buffer there =
      *device_->Allocate(2 * kBytes, MemoryKind::kDevice, "it");
  const Buffer pinned = *device_->Allocate(kBytes, MemoryKind::kPinned, "it");
  std::byte* const second = there.data() + kBytes;
  const double begin_s = timeline_.Now();
  ExpectOk(device_->Fill(stream, there.data(), 0, 2 * kBytes));
  ExpectOk(device_->Copy(stream, pinned.data(), second, kBytes));
  ExpectOk(device_->Copy(stream, second, pinned.data(), kBytes / 2));
  ExpectOk(device_->Copy(stream, second, there.data(), kBytes));
  ExpectOk(device_->Run(stream,
                        kernels::AddRowsScaledArgs{
                            .n = 64,
                            .x = reinterpret_cast<const float*>(there.data()),
                            .out = reinterpret_cast<float*>(second)}));
  EXPECT_EQ(NamesOf("stream 0"), "");  // nobody has waited
  ExpectOk(device_->Synchronize(stream));
  EXPECT_EQ(NamesOf("stream 0"),
            "fill; copy down; copy up; copy; AddRowsScaled; ");
  EXPECT_EQ(UseOf(timeline_, "cuda0", "link up").num_bytes, kBytes / 2);
  EXPECT_EQ(UseOf(timeline_, "cuda0", "link down").num_bytes, kBytes);
  ExpectOneAtATime(timeline_);
  EXPECT_EQ(timeline_.num_dropped(), 0u);
  EXPECT_FALSE(timeline_.is_virtual());
  // On the host's clock, but for what the anchor is off.
  constexpr double kOffMax = 0.01;
  for (const Kept* span : timeline_.Sorted()) {
    EXPECT_GE(static_cast<double>(span->begin_ns) / 1e9, begin_s - kOffMax);
  }
  EXPECT_LE(timeline_.end_s(), timeline_.Now() + kOffMax);
}

// Graphs are one span each time they are launched.
TEST_F(CudaTimelineTest, DrawsEveryCall) {
  ExpectOk(EveryCall(*device_).Run());
  device_.reset();
  ExpectOneAtATime(timeline_);
  EXPECT_EQ(timeline_.num_dropped(), 0u);
  const std::string names = NamesOf("stream 0");
  size_t num_graphs = 0;
  for (size_t at = names.find("graph"); at != std::string::npos;
       at = names.find("graph", at + 1)) {
    ++num_graphs;
  }
  EXPECT_EQ(num_graphs, 2u) << names;
  EXPECT_NE(names.find("SparseFfn"), std::string::npos) << names;
  EXPECT_GT(UseOf(timeline_, "cuda0", "link up").num_bytes, 0u);
  EXPECT_GT(UseOf(timeline_, "cuda0", "link down").num_bytes, 0u);
}

// While nobody waits no more than that is kept, and the rest is counted.
TEST_F(CudaTimelineTest, KeepsSoManyThatWait) {
#ifndef TC_CUDA_ON_HOST
  GTEST_SKIP() << "needs a device that does nothing until it is waited for";
#else
  device_.reset();
  cuda_on_host::ReviveDevice(1, true);
  device_ = OpenDrawn();
  const Stream stream = *device_->MakeStream(Priority::kNormal);
  const Buffer there = *device_->Allocate(256, MemoryKind::kDevice, "it");
  constexpr size_t kMore = 10;
  for (size_t i = 0; i < CudaTimeline::kWaitingMax + kMore; ++i) {
    ExpectOk(device_->Fill(stream, there.data(), 0, 16));
  }
  ExpectOk(device_->Synchronize(stream));
  const RowUse use = UseOf(timeline_, "cuda0", "stream 0");
  EXPECT_EQ(use.num_spans + timeline_.num_dropped(),
            CudaTimeline::kWaitingMax + kMore);
  EXPECT_GE(use.num_spans, CudaTimeline::kWaitingMax);
#endif
}

#ifdef TC_CUDA_ON_HOST
// Whatever of the calls that draw fails, the work does not.
TEST_F(CudaTimelineTest, DrawingFailsAlone) {
  const Buffer there = *device_->Allocate(256, MemoryKind::kDevice, "it");
  const Stream stream = *device_->MakeStream(Priority::kNormal);
  const auto fill = [&]() -> Status {
    TC_RETURN_IF_ERROR(device_->Fill(stream, there.data(), 0, 16));
    return device_->Synchronize(stream);
  };
  ExpectOk(fill());  // from here on there are events to be used again
  std::vector<uint64_t> refused;
  // Two events, the fill between them, the stream; then what reads the times.
  for (uint64_t call = 1; call <= 7; ++call) {
    cuda_on_host::FailCall(call, cudaErrorInvalidValue);
    if (!fill()) refused.push_back(call);
    cuda_on_host::FailCall(0, 0);
    ExpectOk(device_->Synchronize(stream));
  }
  EXPECT_EQ(refused, (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(timeline_.num_dropped(), 4u);
}
#endif

}  // namespace
}  // namespace thermocline::device
