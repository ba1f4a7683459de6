#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "planner/check.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

struct BadProblemCase {
  std::function<void(Problem&)> spoil;
  const char* message;
};
const BadProblemCase kBadProblems[] = {
    {[](Problem& p) { p.hardware.device_rate = 0; }, "the device's rate is 0"},
    {[](Problem& p) { p.hardware.up_rate = NAN; }, "the link's rate up is nan"},
    {[](Problem& p) { p.hardware.sync_seconds = -1; },
     "a round trip takes -1 s"},
    {[](Problem& p) { p.fixed_seconds = INFINITY; }, "fixed time is inf"},
    {[](Problem& p) { p.head.host_read = -1; },
     "the head reads -1 bytes on the host"},
    {[](Problem& p) { p.layers[1].attention.kv_bytes = uint64_t{1} << 50; },
     "the attention of layer 1 has 1125899906842624 bytes of keys and values"},
    {[](Problem& p) { p.head.kv_read = NAN; },
     "the head has 0 bytes of keys and values, of which nan are read"},
    {[](Problem& p) { p.layers[1].attention.bytes = ~uint64_t{0}; },
     "the attention of layer 1 takes"},
    {[](Problem& p) { p.layers[1].matrices = TestPart(5); },
     "layer 1 has more than one of"},
    {[](Problem& p) { p.layers[1].neurons.host.rest = NAN; },
     "a neuron of layer 1 reads nan bytes"},
    {[](Problem& p) { p.layers[1].neurons.tested_per_fired = 0.5; },
     "neurons of layer 1 are tested 0.5 times"},
    {[](Problem& p) { p.layers[1].neurons.frequency[7] = 1.5f; },
     "the frequency of neuron 7 of layer 1 is 1.5"},
    {[](Problem& p) { p.layers[1].neurons.record_bytes = 1ull << 58; },
     "the neurons of layer 1 take more than"},
    {[](Problem& p) {
       p.layers[1].neurons = {};
       p.layers[1].experts.experts.resize(2);
       p.layers[1].experts.experts[1].frequency = -1.0f;
     },
     "the frequency of expert 1 of layer 1 is -1"},
    {[](Problem& p) {
       p.layers[0].attention.bytes = p.layers[1].attention.bytes = uint64_t{1}
                                                                   << 60;
     },
     "all that could be on the device takes more"}};

TEST(CheckProblemTest, NamesTheFirstThingWrong) {
  for (const BadProblemCase& c : kBadProblems) {
    Problem problem = TestModelProblem(2, 10, 64, 1.0, 1);
    ASSERT_TRUE(CheckProblem(problem).has_value());
    c.spoil(problem);
    const Status checked = CheckProblem(problem);
    ASSERT_FALSE(checked.has_value()) << c.message;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(checked.error().message.find(c.message), std::string::npos)
        << checked.error().message;
  }
}

}  // namespace
}  // namespace thermocline::planner
