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

// As `prepare --for-storage` does it, with another alignment.
inline std::vector<neuron::RecordLayout> LayoutsOf(const Model& source,
                                                   size_t record_alignment) {
  std::vector<neuron::RecordLayout> layouts = source.config().records;
  for (neuron::RecordLayout& layout : layouts) {
    layout.stride = RoundUp(layout.stride, record_alignment);
  }
  return layouts;
}

inline Status AddKeys(const Model& source, size_t record_alignment,
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
  return WriteRecordKeys(LayoutsOf(source, record_alignment),
                         CommonFfn(source.config()).gated, writer);
}

// All tensors; bytes are views of the source's and of `extra`.
struct Item {
  std::string name;
  DType dtype;
  Shape shape;
  std::span<const std::byte> bytes;
};
inline std::vector<std::byte> Padded(const std::byte* records, size_t stride,
                                     size_t num_records, size_t to_stride) {
  std::vector<std::byte> padded(num_records * to_stride);
  for (size_t i = 0; i < num_records; ++i) {
    std::copy_n(records + i * stride, stride, padded.data() + i * to_stride);
  }
  return padded;
}

// padded: where records are that are wider apart than the source's.
inline std::vector<Item> ListItems(
    const Model& source, size_t record_alignment,
    const std::vector<ExtraTensor>& extra,
    std::vector<std::vector<std::byte>>& padded) {
  const Config& config = source.config();
  std::vector<Item> items;
  for (const gguf::TensorInfo& t : source.file().tensors()) {
    if (IsFfnTensor(t.name, config.records.front().gate.has_value())) continue;
    items.push_back({t.name, t.dtype, t.shape, {t.data, t.num_bytes}});
  }
  const size_t num_neurons = NeuronsPerLayer(config);
  for (size_t i = 0; i < config.records.size(); ++i) {
    const FfnWeights& ffn = source.weights().layers[i].ffn;
    const FfnMatrices& first = ffn.experts.empty() ? ffn : ffn.experts.front();
    const std::byte* records =
        config.records[i].gate ? first.gate.data : first.up.data;
    const size_t stride = LayoutsOf(source, record_alignment)[i].stride;
    padded.push_back(
        Padded(records, config.records[i].stride, num_neurons, stride));
    items.push_back({prepared::OfLayer(i, prepared::kRecords),
                     DType::kI8,
                     {.ne = {stride, num_neurons, 1, 1}, .rank = 2},
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
// like one of `extra`, its records, at multiples of record_alignment, and
// `extra`. For rooms that may not pack.
inline Status WritePreparedFile(
    const Model& source, const std::vector<gguf::KeyValue>& keys,
    const std::vector<ExtraTensor>& extra, const std::string& path,
    size_t record_alignment = neuron::kRecordAlignment) {
  TC_ASSIGN_OR_RETURN(const auto writer,
                      gguf::Writer::Create(path, source.file().container(),
                                           neuron::kStorageAlignment));
  TC_RETURN_IF_ERROR(
      test_prepared_internal::AddKeys(source, record_alignment, keys, *writer));
  std::vector<std::vector<std::byte>> padded;
  const auto items = test_prepared_internal::ListItems(source, record_alignment,
                                                       extra, padded);
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
