#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "base/units.h"

namespace thermocline::engine {
namespace {

MemoryPlan SmallPlan() {
  return {.host = {.weights = 3 * kGiB, .kv = kGiB, .scratch = 512 * kMiB}};
}

TEST(MemoryPlan, MappedWeightsAreNotAnonymous) {
  MemoryPlan plan = SmallPlan();
  EXPECT_EQ(plan.host.total(), 4 * kGiB + 512 * kMiB);
  EXPECT_EQ(plan.anonymous(), kGiB + 512 * kMiB);
  EXPECT_EQ(Describe(plan),
            "weights 3.00 GiB mapped, KV cache 1.00 GiB, activations 512.00 "
            "MiB");
  plan.holds_weights = true;
  EXPECT_EQ(plan.anonymous(), plan.host.total());
  EXPECT_EQ(Describe(plan).find("mapped"), std::string::npos);
}

TEST(MemoryPlan, NamesWhatTheDeviceHas) {
  MemoryPlan plan = SmallPlan();
  plan.device = {.weights = 2 * kMiB, .slots = kMiB, .kv = kGiB, .scratch = 1};
  EXPECT_TRUE(Describe(plan).ends_with(
      "; on the device weights 2.00 MiB, slots 1.00 MiB, KV cache 1.00 GiB, "
      "activations 1 B"));
}

TEST(MemoryPlan, SumsSaturate) {
  EXPECT_EQ((TierBytes{.weights = UINT64_MAX, .kv = 5}).total(), UINT64_MAX);
}

struct CheckCase {
  const char* name;
  Budget budget;
  uint64_t ram_bytes;
  const char* refused;  // in the message; null: fits
};

TEST(CheckMemory, AgainstBudgetsAndTheMachine) {
  const CheckCase cases[] = {
      {"no budget, mapped weights may be larger", {}, 2 * kGiB, nullptr},
      {"exactly", {}, kGiB + 512 * kMiB, nullptr},
      {"anonymous too much", {}, kGiB, "more than the 1.00 GiB of RAM here"},
      {"budget fits", {.ram = 5 * kGiB}, 8 * kGiB, nullptr},
      {"weights count",
       {.ram = 2 * kGiB},
       8 * kGiB,
       "does not hold the weights"},
      {"named and the least that is needed",
       {.ram = 3 * kGiB + kMiB},
       8 * kGiB,
       "does not hold the KV cache: at least 4.50 GiB are needed"},
      {"nothing lies on the device", {.vram = 0}, 8 * kGiB, nullptr},
  };
  for (const CheckCase& c : cases) {
    SCOPED_TRACE(c.name);
    const Status status = CheckMemory(SmallPlan(), c.budget, c.ram_bytes);
    EXPECT_EQ(status.has_value(), c.refused == nullptr);
    if (status.has_value() || c.refused == nullptr) continue;
    EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(status.error().message.find(c.refused), std::string::npos)
        << status.error().message;
  }
}

TEST(CheckMemory, TheDeviceHasABudgetOfItsOwn) {
  MemoryPlan plan = SmallPlan();
  plan.device = {.weights = kGiB, .slots = kGiB};
  const Status status = CheckMemory(plan, {.vram = kGiB}, 8 * kGiB);
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(
      status.error().message.find("1.00 GiB of VRAM does not hold the slots"),
      std::string::npos)
      << status.error().message;
  EXPECT_NE(Describe(plan).find("; on the device weights 1.00 GiB, slots"),
            std::string::npos);
}

}  // namespace
}  // namespace thermocline::engine
