// Any bytes are a multiple-choice task, or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "eval/mc_task.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using thermocline::eval::McItem;
  const auto task = thermocline::eval::ParseMcTask(
      std::string_view(reinterpret_cast<const char*>(data), size), "task");
  if (!task.has_value()) return 0;
  TC_CHECK(!task->items.empty());
  for (const McItem& item : task->items) {
    TC_CHECK(item.continuations.size() >= 2);
    TC_CHECK(item.contexts.size() == 1 ||
             item.contexts.size() == item.continuations.size());
    TC_CHECK(item.gold < item.continuations.size());
    for (size_t i = 0; i < item.continuations.size(); ++i) {
      const size_t num_bytes =
          thermocline::eval::NumScoredBytes(item.continuations[i]);
      TC_CHECK(num_bytes > 0 && num_bytes < item.continuations[i].size());
      TC_CHECK(!item.context(i).empty());
    }
  }
  (void)thermocline::eval::FormatExamples(*task);
  return 0;
}
