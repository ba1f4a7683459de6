#include "engine/attention/device_attention_arrays.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace thermocline::engine {
namespace {

// Four heads of queries on two of keys and values; a rope of whole heads.
model::Config ConfigOfHeads() {
  model::Config config;
  config.width = 64;
  config.ropes.emplace_back().width = 16;
  config.layers.emplace_back().attention = {.num_heads = 4,
                                            .num_kv_heads = 2,
                                            .key_width = 16,
                                            .value_width = 16,
                                            .rope = 0};
  return config;
}

TEST(AttentionArrays, AreOneCopyEachWay) {
  const model::Config config = ConfigOfHeads();
  for (const size_t num_rows : {1, 3, 8}) {
    SCOPED_TRACE(num_rows);
    const uint64_t num_bytes =
        CarveAttention(nullptr, config, 0, num_rows, 100).num_bytes;
    std::vector<std::byte> memory(num_bytes);
    std::byte* base = memory.data();
    const AttentionArrays arrays =
        CarveAttention(base, config, 0, num_rows, 100);
    EXPECT_EQ(arrays.num_bytes, num_bytes);
    EXPECT_EQ(reinterpret_cast<std::byte*>(arrays.x), base);
    EXPECT_EQ(reinterpret_cast<std::byte*>(arrays.q), base + arrays.bytes_in);
    EXPECT_EQ(reinterpret_cast<std::byte*>(arrays.attended),
              reinterpret_cast<std::byte*>(arrays.k) + arrays.bytes_out);
    EXPECT_LE(arrays.scratch, base + num_bytes);
    // Of more rows k begins behind all rows of q.
    EXPECT_EQ(arrays.AreOneRow(config.layers[0].attention), num_rows == 1);
  }
}

TEST(AttentionArrays, HaveNoRopeWhereTheLayerHasNone) {
  model::Config config = ConfigOfHeads();
  EXPECT_EQ(NumRopePairs(config, config.layers[0].attention), 8u);
  config.layers[0].attention.rope = model::AttentionSpec::kNoRope;
  EXPECT_EQ(NumRopePairs(config, config.layers[0].attention), 0u);
  const AttentionArrays arrays = CarveAttention(nullptr, config, 0, 1, 100);
  EXPECT_LT(arrays.bytes_in,
            CarveAttention(nullptr, ConfigOfHeads(), 0, 1, 100).bytes_in);
}

TEST(AttentionOnDevice, IsOneMatrixWhereAllFollows) {
  std::array<std::byte, 256> rows = {};
  std::array<float, 16> floats = {};
  const auto matrix = [&](size_t first, uint32_t num_rows) {
    return kernels::DeviceMatrix{.rows = rows.data() + first * 16,
                                 .row_bytes = 16,
                                 .num_rows = num_rows,
                                 .n = 4};
  };
  const AttentionOnDevice whole = {
      .q = matrix(0, 8), .k = matrix(8, 4), .v = matrix(12, 4), .out = {}};
  EXPECT_TRUE(whole.AreOneMatrix());
  AttentionOnDevice other = whole;
  other.k.dtype = DType::kF16;
  EXPECT_FALSE(other.AreOneMatrix()) << "another type";
  other = whole;
  other.v.rows += 16;
  EXPECT_FALSE(other.AreOneMatrix()) << "a gap";
  other = whole;
  other.k_bias = floats.data();
  EXPECT_FALSE(other.AreOneMatrix()) << "a bias of one alone";
  other.q_bias = floats.data();
  other.k_bias = floats.data() + 8;
  other.v_bias = floats.data() + 12;
  EXPECT_TRUE(other.AreOneMatrix());
  other.v_bias = floats.data() + 13;
  EXPECT_FALSE(other.AreOneMatrix()) << "a gap between biases";
}

}  // namespace
}  // namespace thermocline::engine
