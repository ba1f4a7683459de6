#include "synth/tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/math.h"

namespace thermocline::synth {
namespace {

SynthWeights SynthLike(const std::string& like, DType dtype = DType::kQ4_0) {
  return SynthWeights(PlanSynth({.like = like, .dtype = dtype}).value());
}

std::vector<std::byte> BytesOfTensor(const SynthTensor& tensor,
                                     uint64_t rows_at_once) {
  std::vector<std::byte> bytes(tensor.num_rows() * tensor.row_bytes());
  for (uint64_t i = 0; i < tensor.num_rows(); i += rows_at_once) {
    const uint64_t count = std::min(rows_at_once, tensor.num_rows() - i);
    tensor.fill(i, count, &bytes[i * tensor.row_bytes()]);
  }
  return bytes;
}

const SynthTensor* Find(const std::vector<SynthTensor>& tensors,
                        const std::string& name) {
  for (const SynthTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

TEST(SynthTensorsTest, BytesDoNotDependOnHowRowsAreCut) {
  for (const char* like : {"tiny-falcon", "tiny-mixtral"}) {
    const SynthWeights weights = SynthLike(like);
    for (const SynthLayout layout :
         {SynthLayout::kPrepared, SynthLayout::kPlain}) {
      for (const SynthTensor& tensor : SynthTensors(weights, layout)) {
        if (tensor.name.starts_with("blk.1")) continue;
        EXPECT_EQ(BytesOfTensor(tensor, kSynthRowGrain),
                  BytesOfTensor(tensor, 5 * kSynthRowGrain))
            << tensor.name;
      }
    }
  }
}

TEST(SynthTensorsTest, LayoutsDifferInTheFfnAndThePredictors) {
  const SynthWeights weights = SynthLike("tiny");
  const auto plain = SynthTensors(weights, SynthLayout::kPlain);
  EXPECT_NE(Find(plain, "blk.0.ffn_down.weight"), nullptr);
  EXPECT_EQ(Find(plain, "blk.0.tc_pred_up.weight"), nullptr);
  EXPECT_NE(Find(plain, "output.weight"), nullptr);
  const auto prepared = SynthTensors(weights, SynthLayout::kPrepared);
  const SynthTensor* records = Find(prepared, "blk.1.ffn_records.weight");
  ASSERT_NE(records, nullptr);
  EXPECT_EQ(records->num_rows(), 2048u);
  EXPECT_EQ(records->row_bytes(),
            RoundUp(uint64_t{3 * 512 / 32 * 18}, uint64_t{64}));
  EXPECT_EQ(Find(prepared, "blk.0.ffn_gate.weight"), nullptr);
  EXPECT_NE(Find(prepared, "blk.1.tc_pred_down.weight"), nullptr);
  const SynthWeights bare(
      PlanSynth({.like = "tiny", .with_predictor = false}).value());
  const auto apart = SynthTensors(bare, SynthLayout::kPrepared);
  EXPECT_EQ(Find(apart, "blk.1.tc_pred_down.weight"), nullptr);
  EXPECT_EQ(BytesOfTensor(*Find(apart, "blk.1.ffn_gate.weight"), 64),
            BytesOfTensor(*Find(plain, "blk.1.ffn_gate.weight"), 64));
  EXPECT_EQ(Find(apart, "blk.1.ffn_records.weight")->row_bytes(),
            2u * 512 / 32 * 18);
  const auto twin = SynthTensors(weights, SynthLayout::kPowerInfer);
  EXPECT_NE(Find(twin, "blk.0.ffn_down_t.weight"), nullptr);
  EXPECT_EQ(Find(twin, "blk.0.fc1.weight")->dtype, DType::kQ4_0);
  EXPECT_EQ(Find(twin, "blk.0.fc2.weight")->num_rows(), 2048u);
}

TEST(SynthTensorsTest, WhatArchitecturesWantIsThere) {
  const SynthWeights opt_weights = SynthLike("tiny-opt");
  const auto opt = SynthTensors(opt_weights, SynthLayout::kPowerInfer);
  EXPECT_EQ(Find(opt, "position_embd.weight")->num_rows(), 2050u);
  EXPECT_EQ(Find(opt, "output.weight"), nullptr);
  for (const char* name :
       {"blk.0.attn_q.bias", "blk.0.attn_output.bias", "blk.0.ffn_up.bias",
        "blk.0.ffn_down_t.bias", "output_norm.bias", "blk.1.ffn_norm.bias"}) {
    EXPECT_NE(Find(opt, name), nullptr) << name;
  }
  const SynthWeights falcon_weights = SynthLike("tiny-falcon");
  const auto falcon = SynthTensors(falcon_weights, SynthLayout::kPlain);
  EXPECT_EQ(Find(falcon, "blk.0.attn_qkv.weight")->num_rows(), 512u + 256);
  EXPECT_NE(Find(falcon, "blk.0.attn_norm_2.bias"), nullptr);
  EXPECT_EQ(Find(falcon, "blk.0.ffn_norm.weight"), nullptr);
  EXPECT_EQ(Find(falcon, "blk.0.ffn_gate.weight"), nullptr);
  const SynthWeights mixtral_weights = SynthLike("tiny-mixtral");
  const auto mixtral = SynthTensors(mixtral_weights, SynthLayout::kPlain);
  const SynthTensor* down = Find(mixtral, "blk.0.ffn_down_exps.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->shape.rank, 3);
  EXPECT_EQ(down->shape.ne[2], 4u);
  EXPECT_EQ(Find(mixtral, "blk.0.ffn_gate_inp.weight")->dtype, DType::kF32);
}

// On every machine, in every build. What is made changed on purpose? Then put
// in what the test says.
TEST(SynthTensorsTest, BytesAreTheseOnEveryMachine) {
  const SynthWeights weights = SynthLike("tiny");
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const SynthTensor& tensor :
       SynthTensors(weights, SynthLayout::kPrepared)) {
    for (const std::byte byte : BytesOfTensor(tensor, 1024)) {
      hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
    }
  }
  EXPECT_EQ(hash, 17498875208580247819u);
}

}  // namespace
}  // namespace thermocline::synth
