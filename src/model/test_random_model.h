// For tests: small models with random weights.
#ifndef THERMOCLINE_MODEL_TEST_RANDOM_MODEL_H_
#define THERMOCLINE_MODEL_TEST_RANDOM_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gguf/test_file.h"
#include "model/architectures.h"
#include "model/test_model.h"
#include "tensor/codec.h"

namespace thermocline::model {

// Rows of random values in a type.
inline std::string RandomRows(DType dtype, uint64_t num_elems, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(num_elems);
  for (float& value : values) value = random.Uniform(-1.0f, 1.0f);
  std::string bytes(BytesOf(dtype, num_elems), '\0');
  QuantizeRow(dtype, values, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

// TestModel with FFNs of random weights. The seeds do not depend on the type,
// so that two types of one model can be had; another first one gives another
// model with the same norms.
inline gguf::TestFile RandomModel(DType dtype,
                                  const std::string& architecture = "llama",
                                  uint64_t first_seed = 0) {
  gguf::TestFile file = model::TestModel(architecture);
  for (int i = 0; i < model::kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    const uint64_t seed = first_seed + static_cast<uint64_t>(i) * 10;
    const auto set = [&](const std::string& name, std::vector<uint64_t> ne,
                         uint64_t s) {
      const uint64_t num_elems = ne[0] * ne[1];
      file.SetTensor(blk + name, dtype, std::move(ne),
                     RandomRows(dtype, num_elems, s));
    };
    if (model::FindArchitecture(architecture)->gated) {
      set("ffn_gate.weight", {32, 64}, seed + 1);
    }
    set("ffn_up.weight", {32, 64}, seed + 2);
    set("ffn_down.weight", {64, 32}, seed + 3);
  }
  return file;
}

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_TEST_RANDOM_MODEL_H_
