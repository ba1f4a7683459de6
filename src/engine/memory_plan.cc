#include "engine/memory_plan.h"

#include <array>
#include <limits>
#include <string_view>

#include "base/math.h"
#include "base/remedy.h"
#include "base/units.h"

namespace thermocline::engine {
namespace {

struct Item {
  std::string_view name;
  uint64_t num_bytes;
};

// In the order in which they are taken.
std::array<Item, 8> ItemsOf(const TierBytes& tier) {
  return {{{"weights", tier.weights},
           {"records", tier.bundles},
           {"signs", tier.signs},
           {"slots", tier.slots},
           {"weights over the link", tier.linked},
           {"KV cache", tier.kv},
           {"static graphs", tier.graphs},
           {"activations", tier.scratch}}};
}

uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  return CheckedAdd(a, b).value_or(std::numeric_limits<uint64_t>::max());
}

std::string Join(const TierBytes& tier, std::string_view of_weights) {
  std::string text;
  for (const auto& [name, num_bytes] : ItemsOf(tier)) {
    if (num_bytes == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", name, FormatBytes(num_bytes));
    if (name == "weights") text += of_weights;
  }
  return text;
}

// The item with which a tier passes the limit.
std::string_view FirstTooMuch(const TierBytes& tier, uint64_t limit) {
  uint64_t sum = 0;
  for (const auto& [name, num_bytes] : ItemsOf(tier)) {
    sum = SaturatingAdd(sum, num_bytes);
    if (sum > limit) return name;
  }
  return "";
}

Status CheckBudget(std::string_view tier_name, const TierBytes& tier,
                   std::optional<uint64_t> limit) {
  if (!limit || tier.total() <= *limit) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "a budget of {} of {} does not hold the {}: at least {} are "
              "needed ({}); a smaller context, batch or KV type, or a model in "
              "fewer bits, needs less",
              FormatBytes(*limit), tier_name, FirstTooMuch(tier, *limit),
              FormatLeastBytes(tier.total()), Join(tier, ""));
}

}  // namespace

uint64_t TierBytes::total() const {
  uint64_t sum = 0;
  for (const Item& item : ItemsOf(*this)) {
    sum = SaturatingAdd(sum, item.num_bytes);
  }
  return sum;
}

uint64_t MemoryPlan::anonymous() const {
  TierBytes tier = host;
  if (!holds_weights) tier.weights = 0;
  return tier.total();
}

std::string Describe(const MemoryPlan& plan) {
  std::string text = Join(plan.host, plan.holds_weights ? "" : " mapped");
  if (plan.device.total() > 0) {
    text += "; on the device " + Join(plan.device, "");
  }
  return text;
}

Status CheckMemory(const MemoryPlan& plan, const Budget& budget,
                   uint64_t ram_bytes) {
  TC_RETURN_IF_ERROR(CheckBudget("VRAM", plan.device, budget.vram));
  if (budget.holds_ram) {
    TC_RETURN_IF_ERROR(CheckBudget("RAM", plan.host, budget.ram));
  }
  if (plan.anonymous() <= ram_bytes) return {};
  TierBytes anonymous = plan.host;
  if (!plan.holds_weights) anonymous.weights = 0;
  return Fail(
      ErrorCode::kResourceExhausted,
      Advice{plan.holds_weights ? Remedy::kMappedMemory : Remedy::kLessMemory},
      "{} are needed ({}), more than the {} of RAM here",
      FormatBytes(anonymous.total()), Join(anonymous, ""),
      FormatBytes(ram_bytes));
}

}  // namespace thermocline::engine
