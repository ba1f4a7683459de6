// Placements by name, to compare them on one problem.
#ifndef THERMOCLINE_PLANNER_NAMED_H_
#define THERMOCLINE_PLANNER_NAMED_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/split_file.h"
#include "planner/problem.h"

namespace thermocline::planner {

enum class Method : uint8_t {
  kNative,        // SolveNative
  kIlp,           // SolveIlp
  kFrequency,     // PlaceByFrequency
  kDenseLayers,   // the last layers whole, all neurons for every token
  kSparseLayers,  // the same layers, active neurons only
  kAllHost,
  kAllDevice,
  // The device computes all; the last layers lie there as they fit, weights of
  // the others cross the link: all of them (FlexGen), or only active neurons
  // (DejaVu).
  kStreamDense,
  kFetchActive,
};

struct MethodInfo {
  Method method = Method::kNative;
  std::string_view name;  // "native", "dense-layers"
  std::string_view text;  // a line for people
};

std::span<const MethodInfo> Methods();  // all, in the order of the enum
const MethodInfo& InfoOf(Method method);
// kNotFound: no such name, with all that there are.
Result<Method> ParseMethod(std::string_view name);

struct MethodOptions {
  // Of methods of last layers: as many as llama.cpp's -ngl; one more than there
  // are has the head too. Absent: the most that fit.
  std::optional<size_t> num_layers;
  double time_limit_seconds = 30.0;  // of kIlp
};

struct NamedPlacement {
  Method method = Method::kNative;
  Placement placement;
  double seconds = 0.0;                 // predicted, per token
  std::optional<double> bound_seconds;  // kNative
  // The least number of each layer that the method kept to (kIlp); or none.
  std::vector<uint32_t> least_there;
  bool is_optimal = false;  // kIlp: proved
  double wall_seconds = 0.0;
};

// kResourceExhausted: what the method or the rules want on the device does not
// fit, with what it takes; kUnsupported: kIlp without CBC. Rules count for
// kNative, kIlp and kFrequency; the other methods are rules themselves, and
// heed only that a part cannot be on the device; what cannot be there crosses
// no link either.
Result<NamedPlacement> PlaceByMethod(const Problem& problem, Method method,
                                     const MethodOptions& options = {});

// What PowerInfer's engine does with a split file of its solver: attention,
// predictors and head as far as they fit, layer by layer, then the split's
// neurons, the hottest first while they fit. kInvalidArgument: the split is of
// another shape.
Result<Placement> PlaceHotNeurons(const Problem& problem,
                                  const model::HotNeurons& hot);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_NAMED_H_
