#include "model/layer_spec.h"

#include <algorithm>

namespace thermocline::model {

std::string_view NameOf(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kYarn:
      return "yarn";
  }
  return "";
}

size_t NumNeurons(const FfnSpec& ffn) {
  return ffn.width * std::max(size_t{1}, ffn.num_experts);
}

}  // namespace thermocline::model
