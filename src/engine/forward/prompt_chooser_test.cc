#include "engine/forward/prompt_chooser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime.h"
#include "engine/testing/test_prompt_device.h"
#include "model/test_log.h"

namespace thermocline::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeTinyModel;
using testing::PromptRig;
using ::testing::SizeIs;
using testing::WithPrompts;

std::shared_ptr<npu::FaultyDevice> Good() {
  return std::make_shared<npu::FaultyDevice>();
}
std::shared_ptr<npu::FaultyDevice> Spoiling() {
  auto device = Good();
  device->spoils = true;
  return device;
}
std::shared_ptr<npu::FaultyDevice> Refusing() {
  auto device = Good();
  device->failing_compile = 0;
  return device;
}

SessionOptions WithCheck(
    std::vector<std::shared_ptr<npu::FaultyDevice>> devices,
    PromptCheck check) {
  SessionOptions options = WithPrompts(nullptr);
  options.prompts.devices.assign(devices.begin(), devices.end());
  options.prompts.check = check;
  return options;
}

TEST(PromptChooserTest, TheCheckCountsInTheBudget) {
  const auto model = MakeTinyModel({});
  const auto bytes = [&](PromptCheck check) {
    return PlanMemory(model->config(), WithCheck({}, check),
                      WeightMemory::Of(*model))
        ->host.graphs;
  };
  const uint64_t of_check = PromptCheckBytes(model->config()).value();
  EXPECT_GT(of_check, 2 * 16 * model->config().vocab_size * sizeof(float));
  EXPECT_EQ(bytes(PromptCheck::kWarn), bytes(PromptCheck::kOff) + of_check);
}

TEST(PromptChooserTest, AGoodDeviceIsUsedAndSaysHowGood) {
  const model::TestLog log;
  const auto device = Good();
  PromptRig rig(MakeTinyModel({}), WithCheck({device}, PromptCheck::kFail));
  EXPECT_THAT(rig.session().prompt_device(),
              AllOf(HasSubstr("faulty device, weights exact, 8 rows, contexts "
                              "128 to 128, some "),
                    HasSubstr(" of its own for each shape, NMSE "),
                    HasSubstr(" against the host")));
  EXPECT_THAT(log.lines(),
              ElementsAre("prompts on " + rig.session().prompt_device()));
  // The check counts nowhere.
  EXPECT_EQ(rig.session().prompt_times().num_rows, 0u);
  EXPECT_EQ(rig.session().position(), 0);
  rig.Prompt(9);
  EXPECT_EQ(rig.session().prompt_times().num_rows, 9u);
}

TEST(PromptChooserTest, DevicesAreTriedInTurn) {
  const auto model = MakeTinyModel({});
  const auto last = Good();
  const model::TestLog log;
  PromptRig rig(model,
                WithCheck({Spoiling(), Refusing(), last}, PromptCheck::kFail));
  EXPECT_NE(rig.session().prompt_device(), "");
  EXPECT_GT(last->num_infers, 0);
  ASSERT_THAT(log.lines(), SizeIs(3));
  EXPECT_THAT(log.lines()[0],
              AllOf(HasSubstr("prompts on faulty: faulty device: its logits of "
                              "16 tokens have an NMSE of "),
                    HasSubstr("against the host's, more than 1e-02; faulty is "
                              "next")));
  EXPECT_THAT(log.lines()[1], HasSubstr("the compiler refused"));
}

TEST(PromptChooserTest, TheHostComputesWhereNoneCan) {
  const auto model = MakeTinyModel({});
  PromptRig host(model, {.num_threads = 2});
  host.Prompt(9);
  const model::TestLog log;
  PromptRig rig(model, WithCheck({Refusing()}, PromptCheck::kWarn));
  EXPECT_EQ(rig.session().prompt_device(), "");
  rig.Prompt(9);
  EXPECT_EQ(rig.logits(), host.logits());
  ASSERT_THAT(log.lines(), SizeIs(1));
  EXPECT_THAT(log.lines()[0], HasSubstr("; the host is next"));
}

TEST(PromptChooserTest, WithoutAHostToTakeOverTheLastErrorCounts) {
  SessionOptions options =
      WithCheck({Refusing(), Spoiling()}, PromptCheck::kFail);
  options.prompts.host_takes_over = false;
  const model::TestLog log;
  const auto session = Session::Create(MakeTinyModel({}), options);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(session.error().message, HasSubstr("an NMSE of "));
}

TEST(PromptChooserTest, AWarningOrNothingIsSaidOfASpoiledOne) {
  const auto model = MakeTinyModel({});
  for (const auto& [check, num_lines] :
       {std::pair{PromptCheck::kWarn, 2u}, {PromptCheck::kOff, 1u}}) {
    const model::TestLog log;
    PromptRig rig(model, WithCheck({Spoiling()}, check));
    EXPECT_NE(rig.session().prompt_device(), "");
    EXPECT_THAT(log.lines(), SizeIs(num_lines));
  }
}

// What a static graph cannot be asked for.
TEST(PromptChooserTest, SaysWhatItIsNotFor) {
  testing::TinySpec predicted;
  predicted.container = gguf::Container::kPowerInfer;
  predicted.activation = "relu";
  predicted.predictor_rank = 8;
  testing::TinySpec mixture;
  testing::UseArchitecture("mixtral", mixture);
  struct Case {
    testing::TinySpec spec;
    std::function<void(SessionOptions&)> change;
    const char* message;
  };
  const Case cases[] = {
      {predicted, [](SessionOptions& options) { options.ffn = FfnMode::kFast; },
       "static graphs compute all neurons of a prompt, and this one's are "
       "chosen (fast)"},
      {{},
       [](SessionOptions& options) {
         options.observer = [](const FfnObservation&) {};
       },
       "static graphs do not show which neurons fire"},
      {mixture, [](SessionOptions&) {}, "; the host is next"},
  };
  for (const Case& c : cases) {
    const auto model = MakeTinyModel(c.spec);
    SessionOptions options = WithCheck({Good()}, PromptCheck::kOff);
    c.change(options);
    const model::TestLog log;
    PromptRig rig(model, options);
    EXPECT_EQ(rig.session().prompt_device(), "") << c.message;
    ASSERT_THAT(log.lines(), SizeIs(1)) << c.message;
    EXPECT_THAT(log.lines()[0], HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace thermocline::engine
