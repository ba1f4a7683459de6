// For tests: parts of every kind for small models.
#ifndef THERMOCLINE_PACK_TEST_PARTS_H_
#define THERMOCLINE_PACK_TEST_PARTS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "pack/parts.h"

namespace thermocline::pack {

inline std::vector<float> CountingFloats(size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(i % 17) - 8.0f);
  }
  return values;
}

// Predictors of both kinds in every layer but the first, all else in all; no
// thresholds if the activation has zeros.
inline PreparedParts TestParts(const model::Config& config) {
  const size_t num_neurons = NeuronsPerLayer(config);
  const size_t width = config.width;
  PreparedParts parts;
  parts.lookahead = 1;
  parts.order_group_size = 2;
  for (size_t l = 0; l < config.num_layers; ++l) {
    if (l == 0) {
      parts.predictors.emplace_back();
      parts.training_free.emplace_back();
    } else {
      parts.predictors.push_back(LayerPredictor{
          .up =
              EncodeMatrix(DType::kQ8_0, 32, width, CountingFloats(32 * width)),
          .up_bias = CountingFloats(32),
          .down = EncodeMatrix(DType::kQ8_0, num_neurons, 32,
                               CountingFloats(num_neurons * 32)),
          .down_bias = CountingFloats(num_neurons)});
      parts.training_free.push_back(LayerTrainingFree{
          .signs = std::vector<uint64_t>(num_neurons * ((width + 63) / 64),
                                         0x123456789abcdef0),
          .max_differences = 10 + l,
          .up = EncodeMatrix(DType::kF16, 4, width, CountingFloats(4 * width)),
          .down = EncodeMatrix(DType::kF16, num_neurons, 4,
                               CountingFloats(num_neurons * 4)),
          .bias = CountingFloats(num_neurons)});
    }
    const auto last = static_cast<uint32_t>(num_neurons) - 1;
    parts.self_test.push_back(
        {.inputs = CountingFloats(2 * width),
         .fired = {{0, 3, 9, last}, {}},
         .candidates =
             l == 0
                 ? std::vector<std::vector<uint32_t>>()
                 : std::vector<std::vector<uint32_t>>{{0, 1, 3, 9, last}, {2}},
         .free = l == 0 ? std::vector<std::vector<uint32_t>>()
                        : std::vector<std::vector<uint32_t>>{{5}, {2, last}}});
    std::vector<uint32_t>& counts = parts.profile_counts.emplace_back();
    std::vector<uint32_t>& order = parts.order.emplace_back();
    for (uint32_t i = 0; i < num_neurons; ++i) {
      counts.push_back(i * 3);
      order.push_back(last - i);
    }
  }
  parts.keys = {{.key = "thermocline.profile.tokens",
                 .type = gguf::ValueType::kU64,
                 .value = int64_t{1000}},
                {.key = "thermocline.note.corpus",
                 .type = gguf::ValueType::kString,
                 .value = std::string("train.txt")}};
  return parts;
}

// gguf::KeyValue has no ==; keys are compared by name here.
inline void ExpectSameParts(const PreparedParts& a, const PreparedParts& b) {
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.ffn_threshold, b.ffn_threshold);
  EXPECT_EQ(a.lookahead, b.lookahead);
  EXPECT_TRUE(a.predictors == b.predictors);
  EXPECT_TRUE(a.training_free == b.training_free);
  EXPECT_EQ(a.thresholds, b.thresholds);
  EXPECT_EQ(a.profile_counts, b.profile_counts);
  EXPECT_EQ(a.order, b.order);
  EXPECT_EQ(a.order_group_size, b.order_group_size);
  EXPECT_TRUE(a.self_test == b.self_test);
  ASSERT_EQ(a.keys.size(), b.keys.size());
  for (size_t i = 0; i < a.keys.size(); ++i) {
    EXPECT_EQ(a.keys[i].key, b.keys[i].key);
  }
}

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_TEST_PARTS_H_
