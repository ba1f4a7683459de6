#include "device/sim/sim_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "device/sim/test_machine.h"
#include "device/test_contract.h"
#include "device/test_contract_draws.h"
#include "device/test_contract_kv.h"
#include "device/test_contract_ops.h"
#include "device/test_contract_sets.h"

namespace thermocline::device {
namespace {

DeviceMaker MakerOf(const char* name, const SimOptions& options) {
  return {name, [options] { return MakeSim(TestMachine(), options); }};
}

// With the best kernels here, with the reference, and with work done late.
const auto kSims = ::testing::Values(
    MakerOf("sim0", {}),
    MakerOf("scalar", {.kernels = &kernels::KernelsFor(kernels::Isa::kScalar)}),
    MakerOf("late", {.is_late = true}));

INSTANTIATE_TEST_SUITE_P(Sim, DeviceContract, kSims, NameOfMaker);
INSTANTIATE_TEST_SUITE_P(Sim, DeviceOpsContract, kSims, NameOfMaker);
INSTANTIATE_TEST_SUITE_P(Sim, DeviceKvContract, kSims, NameOfMaker);
INSTANTIATE_TEST_SUITE_P(Sim, DeviceSetsContract, kSims, NameOfMaker);
INSTANTIATE_TEST_SUITE_P(Sim, DeviceDrawsContract, kSims, NameOfMaker);

TEST(SimDevice, SaysThatItIsSimulated) {
  const auto sim = MakeSim(TestMachine(), {});
  const auto info = sim->Info();
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->id, "sim0");
  EXPECT_EQ(info->name, "a test's card");
  EXPECT_TRUE(info->is_simulated);
  EXPECT_EQ(info->total_bytes, 1u << 24);
  const auto buffer = sim->Allocate(1000, MemoryKind::kDevice, "it");
  EXPECT_EQ(sim->Info()->free_bytes, (1u << 24) - 1000);
}

TEST(SimDevice, ComputesWhatTheHostsKernelsDo) {
  const auto sim = MakeSim(TestMachine(), {});
  for (const DType dtype : kernels::AllTypes()) {
    EXPECT_TRUE(sim->layout().CanCompute(dtype)) << NameOf(dtype);
  }
  EXPECT_FALSE(sim->layout().CanCompute(DType::kIQ4_XS));
}

// Calls in the wrong order, and handles of nothing.
TEST(SimDevice, RefusesWhatMakesNoSense) {
  const auto sim = MakeSim(TestMachine(), {});
  const Stream stream = *sim->MakeStream(Priority::kNormal);
  const Event event = *sim->MakeEvent();
  const auto expect = [](const auto& result, const std::string& what) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().message, "sim0: " + what);
  };
  expect(sim->EndGraph(stream), "EndGraph: the stream began no graph");
  expect(sim->Launch(stream, Graph{7}), "Launch: no such graph");
  expect(sim->Fill(Stream{7}, nullptr, 0, 0), "Fill: no such stream");
  expect(sim->Record(stream, Event{7}), "Record: no such event");
  expect(sim->Wait(stream, Event{7}), "Wait: no such event");
  expect(sim->Synchronize(Event{7}), "Synchronize: no such event");
  ExpectOk(sim->BeginGraph(stream));
  expect(sim->BeginGraph(stream), "BeginGraph: the stream has begun a graph");
  expect(sim->Synchronize(stream), "Synchronize: the stream has begun a graph");
  ExpectOk(sim->Synchronize(event));
  const auto graph = sim->EndGraph(stream);
  ExpectOk(sim->BeginGraph(stream));
  expect(sim->Launch(stream, *graph), "Launch: a graph is no part of a graph");
}

TEST(SimDevice, BytesPastABufferAreCorrupt) {
  const auto sim = MakeSim(TestMachine(), {});
  const Stream stream = *sim->MakeStream(Priority::kNormal);
  const auto buffer = sim->Allocate(100, MemoryKind::kDevice, "it");
  std::vector<std::byte> plain(200);
  const auto expect = [](const Status& status, const std::string& what) {
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(status.error().message, "sim0: " + what);
  };
  std::byte* data = buffer->data();
  expect(sim->Copy(stream, data + 1, plain.data(), 100),
         "Copy: 100 bytes go past their buffer");
  expect(sim->Copy(stream, plain.data(), data - 8, 20),
         "Copy: 20 bytes go past their buffer");
  expect(sim->Copy(stream, data, nullptr, 7), "Copy: 7 bytes at null");
  expect(sim->Fill(stream, data, 0, 101),
         "Fill: 101 bytes go past their buffer");
  expect(sim->Fill(stream, plain.data(), 0, 1),
         "Fill: the memory is in no buffer of the device");
  // Of an operation, as of what its arguments are.
  kernels::ActivateArgs activate{.count = 26,
                                 .up = reinterpret_cast<float*>(data),
                                 .out = reinterpret_cast<float*>(data)};
  expect(sim->Run(stream, activate),
         "ActivateArgs: up has 104 bytes where its buffer has 100 left");
  activate.activation = Activation::kDRelu;
  expect(sim->Run(stream, activate),
         "ActivateArgs: the activation needs a gate");
  // In a graph it is found when it is launched.
  ExpectOk(sim->BeginGraph(stream));
  ExpectOk(sim->Fill(stream, data, 0, 101));
  const auto graph = sim->EndGraph(stream);
  expect(sim->Launch(stream, *graph), "Fill: 101 bytes go past their buffer");
}

// What a missing call lets happen on a GPU now and then.
TEST(SimDevice, LateWorkShowsWhatIsMissing) {
  const auto sim = MakeSim(TestMachine(), {.is_late = true});
  const Stream first = *sim->MakeStream(Priority::kNormal);
  const Stream second = *sim->MakeStream(Priority::kNormal);
  const Event filled = *sim->MakeEvent();
  const auto buffer = sim->Allocate(16, MemoryKind::kDevice, "it");
  const auto pinned = sim->Allocate(16, MemoryKind::kPinned, "it");
  const auto there = [&] { return static_cast<int>(pinned->data()[0]); };
  std::fill_n(pinned->data(), 16, std::byte{1});

  // Nobody waited for the copy.
  ExpectOk(sim->Fill(first, buffer->data(), 2, 16));
  ExpectOk(sim->Copy(first, pinned->data(), buffer->data(), 16));
  EXPECT_EQ(there(), 1);
  ExpectOk(sim->Synchronize(first));
  EXPECT_EQ(there(), 2);

  // The second stream did not wait for the first; then it does.
  ExpectOk(sim->Fill(first, buffer->data(), 3, 16));
  ExpectOk(sim->Record(first, filled));
  ExpectOk(sim->Copy(second, pinned->data(), buffer->data(), 16));
  ExpectOk(sim->Synchronize(second));
  EXPECT_EQ(there(), 2);
  ExpectOk(sim->Wait(second, filled));
  ExpectOk(sim->Copy(second, pinned->data(), buffer->data(), 16));
  ExpectOk(sim->Fill(first, buffer->data(), 4, 16));
  ExpectOk(sim->Synchronize(second));
  EXPECT_EQ(there(), 3);

  // Asking does not end work at once, and what fails is told whoever waits.
  ExpectOk(sim->Record(first, filled));
  EXPECT_FALSE(*sim->IsReached(filled));
  EXPECT_TRUE(*sim->IsReached(filled));
  ExpectOk(sim->Fill(first, buffer->data(), 4, 17));
  EXPECT_FALSE(sim->Synchronize(first).has_value());
  ExpectOk(sim->Synchronize(first));
}

}  // namespace
}  // namespace thermocline::device
