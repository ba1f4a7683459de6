// Any bytes as a plan or a machine: refused, or written and read back equal.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "planner/storage_files.h"

namespace thermocline::planner {
namespace {

void TryPlan(std::string_view text) {
  const auto plan = ParseStoragePlan(text, "fuzz");
  if (!plan) return;
  const auto again = ParseStoragePlan(FormatStoragePlan(*plan), "again");
  TC_CHECK(again.has_value() && *again == *plan);
}

void TryMachine(std::string_view text) {
  const auto machine = ParseStorageMachine(text, "fuzz");
  if (!machine) return;
  const auto again =
      ParseStorageMachine(FormatStorageMachine(*machine), "again");
  TC_CHECK(again.has_value() && *again == *machine);
}

}  // namespace
}  // namespace thermocline::planner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  thermocline::planner::TryPlan(text);
  thermocline::planner::TryMachine(text);
  return 0;
}
