// Devices that fail, are lost, have no memory left or compute nonsense, under a
// whole model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cuda_on_host/control.h"
#include "cuda_on_host/shadow/cuda_runtime_api.h"
#include "device/cuda/find_cuda.h"
#include "engine/device/test_plans.h"
#include "engine/session.h"
#include "engine/testing/reference.h"
#include "model/test_log.h"

namespace thermocline::engine {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OpenPlanned;
using testing::PlannedModel;

constexpr size_t kVocabulary = 50;

// A model all of which is on a device.
class FaultyRun {
 public:
  FaultyRun(const PlannedModel& planned, std::shared_ptr<device::Device> device,
            DeviceLoss on_loss = DeviceLoss::kFail) {
    SessionOptions options = {.context = 64,
                              .threads = Threads(),
                              .ffn = planned.choice.mode,
                              .dense_prompts = true};
    options.device = std::move(device);
    options.budget.vram = uint64_t{8} << 20;
    options.on_device_loss = on_loss;
    session_ = Session::Create(planned.model, options);
  }

  Status status() const {
    return session_ ? Status() : Status(tl::unexpected(session_.error()));
  }
  Session& session() const { return **session_; }

  Result<std::vector<float>> Decode(size_t num_tokens, Phase phase) {
    std::vector<float> logits(num_tokens * kVocabulary);
    TC_RETURN_IF_ERROR(session().Decode(
        testing::RandomTokens(num_tokens, kVocabulary, num_tokens), phase,
        LogitsOf::kAll, logits));
    return logits;
  }
  // A prompt, a token, several, a token.
  Result<std::vector<float>> All() {
    TC_ASSIGN_OR_RETURN(std::vector<float> all, Decode(5, Phase::kPrompt));
    for (const size_t count : {1, 3, 1}) {
      TC_ASSIGN_OR_RETURN(const std::vector<float> more,
                          Decode(count, Phase::kGenerate));
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

 private:
  static std::shared_ptr<os::ThreadPool> Threads() {
    static const auto threads = MakeThreads({.num_threads = 2}).value();
    return threads;
  }

  Result<std::unique_ptr<Session>> session_;
};

std::shared_ptr<device::SimDevice> MakeFaulty(
    const device::SimOptions& options = {}) {
  return device::MakeSim(device::TestMachine(), options);
}

struct NumCalls {
  uint64_t to_start = 0;
  uint64_t in_all = 0;
};

NumCalls CountCalls(const PlannedModel& planned) {
  const auto device = MakeFaulty();
  FaultyRun run(planned, device);
  EXPECT_TRUE(run.status()) << run.status().error().message;
  const uint64_t to_start = device->num_calls();
  EXPECT_TRUE(run.All());
  return {to_start, device->num_calls()};
}

// "layer 1's attention on the device: sim0: ...", and no second such part.
bool NamesOnePart(const Error& error) {
  constexpr std::string_view kBefore = "the device: sim0: ";
  const size_t place = error.message.find(kBefore);
  return place != std::string::npos &&
         error.message.find("the device") == place;
}

class DeviceFaults : public ::testing::TestWithParam<const char*> {};

// A device lost in the middle costs a warning, no token.
TEST_P(DeviceFaults, TheHostGoesOnWhenTheDeviceIsLost) {
  const PlannedModel planned = OpenPlanned(GetParam());
  ASSERT_NE(planned.model, nullptr);
  const auto expected = FaultyRun(planned, nullptr).All();
  ASSERT_TRUE(expected);
  const NumCalls calls = CountCalls(planned);
  ASSERT_GT(calls.in_all, calls.to_start + 20);
  const uint64_t step = 1 + (calls.in_all - calls.to_start) / 60;
  for (uint64_t n = calls.to_start + 1; n <= calls.in_all; n += step) {
    SCOPED_TRACE(n);
    const model::TestLog log;
    const auto device = MakeFaulty({.lose_at = n});
    FaultyRun run(planned, device, DeviceLoss::kHost);
    ASSERT_TRUE(run.status()) << run.status().error().message;
    const auto got = run.All();
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_LE(testing::Nmse(*got, std::span<const float>(*expected)), 1e-9);
    EXPECT_THAT(log.lines(),
                ElementsAre(HasSubstr("from now on the host computes alone")));
    EXPECT_EQ(device->allocated_bytes(device::MemoryKind::kDevice), 0u);
    EXPECT_EQ(device->allocated_bytes(device::MemoryKind::kPinned), 0u);
  }
}

// Whichever call fails, the pass ends with one clear error, and nobody has
// logits of half a model; where the device works on, so does the model.
TEST_P(DeviceFaults, EndThePassOtherwise) {
  const PlannedModel planned = OpenPlanned(GetParam());
  ASSERT_NE(planned.model, nullptr);
  const auto expected = FaultyRun(planned, nullptr).All();
  ASSERT_TRUE(expected);
  const NumCalls calls = CountCalls(planned);
  const uint64_t step = 1 + (calls.in_all - calls.to_start) / 40;
  for (uint64_t n = calls.to_start + 1; n <= calls.in_all; n += step) {
    SCOPED_TRACE(n);
    FaultyRun lost(planned, MakeFaulty({.lose_at = n}));
    const auto of_lost = lost.All();
    ASSERT_FALSE(of_lost);
    EXPECT_EQ(of_lost.error().code, ErrorCode::kIo);
    EXPECT_THAT(of_lost.error().message, HasSubstr("sim0: device lost"));
    EXPECT_TRUE(NamesOnePart(of_lost.error())) << of_lost.error().message;

    // That is no loss, so that the host is not left alone.
    FaultyRun fails(planned, MakeFaulty({.fail_call = n}), DeviceLoss::kHost);
    const auto of_failing = fails.All();
    ASSERT_FALSE(of_failing);
    EXPECT_EQ(of_failing.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(of_failing.error().message, HasSubstr("sim0: "));
    fails.session().Truncate(0);
    const auto again = fails.All();
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_LE(testing::Nmse(*again, std::span<const float>(*expected)), 1e-9);
  }
}

// So does what fails before: with the device's words, and no memory kept.
TEST_P(DeviceFaults, AtTheStartAreToldOf) {
  const PlannedModel planned = OpenPlanned(GetParam());
  ASSERT_NE(planned.model, nullptr);
  const NumCalls calls = CountCalls(planned);
  const uint64_t step = 1 + calls.to_start / 60;
  for (uint64_t n = 1; n <= calls.to_start; n += step) {
    const auto device = MakeFaulty({.fail_call = n});
    const FaultyRun run(planned, device);
    ASSERT_FALSE(run.status()) << n;
    EXPECT_EQ(run.status().error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(run.status().error().message, HasSubstr("sim0: "));
    EXPECT_EQ(device->allocated_bytes(device::MemoryKind::kDevice), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DeviceFaults,
                         ::testing::Values("dense", "exact", "fast", "ahead",
                                           "mixture"),
                         [](const auto& info) { return info.param; });

// Where somebody looks on, rows are not computed twice.
TEST(DeviceLossTest, IsNotMadeGoodBeforeAnObserver) {
  const PlannedModel planned = OpenPlanned("exact");
  ASSERT_NE(planned.model, nullptr);
  const NumCalls calls = CountCalls(planned);
  SessionOptions options = {.context = 64, .num_threads = 1};
  options.ffn = FfnMode::kExact;
  options.device = MakeFaulty({.lose_at = calls.in_all - 5});
  options.budget.vram = uint64_t{8} << 20;
  options.on_device_loss = DeviceLoss::kHost;
  options.observer = [](const FfnObservation& /*seen*/) {};
  const auto session = Session::Create(planned.model, options);
  ASSERT_TRUE(session) << session.error().message;
  Status status;
  for (int i = 0; i < 20 && status; ++i) {
    status = (*session)->Generate(testing::RandomTokens(1, kVocabulary),
                                  LogitsOf::kNone, {});
  }
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("lost"));
}

// A GPU that is lost for good: its memory cannot be given back, and nothing
// touches it.
TEST(DeviceLossTest, AlsoOfAGpu) {
  const PlannedModel planned = OpenPlanned("fast");
  ASSERT_NE(planned.model, nullptr);
  const auto expected = FaultyRun(planned, nullptr).All();
  ASSERT_TRUE(expected);
  for (const uint64_t n : {1, 2, 9, 30, 61}) {
    SCOPED_TRACE(n);
    cuda_on_host::ReviveDevice(n, true);
    auto device = device::OpenCuda(0);
    ASSERT_TRUE(device) << device.error().message;
    const model::TestLog log;
    FaultyRun run(planned, *std::move(device), DeviceLoss::kHost);
    ASSERT_TRUE(run.status()) << run.status().error().message;
    cuda_on_host::FailCall(n, cudaErrorLaunchFailure);
    const auto got = run.All();
    cuda_on_host::FailCall(0, cudaSuccess);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_LE(testing::Nmse(*got, std::span<const float>(*expected)), 1e-6);
    EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("the host computes alone")));
    EXPECT_EQ(cuda_on_host::TakeFault(), "");
  }
  cuda_on_host::ReviveDevice(1, false);
}

// What other programs hold of the device's memory is not planned with.
TEST(DeviceMemoryTest, ThatIsTakenIsSaidSo) {
  const PlannedModel planned = OpenPlanned("dense");
  ASSERT_NE(planned.model, nullptr);
  const auto device = MakeFaulty();
  const auto others =
      device->Allocate(device->Info()->free_bytes - 1000,
                       device::MemoryKind::kDevice, "another program's");
  ASSERT_TRUE(others) << others.error().message;
  const FaultyRun run(planned, device);
  ASSERT_FALSE(run.status());
  EXPECT_EQ(run.status().error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(run.status().error().message,
              HasSubstr("a budget of 8.00 MiB of VRAM: a test's card has 16.00 "
                        "MiB, of which 1000 B are free"));
}

// Nor is what they take between the plan and the first byte.
TEST(DeviceMemoryTest, ThatIsTakenMeanwhileIsSaidSo) {
  const PlannedModel planned = OpenPlanned("dense");
  ASSERT_NE(planned.model, nullptr);
  std::vector<std::string> messages;
  for (uint64_t n = 1; n <= 12; ++n) {
    cuda_on_host::ReviveDevice(n, false);
    auto device = device::OpenCuda(0);
    ASSERT_TRUE(device) << device.error().message;
    cuda_on_host::FailCall(n, cudaErrorMemoryAllocation);
    const FaultyRun run(planned, *std::move(device));
    cuda_on_host::FailCall(0, cudaSuccess);
    ASSERT_FALSE(run.status());
    EXPECT_EQ(run.status().error().code, ErrorCode::kResourceExhausted);
    messages.push_back(run.status().error().message);
  }
  EXPECT_THAT(messages, Each(HasSubstr("cuda0: ")));
  EXPECT_THAT(messages, Contains(HasSubstr("no memory for activations: ")));
}

// Makes an operation's output nonsense, if `is_meant` says so.
template <typename Args, typename IsMeant>
void PoisonOutput(const kernels::DeviceOp& op, IsMeant is_meant) {
  const auto* args = std::get_if<Args>(&op);
  if (args != nullptr && is_meant(*args)) args->out[0] = NAN;
}

// A sum that is no number may be the device's doing: the message says so, but
// not of what the host computed alone.
TEST(DeviceNonsense, IsSaidToBeTheDevicesPerhaps) {
  const auto is_head = [](const kernels::GemvArgs& args) {
    return args.weights.num_rows == kVocabulary;
  };
  const auto poison_head = [&](const kernels::DeviceOp& op) {
    PoisonOutput<kernels::GemvArgs>(op, is_head);
  };
  const auto poison_layers = [&](const kernels::DeviceOp& op) {
    PoisonOutput<kernels::GemvArgs>(
        op, [&](const kernels::GemvArgs& args) { return !is_head(args); });
  };
  struct Case {
    const char* kind;
    std::function<void(const kernels::DeviceOp&)> poison;
    const char* what;
  };
  const Case cases[] = {{"dense", poison_head, "the logits are not finite"},
                        {"dense", poison_layers, "of layer 0 is not finite"},
                        {"exact", poison_layers, "of layer 0 is not finite"},
                        {"mixture", poison_layers, "of layer 0 is not finite"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.kind);
    const PlannedModel planned = OpenPlanned(c.kind);
    ASSERT_NE(planned.model, nullptr);
    device::SimOptions options;
    options.observe = [&](const kernels::DeviceOp& op,
                          const device::SimCounts&) { c.poison(op); };
    FaultyRun run(planned, MakeFaulty(options));
    ASSERT_TRUE(run.status()) << run.status().error().message;
    const auto got = run.All();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(got.error().message, HasSubstr(c.what));
    EXPECT_THAT(got.error().message,
                HasSubstr("or the device computes wrongly"));
  }
}

}  // namespace
}  // namespace thermocline::engine
