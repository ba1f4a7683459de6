#include "bench/model_title.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/units.h"
#include "model/prepared_names.h"
#include "neuron/record.h"
#include "tensor/dtype.h"

namespace thermocline::bench {
namespace {

namespace prepared = model::prepared;

struct Weights {
  void Add(DType dtype, uint64_t num_elems) {
    bytes_by_type[dtype] += BytesOf(dtype, num_elems);
    num_params += num_elems;
  }

  std::map<DType, uint64_t> bytes_by_type;
  uint64_t num_params = 0;
};

void AddRecords(const neuron::RecordLayout& layout, uint64_t num_neurons,
                Weights& weights) {
  const uint64_t num_elems = num_neurons * layout.width;
  if (layout.gate) weights.Add(*layout.gate, num_elems);
  weights.Add(layout.up, num_elems);
  weights.Add(layout.down, num_elems);
}

}  // namespace

ModelTitle TitleOf(const model::Model& model) {
  const model::Config& config = model.config();
  const gguf::File& file = model.file();
  ModelTitle title;
  Weights weights;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    title.num_bytes += tensor.num_bytes;
    const bool is_weight = InfoOf(tensor.dtype).can_compute &&
                           !tensor.name.ends_with(prepared::kTestInputs);
    if (is_weight) weights.Add(tensor.dtype, tensor.shape.num_elems());
  }
  // Records that were made at load are matrices in the file: counted above.
  for (size_t i = 0; i < config.records.size(); ++i) {
    const gguf::TensorInfo* records =
        file.FindTensor(prepared::OfLayer(i, prepared::kRecords));
    if (records == nullptr) continue;
    AddRecords(config.records[i], records->shape.ne[1], weights);
  }
  const auto main_type =
      std::ranges::max_element(weights.bytes_by_type, {},
                               [](const auto& entry) { return entry.second; });
  title.num_params = weights.num_params;
  title.name = fmt::format("{}{} {} {}",
                           file.Find(prepared::kSynthetic) ? "synthetic " : "",
                           config.architecture, FormatCount(weights.num_params),
                           NameOf(main_type->first));
  return title;
}

}  // namespace thermocline::bench
