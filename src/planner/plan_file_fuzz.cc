// Any bytes as a plan: refused, or a plan that keeps to its own numbers and is
// written and read back equal.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "planner/plan_file.h"

namespace thermocline::planner {
namespace {

void CheckAscending(const std::vector<uint32_t>& items, uint32_t count) {
  for (size_t i = 0; i < items.size(); ++i) {
    TC_CHECK(items[i] < count);
    TC_CHECK(i == 0 || items[i - 1] < items[i]);
  }
}

void CheckPlan(const PlanFile& plan) {
  TC_CHECK(plan.placement.layers.size() == plan.model.num_layers);
  TC_CHECK(plan.extents.size() == plan.model.num_layers);
  for (size_t i = 0; i < plan.extents.size(); ++i) {
    const LayerPlace& place = plan.placement.layers[i];
    CheckAscending(place.neurons, plan.extents[i].num_neurons);
    CheckAscending(place.experts, plan.extents[i].num_experts);
  }
  const auto again = ParsePlan(FormatPlan(plan), "again");
  TC_CHECK(again.has_value());
  TC_CHECK(*again == plan);
}

}  // namespace
}  // namespace thermocline::planner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline::planner;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = ParsePlan(text, "fuzz");
  if (plan) CheckPlan(*plan);
  return 0;
}
