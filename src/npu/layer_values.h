// A layer's weights within a graph.
#ifndef THERMOCLINE_NPU_LAYER_VALUES_H_
#define THERMOCLINE_NPU_LAYER_VALUES_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "npu/block.h"
#include "npu/graph.h"
#include "npu/layer_inputs.h"

namespace thermocline::npu {

// By LayerInput's names.
class LayerValues {
 public:
  void Set(std::string name, Value value) { values_[std::move(name)] = value; }
  std::optional<Value> Find(std::string_view name) const;
  Value At(std::string_view name) const;  // that it is there is CHECKed

  // Adds x times matrix "q" ("w_q", "s_q", "z_q"), plus its bias "b_q".
  Value Multiply(Graph& graph, Value x, const std::string& name) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

// Adds the inputs of the spec's layers: as parameters, or as constants, which
// come before all other nodes. Reserves memory for the constants, and
// `more_bytes` for those of others. Errors of LayerInputs and UnpackLayer.
Result<std::vector<LayerValues>> AddLayerValues(const model::Model& model,
                                                const BlockSpec& spec,
                                                size_t more_bytes, Graph& graph,
                                                UnpackError* error);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_LAYER_VALUES_H_
