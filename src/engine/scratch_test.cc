#include "engine/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "os/memory.h"

namespace thermocline::engine {
namespace {

model::Config SmallConfig() {
  model::Config config;
  config.num_layers = 2;
  config.width = 90;
  config.vocab_size = 20;
  config.ropes = {{.width = 10}};
  config.layers.assign(2, model::LayerSpec{.attention = {.num_heads = 6,
                                                         .num_kv_heads = 3,
                                                         .key_width = 10,
                                                         .value_width = 12,
                                                         .rope = 0},
                                           .ffn = {.width = 130}});
  return config;
}

TEST(Scratch, RowsAreAlignedDisjointAndInside) {
  const ScratchShape shape = {.batch = 3, .context = 17, .num_threads = 2};
  const auto num_bytes = ScratchBytes(SmallConfig(), shape);
  ASSERT_TRUE(num_bytes.has_value());
  const auto buffer = os::AlignedBuffer::Allocate(*num_bytes);
  ASSERT_TRUE(buffer.has_value());
  const Scratch s = MakeScratch(SmallConfig(), shape, buffer->data());

  const std::vector<std::pair<compute::Rows, size_t>> all = {
      {s.residual, 90},
      {s.normed, 90},
      {s.delta, 90},
      {s.ropes[0].cos, 5},
      {s.ropes[0].sin, 5},
      {s.attention[0].q, 60},
      {s.attention[0].attended, 72},
      {s.ffn[0].gate, 130},
      {s.ffn[0].up, 130}};
  const std::byte* end_of_last = buffer->data();
  for (const auto& [rows, width] : all) {
    EXPECT_EQ(rows.width, width);
    EXPECT_GE(rows.stride, rows.width);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(rows.row(0)) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(rows.row(1)) % 64, 0u);
    EXPECT_GE(reinterpret_cast<std::byte*>(rows.data), end_of_last);
    end_of_last = reinterpret_cast<std::byte*>(rows.row(3));
  }
  EXPECT_GE(s.products.rounded_rows, end_of_last);
  EXPECT_LT(s.products.rounded_rows, buffer->data() + *num_bytes);
  EXPECT_FALSE(static_cast<bool>(s.sets[0]));
}

TEST(Scratch, PredictorsGetSetsOfOneOrTwoLayers) {
  const ScratchShape shape = {
      .batch = 3, .context = 17, .num_threads = 2, .is_sparse = true};
  model::Config config = SmallConfig();
  config.num_layers = 3;
  config.layers.push_back(config.layers.front());
  config.layers[1].ffn.width = 300;
  for (const size_t lookahead : {0, 1}) {
    config.predictor.lookahead = lookahead;
    const auto num_bytes = ScratchBytes(config, shape);
    ASSERT_TRUE(num_bytes.has_value());
    const auto buffer = os::AlignedBuffer::Allocate(*num_bytes);
    ASSERT_TRUE(buffer.has_value());
    const Scratch scratch = MakeScratch(config, shape, buffer->data());
    // 130 neurons take 3 words, twice a row.
    const neuron::ActiveSets first = scratch.sets_of(0);
    EXPECT_EQ(first.num_neurons, 130u);
    EXPECT_FALSE(first.is_recorded);
    EXPECT_EQ(first.named(2).words, first.words + 2 * 6);
    EXPECT_EQ(first.fired(1).words, first.words + 6 + 3);
    EXPECT_EQ(scratch.sets_of(2).words, first.words);
    EXPECT_EQ(scratch.sets_of(1).words == first.words, lookahead == 0);
    EXPECT_EQ(scratch.sets_of(1).num_neurons, 300u);
    EXPECT_FALSE(static_cast<bool>(scratch.sets_of(3)));
    // Apart from what products use.
    EXPECT_GE(scratch.products.rounded_rows,
              reinterpret_cast<std::byte*>(scratch.sets_of(1).words + 3 * 10));
  }
}

TEST(Scratch, ObserversGetRoomForTheNeuronsOfAllExperts) {
  const ScratchShape shape = {
      .batch = 3, .context = 17, .num_threads = 2, .is_observed = true};
  model::Config config = SmallConfig();
  for (model::LayerSpec& layer : config.layers) {
    layer.ffn.num_experts = 4;
    layer.ffn.num_experts_used = 2;
    layer.parallel = true;
  }
  const auto num_bytes = ScratchBytes(config, shape);
  ASSERT_TRUE(num_bytes.has_value());
  const auto buffer = os::AlignedBuffer::Allocate(*num_bytes);
  ASSERT_TRUE(buffer.has_value());
  const Scratch scratch = MakeScratch(config, shape, buffer->data());
  const neuron::ActiveSets sets = scratch.sets_of(0);
  ASSERT_TRUE(static_cast<bool>(sets));
  EXPECT_TRUE(sets.is_recorded);
  EXPECT_EQ(sets.num_neurons, 4u * 130);  // 9 words
  EXPECT_GE(scratch.listed, reinterpret_cast<uint32_t*>(sets.words + 6 * 9));
  EXPECT_GE(scratch.stream.data,
            reinterpret_cast<float*>(scratch.listed + 2 * 520));
  EXPECT_GE(reinterpret_cast<const float*>(scratch.products.rounded_rows),
            scratch.stream.row(3));
}

// The activations of layers that differ take what the largest takes, and those
// of one rope are not those of another.
TEST(Scratch, LayersThatDiffer) {
  const ScratchShape shape = {
      .batch = 3, .context = 17, .num_threads = 2, .is_sparse = true};
  const model::Config alike = SmallConfig();
  model::Config config = alike;
  config.layers[1].ffn.width = 40;
  config.layers[1].attention.num_heads = 3;
  EXPECT_EQ(*ScratchBytes(config, shape), *ScratchBytes(alike, shape));
  config.ropes.push_back({.width = 4});
  config.layers[1].attention.rope = 1;
  const auto buffer = os::AlignedBuffer::Allocate(*ScratchBytes(config, shape));
  ASSERT_TRUE(buffer.has_value());
  const Scratch scratch = MakeScratch(config, shape, buffer->data());
  EXPECT_EQ(scratch.ropes[1].cos.width, 2u);
  EXPECT_GE(scratch.ropes[1].cos.data, scratch.ropes[0].sin.row(3));
  EXPECT_EQ(scratch.ffn[1].up.width, 40u);
  EXPECT_EQ(scratch.ffn[1].sparse.num_neurons, 40u);
  EXPECT_EQ(scratch.ffn[1].gate.data, scratch.ffn[0].gate.data);
  EXPECT_EQ(scratch.ffn[1].sparse.all_ids, scratch.ffn[0].sparse.all_ids);
  EXPECT_LE(scratch.ffn[0].sparse.all_ids + 130,
            reinterpret_cast<uint32_t*>(scratch.ffn[0].gate.data));
}

TEST(Scratch, OverflowIsAnError) {
  const std::vector<ScratchShape> shapes = {
      {.batch = 1, .context = INT64_MAX, .num_threads = 500},
      {.batch = INT64_MAX, .context = INT64_MAX, .num_threads = 1},
      {.batch = int64_t{1} << 54,
       .context = int64_t{1} << 54,
       .num_threads = 1},
  };
  for (const ScratchShape& shape : shapes) {
    const auto num_bytes = ScratchBytes(SmallConfig(), shape);
    ASSERT_FALSE(num_bytes.has_value()) << *num_bytes;
    EXPECT_EQ(num_bytes.error().code, ErrorCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace thermocline::engine
