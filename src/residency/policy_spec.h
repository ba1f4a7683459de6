// Policies' names with parameters, as people write them:
// "momentum:adapt=off,lambda=0.5".
#ifndef THERMOCLINE_RESIDENCY_POLICY_SPEC_H_
#define THERMOCLINE_RESIDENCY_POLICY_SPEC_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thermocline::residency {

struct ParameterInfo {
  std::string_view name;
  double value = 0.0;  // where the spec does not say
  // The range, both ends in it; of a switch not read.
  double least = 0.0;
  double most = 0.0;
  bool is_switch = false;  // "on" (1) or "off" (0)
};

// A policy's parameters with their values. The infos outlive it.
class Parameters {
 public:
  explicit Parameters(std::span<const ParameterInfo> infos);

  // Require a parameter of this name (CHECKed).
  double Get(std::string_view name) const;
  bool IsOn(std::string_view name) const { return Get(name) != 0.0; }

  // kInvalidArgument: none of this name, one that was set before, a value that
  // is no number (or no switch's) or out of range.
  Status Set(std::string_view name, std::string_view value);

 private:
  std::span<const ParameterInfo> infos_;
  std::vector<double> values_;
  std::vector<bool> is_set_;
};

// "lambda=0.5,adapt=on": all of them with their defaults; "" without any.
std::string DescribeParameters(std::span<const ParameterInfo> infos);

// What stands in front of the first colon: all of it if there is none.
std::string_view NameInSpec(std::string_view spec);

// The parameters of a spec. kInvalidArgument: those of Set, nothing behind the
// colon, something without "=". Messages begin with "policy NAME: " and name
// all parameters of it.
Result<Parameters> ParseParameters(std::string_view spec,
                                   std::span<const ParameterInfo> infos);

// A list of specs, at its commas: "lru,momentum:adapt=off,lambda=0.5,slow" are
// three. What has "=" and no colon belongs to the spec before it. Looks at no
// name; an empty list is one empty spec.
std::vector<std::string> SplitSpecs(std::string_view list);

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_POLICY_SPEC_H_
