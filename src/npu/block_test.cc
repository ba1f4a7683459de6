#include "npu/block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "model/test_model.h"
#include "npu/test_block_run.h"
#include "npu/test_npu_model.h"
#include "npu/test_plain_layers.h"

namespace thermocline::npu {
namespace {

constexpr size_t kRunRows = 11;

std::vector<float> RandomRows(const model::Model& model, size_t count) {
  Random random(21);
  std::vector<float> x(count * model.config().width);
  for (float& value : x) value = random.Uniform(-1.0f, 1.0f);
  return x;
}

// What the layers add to x, which is what can be wrong.
std::vector<double> Update(std::span<const float> x, std::span<const float> y) {
  std::vector<double> update;
  for (size_t i = 0; i < x.size(); ++i) {
    update.push_back(double{y[i]} - double{x[i]});
  }
  return update;
}

struct PlainResult {
  std::vector<double> update;
  PlainLayers layers;
};

PlainResult RunPlain(const model::Model& model, std::span<const float> x) {
  PlainResult result = {{}, PlainLayers(model)};
  const size_t width = model.config().width;
  for (size_t first = 0; first < x.size(); first += width) {
    const std::span<const float> row = x.subspan(first, width);
    const Numbers64 y = result.layers.Run(Numbers64(row.begin(), row.end()));
    for (size_t i = 0; i < width; ++i) {
      result.update.push_back(y[i] - double{row[i]});
    }
  }
  return result;
}

std::vector<double> AsDoubles(const std::vector<uint16_t>& halves) {
  std::vector<double> values;
  for (const uint16_t half : halves) values.push_back(double{F16ToF32(half)});
  return values;
}

std::vector<double> Join(const std::vector<Numbers64>& rows) {
  std::vector<double> values;
  for (const Numbers64& row : rows) {
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

// Bounds of squares: floats against doubles give 1e-13, but a key or value that
// rounds to the other F16 is 2^-11 off, 2e-7 if all did; products of codes and
// scales are rounded to F16, too.
struct ArchitectureCase {
  std::string name;
  NpuModelSpec spec;
  double bound = 1e-7;
};
void PrintTo(const ArchitectureCase& c, std::ostream* os) { *os << c.name; }

std::vector<ArchitectureCase> ArchitectureCases() {
  std::vector<ArchitectureCase> cases;
  for (const char* name :
       {"llama", "qwen2", "qwen3", "falcon", "opt", "bamboo", "prosparse-llama",
        "sparse-qwen2", "relu-falcon", "nemotron", "arcee"}) {
    cases.push_back({name, {.architecture = name}});
  }
  cases.push_back({"llama_with_biases", {.biases = true}});
  cases.push_back({"llama_relu", {.activation = "relu"}});
  cases.push_back({"part_of_a_head_rotates", {.rope_width = 8}});
  cases.push_back({"part_of_a_normed_head_rotates",
                   {.architecture = "qwen3", .rope_width = 6}});
  cases.push_back(
      {"keys_wider_than_values", {.key_width = 16, .value_width = 8}});
  cases.push_back(
      {"values_wider_than_keys", {.key_width = 8, .value_width = 24}});
  cases.push_back({"one_kv_head", {.num_kv_heads = 1}});
  cases.push_back({"as_many_kv_heads", {.num_kv_heads = 6}});
  cases.push_back(
      {"falcon_two_norms", {.architecture = "falcon", .two_norms = true}});
  cases.push_back({"down_transposed", {.down_t = true}});
  cases.push_back(
      {"opt_down_transposed", {.architecture = "opt", .down_t = true}});
  cases.push_back({"rope_with_magnitude", {.rope_magnitude = 1.2f}});
  cases.push_back({"Q8_0", {.dtype = DType::kQ8_0}, 1e-6});
  cases.push_back({"Q4_0", {.dtype = DType::kQ4_0}, 1e-6});
  cases.push_back({"F32", {.dtype = DType::kF32}, 1e-6});
  cases.push_back({"BF16", {.dtype = DType::kBF16}, 1e-6});
  cases.push_back({"Q5_1", {.dtype = DType::kQ5_1}, 1e-6});
  return cases;
}

class BlockArchitectures : public testing::TestWithParam<ArchitectureCase> {};

TEST_P(BlockArchitectures, GiveWhatTheirEquationsSay) {
  const auto model = MakeNpuModel(GetParam().spec);
  const auto device = MakeReferenceDevice();
  const std::vector<float> x = RandomRows(*model, kRunRows);
  const PlainResult plain = RunPlain(*model, x);
  BlockRun run(*model, *device, {.rows = 4, .context = 16}, 2);
  const std::vector<float> y = run.Run(x);
  EXPECT_LE(RelativeSquares(Update(x, y), plain.update), GetParam().bound);
  for (size_t l = 0; l < 2; ++l) {
    std::vector<uint16_t> keys = run.rows(l, 'k');
    ToHostOrder(model->config(), l, kRunRows, keys.data());
    EXPECT_LE(RelativeSquares(AsDoubles(keys), Join(plain.layers.keys(l))),
              GetParam().bound);
    EXPECT_LE(RelativeSquares(AsDoubles(run.rows(l, 'v')),
                              Join(plain.layers.values(l))),
              GetParam().bound);
    ToGraphOrder(model->config(), l, kRunRows, keys.data());
    EXPECT_EQ(keys, run.rows(l, 'k'));
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockArchitectures,
                         testing::ValuesIn(ArchitectureCases()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Quantised anew: bounds of what their steps make of random weights.
TEST(BlockTest, EveryWeightFormIsNearTheFile) {
  struct Case {
    WeightForm form;
    double bound;
  };
  const Case cases[] = {
      {WeightForm::kF16, 1e-6},          {WeightForm::kI8Channel, 1e-3},
      {WeightForm::kI8Asymmetric, 1e-3}, {WeightForm::kI4Channel, 0.1},
      {WeightForm::kI4Group128, 0.1},    {WeightForm::kI4Asymmetric, 0.1}};
  const auto model = MakeNpuModel({.dtype = DType::kQ8_0});
  const auto device = MakeReferenceDevice();
  const std::vector<float> x = RandomRows(*model, kRunRows);
  const PlainResult plain = RunPlain(*model, x);
  for (const Case& c : cases) {
    BlockRun run(*model, *device, {.rows = 4, .context = 16, .weights = c.form},
                 1);
    EXPECT_LE(RelativeSquares(Update(x, run.Run(x)), plain.update), c.bound)
        << NameOf(c.form);
  }
}

class BlockBits : public testing::Test {
 protected:
  struct Outcome {
    std::vector<float> y;
    std::vector<std::vector<uint16_t>> rows;  // keys, values of each layer
    bool operator==(const Outcome&) const = default;
  };

  Outcome RunWith(const BlockSpec& spec, size_t layers_per_graph = 2,
                  float poison = 0.0f) const {
    BlockRun run(*model_, *device_, spec, layers_per_graph);
    run.Poison(poison);
    Outcome outcome = {run.Run(x_), {}};
    for (size_t l = 0; l < model_->config().num_layers; ++l) {
      outcome.rows.push_back(run.rows(l, 'k'));
      outcome.rows.push_back(run.rows(l, 'v'));
    }
    return outcome;
  }

  std::shared_ptr<const model::Model> model_ =
      MakeNpuModel({.num_layers = 4, .width = 48, .ffn_width = 64});
  std::unique_ptr<StaticDevice> device_ = MakeReferenceDevice();
  std::vector<float> x_ = RandomRows(*model_, 12);
};

// One row at a time, all at once, padded, and in any context; whatever stands
// in places without a position.
TEST_F(BlockBits, RowsDoNotDependOnRowsBesideThem) {
  const Outcome expected = RunWith({.rows = 1, .context = 13});
  EXPECT_EQ(RunWith({.rows = 12, .context = 13}), expected);
  EXPECT_EQ(RunWith({.rows = 8, .context = 24}), expected);
  EXPECT_EQ(RunWith({.rows = 5, .context = 40}), expected);
  EXPECT_EQ(RunWith({.rows = 8, .context = 24}, 2, 40.0f), expected);
  EXPECT_EQ(RunWith({.rows = 1, .context = 32}, 1, -40.0f), expected);
}

TEST_F(BlockBits, LayersMayBeSharedOutAmongGraphs) {
  const BlockSpec spec = {.rows = 4, .context = 16};
  const Outcome expected = RunWith(spec, 4);
  EXPECT_EQ(RunWith(spec, 1), expected);
  EXPECT_EQ(RunWith(spec, 2), expected);
}

TEST_F(BlockBits, EveryKvFormGivesTheSameRows) {
  const Outcome expected = RunWith({.rows = 4, .context = 16});
  const auto run = [&](KvForm kv, int64_t context) {
    return RunWith({.rows = 4, .context = context, .kv = kv});
  };
  EXPECT_EQ(run(KvForm::kScatter, 16), expected);
  EXPECT_EQ(run(KvForm::kRoll, 16), expected);
  // What is kept there is not seen.
  EXPECT_EQ(run(KvForm::kStateful, 12).y, expected.y);
  // As many rows as the cache has: the rest is forgotten, which is NITRO's way.
  EXPECT_NE(run(KvForm::kRoll, 4).y, expected.y);
}

TEST_F(BlockBits, WeightsMayBeInputs) {
  model_ = MakeNpuModel({.num_layers = 1, .biases = true});
  x_ = RandomRows(*model_, 12);
  for (const WeightForm form :
       {WeightForm::kExact, WeightForm::kI8Channel, WeightForm::kI4Group128,
        WeightForm::kI4Asymmetric}) {
    BlockSpec spec = {.rows = 4, .context = 16, .weights = form};
    const Outcome expected = RunWith(spec, 1);
    spec.weights_are_inputs = true;
    EXPECT_EQ(RunWith(spec, 1), expected) << NameOf(form);
  }
}

// One program for all layers: its caches have no layer's number.
TEST(BlockTest, InputsAreCalledAlikeForAllLayers) {
  const auto model = MakeNpuModel({});
  std::vector<std::vector<std::string>> names(2);
  for (size_t l = 0; l < 2; ++l) {
    const auto graph = BuildBlocks(*model, {.first_layer = l,
                                            .rows = 2,
                                            .context = 64,
                                            .weights_are_inputs = true});
    ASSERT_TRUE(graph.has_value());
    for (const Node* node : graph->parameters()) {
      names[l].push_back(node->name + ToString(node->outputs[0]));
    }
    for (const Node* node : graph->results()) names[l].push_back(node->name);
  }
  EXPECT_EQ(names[0], names[1]);
  EXPECT_TRUE(std::ranges::count(names[0], "cache_k_0f16[1,62,2,16]"));
  EXPECT_TRUE(std::ranges::count(names[0], "new_v_0"));
}

TEST(BlockTest, ConstantsOfUnlikeLayersAreTheirOwn) {
  const auto model = OpenNpuModel(model::TestUnlikeModel());
  const auto graph =
      BuildBlocks(*model, {.num_layers = 2, .rows = 2, .context = 64});
  ASSERT_TRUE(graph.has_value());
  std::vector<std::string> types;
  for (const Node* node : graph->parameters()) {
    if (node->name.starts_with("cache_k_")) {
      types.push_back(ToString(node->outputs[0]));
    }
  }
  EXPECT_EQ(types,
            (std::vector<std::string>{"f16[1,62,2,8]", "f16[1,62,1,8]"}));
}

TEST(BlockTest, WhatCannotBeIsRefusedByName) {
  const auto mixture = OpenNpuModel(model::TestExpertModel());
  const auto refused = BuildBlocks(*mixture, {.rows = 1, .context = 64});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("mixture of 4 experts"),
            std::string::npos);
  const auto model = MakeNpuModel({});
  const BlockSpec wrong[] = {
      {.num_layers = 3, .rows = 1},
      {.first_layer = 2, .rows = 1},
      {.num_layers = 0, .rows = 1},
      {.num_layers = 2, .rows = 1, .weights_are_inputs = true},
      {.num_layers = 2, .rows = 1, .shows_opened = true},
      {.rows = 0},
      {.rows = 512, .context = 512},
      {.rows = 8, .context = 7, .kv = KvForm::kRoll},
  };
  for (const BlockSpec& spec : wrong) {
    const auto graph = BuildBlocks(*model, spec);
    ASSERT_FALSE(graph.has_value());
    EXPECT_EQ(graph.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace thermocline::npu
