// For tests: small, valid split files to be made wrong.
#ifndef THERMOCLINE_MODEL_TEST_SPLIT_H_
#define THERMOCLINE_MODEL_TEST_SPLIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/test_file.h"

namespace thermocline::model {

// The bytes of a vector of I32.
inline std::string RawIndices(const std::vector<int32_t>& values) {
  std::string bytes;
  for (const int32_t value : values) bytes += gguf::Raw(value);
  return bytes;
}

inline void SetIndices(const std::string& name,
                       const std::vector<int32_t>& values,
                       gguf::TestFile& file) {
  file.SetTensor(name, DType::kI32, {values.size()}, RawIndices(values));
}

// KAIROX's: layer l has neuron (place * 3 + l) % num_neurons at a place.
// num_neurons is even and no multiple of 3.
inline gguf::TestFile TestOrder(size_t num_layers, size_t num_neurons) {
  gguf::TestFile file;
  file.SetText("general.architecture", "bamboo")
      .Set("ffn_group_size", gguf::ValueType::kI32, gguf::Raw(int32_t{2}))
      .SetNumbers("ffn_normalized_pattern", gguf::ValueType::kF32,
                  std::vector<float>(num_layers,
                                     1.0f / static_cast<float>(num_layers)));
  for (size_t l = 0; l < num_layers; ++l) {
    std::vector<int32_t> neurons;
    for (size_t place = 0; place < num_neurons; ++place) {
      neurons.push_back(static_cast<int32_t>((place * 3 + l) % num_neurons));
    }
    SetIndices("blk." + std::to_string(l) + ".ffn_reorder_perms", neurons,
               file);
  }
  return file;
}

// PowerInfer's: every second neuron is hot.
inline gguf::TestFile TestHot(size_t num_layers, int32_t num_neurons) {
  gguf::TestFile file;
  file.magic = "PWRI";
  file.SetText("general.architecture", "generic.gpu_index")
      .SetU32("generic.gpu_index.block_count",
              static_cast<uint32_t>(num_layers))
      .Set("split.vram_capacity", gguf::ValueType::kU64,
           gguf::Raw(uint64_t{1} << 30));
  for (size_t l = 0; l < num_layers; ++l) {
    std::vector<int32_t> flags, hot;
    for (int32_t i = 0; i < num_neurons; ++i) {
      flags.push_back(i % 2);
      if (i % 2 == 1) hot.push_back(i);
    }
    const std::string layer = "blk." + std::to_string(l);
    SetIndices(layer + ".gpu_idx", flags, file);
    SetIndices(layer + ".gpu_bucket", hot, file);
  }
  return file;
}

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_TEST_SPLIT_H_
