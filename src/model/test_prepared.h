// For tests: prepared files, tiny ones to be made wrong, and ones made of any
// model that is open.
#ifndef THERMOCLINE_MODEL_TEST_PREPARED_H_
#define THERMOCLINE_MODEL_TEST_PREPARED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/math.h"
#include "base/status.h"
#include "gguf/test_file.h"
#include "gguf/writer.h"
#include "model/bundle.h"
#include "model/model.h"
#include "model/prepared_config.h"
#include "model/prepared_names.h"
#include "model/test_model.h"
#include "neuron/record.h"

namespace thermocline::model {

// TestModel or TestExpertModel with its FFNs as records: Q4_0 (Q8_0 of the
// experts), all zero; gates in them or in matrices of their own.
inline gguf::TestFile BundleTestModel(gguf::TestFile file, bool gated,
                                      uint64_t num_experts = 1,
                                      bool bundles_gate = true) {
  const DType dtype = num_experts > 1 ? DType::kQ8_0 : DType::kQ4_0;
  std::optional<DType> gate;
  if (gated && bundles_gate) gate = dtype;
  const auto layout = neuron::MakeRecordLayout(gate, dtype, dtype, 32).value();
  std::vector<std::string> types;
  std::vector<uint64_t> strides;
  for (int i = 0; i < kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    for (const char* name : {"ffn_up", "ffn_down", "ffn_gate"}) {
      if (name == std::string_view("ffn_gate") && !bundles_gate) continue;
      file.RemoveTensor(blk + name + ".weight");
      file.RemoveTensor(blk + name + "_exps.weight");
    }
    file.SetTensor(blk + prepared::kRecords, DType::kI8,
                   {layout.stride, 64 * num_experts});
    if (gated) {
      types.emplace_back(gate ? NameOf(*gate) : prepared::kGateIsMatrix);
    }
    types.insert(types.end(), 2, std::string(NameOf(dtype)));
    strides.push_back(layout.stride);
  }
  return file.SetU32(prepared::kVersionKey, 1)
      .SetTexts(prepared::kRecordTypes, types)
      .SetNumbers(prepared::kRecordStride, gguf::ValueType::kU64, strides);
}

inline gguf::TestFile TestPreparedModel(
    const std::string& architecture = "llama") {
  return BundleTestModel(TestModel(architecture),
                         FindArchitecture(architecture)->gated);
}

inline gguf::TestFile TestPreparedExpertModel(bool bundles_gate = true) {
  return BundleTestModel(TestExpertModel(), true, 4, bundles_gate);
}

// Everything else that a prepared file of 64 neurons may have, in layer 1 alone
// what layers may lack: predictors of rank 16 and 8, a self-test of 3 samples,
// counts, an order that reverses the neurons.
inline void AddTestParts(gguf::TestFile& file) {
  using gguf::ValueType;
  file.SetU32(prepared::kVersionKey, 1)
      .SetU32(prepared::kLookahead, 1)
      .SetNumbers<int64_t>(prepared::kMaxDifferences, ValueType::kI64, {0, 12})
      .SetNumbers<float>(prepared::kThresholds, ValueType::kF32, {0.25f, 0.5f})
      .SetU32(prepared::kOrderGroupSize, 4)
      .Set("thermocline.profile.tokens", ValueType::kU64,
           gguf::Raw(uint64_t{1000}));
  std::string reversed;
  for (int32_t i = 63; i >= 0; --i) reversed += gguf::Raw(i);
  for (int i = 0; i < kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    file.SetTensor(blk + prepared::kTestInputs, DType::kF32, {32, 3})
        .SetTensor(blk + prepared::kTestFired, DType::kI8, {8, 3})
        .SetTensor(blk + prepared::kProfileCounts, DType::kI32, {64})
        .SetTensor(blk + prepared::kOrder, DType::kI32, {64}, reversed);
  }
  const std::string up = std::string("blk.1.") + prepared::kPredictorUp;
  const std::string down = std::string("blk.1.") + prepared::kPredictorDown;
  const std::string blk = "blk.1.";
  file.SetTensor(up + ".weight", DType::kQ8_0, {32, 32})
      .SetTensor(up + ".bias", DType::kF32, {32})
      .SetTensor(down + ".weight", DType::kQ8_0, {32, 64})
      .SetTensor(down + ".bias", DType::kF32, {64})
      .SetTensor(blk + prepared::kFreeSigns, DType::kI8, {8, 64})
      .SetTensor(blk + prepared::kFreeUp, DType::kF16, {32, 8})
      .SetTensor(blk + prepared::kFreeDown, DType::kF16, {8, 64})
      .SetTensor(blk + prepared::kFreeBias, DType::kF32, {64})
      .SetTensor(blk + prepared::kTestCandidates, DType::kI8, {8, 3})
      .SetTensor(blk + prepared::kTestFree, DType::kI8, {8, 3});
}

inline gguf::TestFile TestModelWithParts() {
  gguf::TestFile file = TestPreparedModel();
  AddTestParts(file);
  return file;
}

// A tensor to be added to a prepared file.
struct ExtraTensor {
  std::string name;  // "blk.0.tc_pred_up.weight"
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

namespace test_prepared_internal {

// Of those that records replace.
inline bool IsFfnTensor(std::string_view name, bool bundles_gate) {
  const auto has = [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  return has(".ffn_") && name.ends_with(".weight") && !has("norm") &&
         !has("_inp.") && !has("_pred_") && (bundles_gate || !has("_gate"));
}

// As `prepare --for-storage` does it, with another alignment, and with
// adds_gates also the gates that the source has as a matrix.
inline std::vector<neuron::RecordLayout> LayoutsOf(const Model& source,
                                                   size_t record_alignment,
                                                   bool adds_gates) {
  std::vector<neuron::RecordLayout> layouts = source.config().records;
  for (size_t i = 0; i < layouts.size(); ++i) {
    neuron::RecordLayout& layout = layouts[i];
    const FfnMatrices& first =
        ExpertsOf(source.weights().layers[i].ffn).front();
    if (adds_gates && first.gate) layout.gate = first.gate.dtype;
    layout.stride =
        RoundUp(std::max(layout.stride, layout.used_bytes()), record_alignment);
  }
  return layouts;
}

inline Status AddKeys(const Model& source,
                      const std::vector<neuron::RecordLayout>& layouts,
                      const std::vector<gguf::KeyValue>& keys,
                      gguf::Writer& writer) {
  using enum gguf::ValueType;
  for (const gguf::KeyValue& kv : source.file().metadata()) {
    if (kv.key == "general.alignment") continue;
    if (kv.key == prepared::kVersionKey) continue;
    TC_RETURN_IF_ERROR(writer.AddKeyValue(kv));
  }
  for (const gguf::KeyValue& kv : keys) {
    TC_RETURN_IF_ERROR(writer.AddKeyValue(kv));
  }
  TC_RETURN_IF_ERROR(writer.AddInt(prepared::kVersionKey, kU32, 1));
  return WriteRecordKeys(layouts, CommonFfn(source.config()).gated, writer);
}

// All tensors; bytes are views of the source's and of `extra`.
struct Item {
  std::string name;
  DType dtype;
  Shape shape;
  std::span<const std::byte> bytes;
};
// Neuron i of all experts, from the source's records and gates.
inline std::vector<std::byte> LayRecords(const Model& source, size_t layer_idx,
                                         const neuron::RecordLayout& to) {
  const neuron::RecordLayout& from = source.config().records[layer_idx];
  const FfnWeights& ffn = source.weights().layers[layer_idx].ffn;
  std::vector<std::byte> records;
  for (const FfnMatrices& expert : ExpertsOf(ffn)) {
    for (size_t i = 0; i < expert.up.shape.num_rows(); ++i) {
      const std::byte* record =
          (from.gate ? expert.gate : expert.up).data + i * from.stride;
      const size_t begin = records.size();
      records.resize(begin + to.stride);
      const bool adds_gate = to.gate && !from.gate;
      std::copy_n(record, from.used_bytes(),
                  records.data() + begin + (adds_gate ? to.up_offset() : 0));
      if (!adds_gate) continue;
      std::copy_n(expert.gate.row(i), expert.gate.row_bytes(),
                  records.data() + begin);
    }
  }
  return records;
}

// padded: where records are.
inline std::vector<Item> ListItems(
    const Model& source, const std::vector<neuron::RecordLayout>& layouts,
    const std::vector<ExtraTensor>& extra,
    std::vector<std::vector<std::byte>>& padded) {
  std::vector<Item> items;
  for (const gguf::TensorInfo& t : source.file().tensors()) {
    if (IsFfnTensor(t.name, layouts.front().gate.has_value())) continue;
    items.push_back({t.name, t.dtype, t.shape, {t.data, t.num_bytes}});
  }
  const size_t num_neurons = NeuronsPerLayer(source.config());
  for (size_t i = 0; i < layouts.size(); ++i) {
    padded.push_back(LayRecords(source, i, layouts[i]));
    items.push_back({prepared::OfLayer(i, prepared::kRecords),
                     DType::kI8,
                     {.ne = {layouts[i].stride, num_neurons, 1, 1}, .rank = 2},
                     padded.back()});
  }
  for (const ExtraTensor& tensor : extra) {
    std::erase_if(items,
                  [&](const Item& item) { return item.name == tensor.name; });
    items.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  return items;
}

}  // namespace test_prepared_internal

// Writes `source`, opened with OpenOptions::bundle_at_load, as a prepared file:
// its keys and `keys`, its tensors but for FFN matrices and for those called
// like one of `extra`, its records, at multiples of record_alignment and with
// adds_gates all with their gate, and `extra`. For rooms that may not pack.
inline Status WritePreparedFile(
    const Model& source, const std::vector<gguf::KeyValue>& keys,
    const std::vector<ExtraTensor>& extra, const std::string& path,
    size_t record_alignment = neuron::kRecordAlignment,
    bool adds_gates = false) {
  TC_ASSIGN_OR_RETURN(const auto writer,
                      gguf::Writer::Create(path, source.file().container(),
                                           neuron::kStorageAlignment));
  const auto layouts =
      test_prepared_internal::LayoutsOf(source, record_alignment, adds_gates);
  TC_RETURN_IF_ERROR(
      test_prepared_internal::AddKeys(source, layouts, keys, *writer));
  std::vector<std::vector<std::byte>> padded;
  const auto items =
      test_prepared_internal::ListItems(source, layouts, extra, padded);
  for (const auto& item : items) {
    TC_RETURN_IF_ERROR(
        writer->DeclareTensor(item.name, item.dtype, item.shape));
  }
  TC_RETURN_IF_ERROR(writer->Start());
  for (const auto& item : items) {
    TC_RETURN_IF_ERROR(writer->WriteTensorData(item.bytes));
  }
  return writer->Finish();
}

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_TEST_PREPARED_H_
