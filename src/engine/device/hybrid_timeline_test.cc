// What sessions draw of both processors.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/test_timeline.h"
#include "compute/stage_times.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/device/test_plans.h"
#include "engine/session.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::OpenPlanned;
using testing::PlannedModel;

class DrawnClock final : public compute::HostWork {
 public:
  explicit DrawnClock(device::SimDevice* sim) : sim_(sim) {}
  void Read(compute::Stage /*stage*/, uint64_t num_bytes) override {
    sim_->HostWork(num_bytes);
  }

 private:
  device::SimDevice* sim_;
};

std::string PassNames(const Timeline& timeline) {
  std::string names;
  for (const Timeline::Kept* span : timeline.Sorted()) {
    if (timeline.rows()[span->row].name != "passes") continue;
    names += timeline.name(*span);
    if (span->number >= 0) names += " " + std::to_string(span->number);
    names += "; ";
  }
  return names;
}

TEST(HybridTimeline, DrawsASessionToItsLastMoment) {
  for (const char* kind : {"dense", "exact", "fast", "mixture"}) {
    SCOPED_TRACE(kind);
    const PlannedModel planned = OpenPlanned(kind);
    Timeline timeline;
    const std::shared_ptr<device::SimDevice> device =
        device::MakeSim(device::TestMachine(), {.timeline = &timeline});
    DrawnClock clock(device.get());
    SessionOptions options = {.context = 64, .num_threads = 2};
    options.ffn = planned.choice.mode;
    options.predictor = planned.choice.predictor;
    options.device = device;
    options.budget.vram = 700u << 10;
    options.work = &clock;
    options.timeline = &timeline;
    const auto session = Session::Create(planned.model, options).value();
    std::vector<float> logits(planned.model->config().vocab_size);
    const std::vector<text::TokenId> prompt = {1, 2, 3, 4, 5};
    ASSERT_TRUE(session->Prompt(prompt, LogitsOf::kNone, {}));
    for (const text::TokenId token : {6, 7}) {
      ASSERT_TRUE(session->Generate({&token, 1}, LogitsOf::kLast, logits));
    }
    ExpectOneAtATime(timeline);
    EXPECT_EQ(PassNames(timeline),
              "weights to the device; prompt of 5; token 6; token 7; ");
    // The host is the last to be done.
    EXPECT_EQ(std::llround(timeline.end_s() * 1e9),
              std::llround(device->now() * 1e9));
    const device::SimAccounts accounts = device->accounts();
    EXPECT_EQ(UseOf(timeline, "sim0", "link up").num_bytes, accounts.up_bytes);
    EXPECT_EQ(UseOf(timeline, "sim0", "link down").num_bytes,
              accounts.down_bytes);
    EXPECT_GT(UseOf(timeline, "host", "main").num_spans, 20u);
  }
}

TEST(HybridTimeline, DrawsTheHostAlone) {
  const PlannedModel planned = OpenPlanned("dense");
  Timeline timeline;
  SessionOptions options = {.context = 64, .num_threads = 2};
  options.timeline = &timeline;
  const auto session = Session::Create(planned.model, options).value();
  const std::vector<text::TokenId> prompt = {1, 2, 3};
  ASSERT_TRUE(session->Prompt(prompt, LogitsOf::kNone, {}));
  ExpectOneAtATime(timeline);
  EXPECT_EQ(PassNames(timeline), "prompt of 3; ");
  EXPECT_FALSE(timeline.is_virtual());
  EXPECT_GT(UseOf(timeline, "host", "main").num_bytes, 0u);
}

}  // namespace
}  // namespace thermocline::engine
