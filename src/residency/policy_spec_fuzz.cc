// Any bytes are a list of specs, each of a policy that keeps its word or an
// error; a list is what its specs are together.
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "residency/policy.h"
#include "residency/policy_spec.h"

namespace thermocline::residency {
namespace {

constexpr uint32_t kUnits = 9;
constexpr uint32_t kCapacity = 4;

// Whatever the parameters are, some passes go well.
void Run(Policy& policy) {
  policy.Initial(0);
  std::array<uint64_t, 1> words = {};
  const neuron::NeuronSet used = {words.data(), kUnits};
  for (uint64_t pass = 0; pass < 24; ++pass) {
    words[0] = pass * 0x9e3779b97f4a7c15u >> (64 - kUnits);
    policy.Tell(0, static_cast<Bottleneck>(pass % 3));
    policy.Observe(0, used);
    for (uint32_t unit = 0; unit < kUnits; unit += 2) {
      if (used.Has(unit) && !policy.IsResident(0, unit)) {
        policy.Admit(0, unit, {});
      }
    }
    TC_CHECK(policy.Propose(0, 2).size() <= 2);
    TC_CHECK(policy.num_resident(0) <= kCapacity);
  }
}

}  // namespace
}  // namespace thermocline::residency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace residency = thermocline::residency;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> specs = residency::SplitSpecs(text);
  TC_CHECK(fmt::format("{}", fmt::join(specs, ",")) == text);
  const std::vector<float> frequency(residency::kUnits, 0.25f);
  for (const std::string& spec : specs) {
    const bool is_good = residency::CheckPolicySpec(spec).has_value();
    const auto policy = residency::MakePolicy(
        spec, {{residency::kUnits, residency::kCapacity, frequency}});
    TC_CHECK(policy.has_value() == is_good);
    if (is_good) {
      residency::Run(**policy);
    } else {
      TC_CHECK(!policy.error().message.empty());
    }
  }
  return 0;
}
