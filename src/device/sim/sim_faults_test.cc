// Faults on purpose: every failure is reported, and nothing is left of it.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "device/test_every_call.h"

namespace thermocline::device {
namespace {

uint64_t CallsOfAll() {
  const auto sim = MakeSim(TestMachine(), {});
  const Status status = EveryCall(*sim).Run();
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return sim->num_calls();
}

void ExpectNothingIsLeft(const Device& device) {
  EXPECT_EQ(device.allocated_bytes(MemoryKind::kDevice), 0u);
  EXPECT_EQ(device.allocated_bytes(MemoryKind::kPinned), 0u);
}

TEST(SimFaults, EachCallsFailureIsReported) {
  const uint64_t num_calls = CallsOfAll();
  EXPECT_GT(num_calls, 80u);
  for (uint64_t n = 1; n <= num_calls; ++n) {
    const auto sim =
        MakeSim(TestMachine(), {.fail_call = n, .error = ErrorCode::kCorrupt});
    const Status status = EveryCall(*sim).Run();
    ASSERT_FALSE(status.has_value()) << "call " << n;
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(status.error().message.find("failed, as call " +
                                          std::to_string(n) + " was to"),
              std::string::npos)
        << status.error().message;
    ExpectNothingIsLeft(*sim);
    EXPECT_EQ(sim->num_calls(), n);
    // It was that one alone.
    EXPECT_TRUE(EveryCall(*sim).Run().has_value()) << "after call " << n;
  }
}

TEST(SimFaults, ALostDeviceStaysLost) {
  const uint64_t num_calls = CallsOfAll();
  for (uint64_t n = 1; n <= num_calls; n += 3) {
    const auto sim = MakeSim(TestMachine(), {.lose_at = n});
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Status status = EveryCall(*sim).Run();
      ASSERT_FALSE(status.has_value()) << "call " << n;
      EXPECT_EQ(status.error().code, ErrorCode::kIo);
      EXPECT_EQ(status.error().message, "sim0: device lost");
    }
    ExpectNothingIsLeft(*sim);
    EXPECT_FALSE(sim->Info().has_value());
    EXPECT_FALSE(sim->IsReached(Event{}).has_value());
    EXPECT_FALSE(sim->Synchronize(Stream{}).has_value());
    EXPECT_FALSE(sim->EndGraph(Stream{}).has_value());
  }
}

TEST(SimFaults, ASeedDrawsOneOfAllKinds) {
  bool is_lost = false, is_failed = false;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const SimOptions options = WithFault({}, seed, 20);
    const uint64_t call = options.fail_call + options.lose_at;
    EXPECT_TRUE(call >= 1 && call <= 20);
    EXPECT_TRUE(options.fail_call == 0 || options.lose_at == 0);
    is_lost |= options.lose_at != 0;
    is_failed |= options.fail_call != 0;
    EXPECT_EQ(WithFault({}, seed, 20).fail_call, options.fail_call);
    const auto sim = MakeSim(TestMachine(), options);
    EXPECT_FALSE(EveryCall(*sim).Run().has_value()) << seed;
    ExpectNothingIsLeft(*sim);
  }
  EXPECT_TRUE(is_lost && is_failed);
}

}  // namespace
}  // namespace thermocline::device
