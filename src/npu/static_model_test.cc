#include "npu/static_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "npu/layer_inputs.h"
#include "npu/test_plain_layers.h"
#include "npu/test_static_model.h"
#include "os/test_no_threads.h"

namespace thermocline::npu {
namespace {

constexpr size_t kWidth = 32;
constexpr size_t kLayers = 3;

// As small as the reference is slow; rows of Q8_0 have 32 elements.
NpuModelSpec SomeSpec() {
  return {.num_layers = kLayers,
          .width = kWidth,
          .ffn_width = 32,
          .num_heads = 3,
          .num_kv_heads = 1,
          .key_width = 8,
          .value_width = 8,
          .down_dtype = DType::kQ8_0};
}

std::shared_ptr<const model::Model> SomeModel() {
  static const auto model = MakeNpuModel(SomeSpec());
  return model;
}

std::vector<float> SomeStream(int64_t num_rows) {
  return RandomStream(num_rows, kWidth, 5);
}

// One row at a time, with the smallest context: what all others have to give.
StaticOptions OneByOne() { return {.rows = {1}, .contexts = {64}}; }

struct Expected {
  explicit Expected(int64_t num_rows)
      : rig(SomeModel(), OneByOne()),
        y(rig.Run(SomeStream(num_rows)).value()) {}
  StaticRig rig;
  std::vector<float> y;
};

struct Shape {
  std::string name;
  StaticOptions options;
};

// The reference gives a row the same bits beside any others.
const Shape kShapes[] = {
    {"one context", {.rows = {8}, .contexts = {64}}},
    {"a longer context", {.rows = {8}, .contexts = {192}}},
    {"contexts by turns", {.rows = {8}, .contexts = {64, 128}}},
    {"two sizes", {.rows = {1, 8}, .contexts = {64}}},
    {"a graph for each layer",
     {.layers_per_program = 1, .rows = {8}, .contexts = {64}}},
    {"graphs of two layers",
     {.layers_per_program = 2, .rows = {8}, .contexts = {64}}},
    {"weights as inputs",
     {.weights_are_inputs = true, .rows = {8}, .contexts = {64}}},
    {"weights as inputs, two sizes, three threads",
     {.weights_are_inputs = true,
      .rows = {1, 8},
      .contexts = {64, 128},
      .unpack_threads = 3}},
};

TEST(StaticModelTest, AnyNumberOfRowsInAnyShapes) {
  for (const int64_t num_rows : {1, 7, 8, 9, 19}) {
    const Expected expected(num_rows);
    EXPECT_EQ(expected.rig.host.size(),
              kLayers * static_cast<size_t>(num_rows));
    for (const Shape& shape : kShapes) {
      StaticRig rig(SomeModel(), shape.options);
      EXPECT_EQ(rig.Run(SomeStream(num_rows)).value(), expected.y)
          << shape.name << ", " << num_rows;
      EXPECT_TRUE(rig.host == expected.rig.host) << shape.name;
      EXPECT_EQ(rig.graphs->length(), num_rows);
      EXPECT_LE(rig.graphs->num_bytes(),
                StaticBytes(rig.model->config(), shape.options).value());
    }
  }
}

TEST(StaticModelTest, RunsGoOnWhereTheLastOneEnded) {
  const Expected expected(60);
  for (const Shape& shape : kShapes) {
    StaticRig rig(SomeModel(), shape.options);
    const std::vector<float> x = SomeStream(60);
    std::vector<float> y;
    for (const auto& [first, end] :
         {std::pair{0, 5}, {5, 21}, {21, 22}, {22, 50}}) {
      const std::vector<float> piece(x.begin() + first * int64_t{kWidth},
                                     x.begin() + end * int64_t{kWidth});
      const auto more = rig.Run(piece);
      ASSERT_TRUE(more.has_value()) << shape.name << more.error().message;
      y.insert(y.end(), more->begin(), more->end());
    }
    EXPECT_TRUE(std::equal(y.begin(), y.end(), expected.y.begin()))
        << shape.name;
  }
}

// As they lie among other activations: nothing between them changes.
TEST(StaticModelTest, RowsNeedNotLieOneBehindTheOther) {
  constexpr size_t kStride = kWidth + 3;
  const Expected expected(19);
  const std::vector<float> x = SomeStream(19);
  for (const Shape& shape : kShapes) {
    StaticRig rig(SomeModel(), shape.options);
    std::vector<float> apart(19 * kStride, 7.0f);
    for (size_t row = 0; row < 19; ++row) {
      std::copy_n(&x[row * kWidth], kWidth, &apart[row * kStride]);
    }
    ASSERT_TRUE(rig.graphs->Run({apart.data(), 19, kStride}, nullptr, {}));
    for (size_t row = 0; row < 19; ++row) {
      const float* y = &apart[row * kStride];
      EXPECT_TRUE(std::equal(y, y + kWidth, &expected.y[row * kWidth]))
          << shape.name << ", " << row;
      EXPECT_EQ(std::count(y + kWidth, y + kStride, 7.0f), 3) << shape.name;
    }
  }
}

// What other rows left behind is closed, and what the host has comes back.
TEST(StaticModelTest, GarbageInUnusedSlotsChangesNothing) {
  const Expected expected(19);
  for (const Shape& shape : kShapes) {
    StaticRig rig(SomeModel(), shape.options);
    ASSERT_TRUE(rig.Run(RandomStream(40, kWidth, 99)).has_value());
    rig.graphs->Truncate(0);
    rig.host.Truncate(0);
    const std::vector<float> x = SomeStream(19);
    const auto at_10 = x.begin() + 10 * int64_t{kWidth};
    ASSERT_TRUE(rig.Run({x.begin(), at_10}).has_value());
    // Another sequence meanwhile.
    rig.graphs->Truncate(3);
    std::vector<float> other = RandomStream(30, kWidth, 98);
    ASSERT_TRUE(
        rig.graphs->Run(PackedRows(other, kWidth), nullptr, {}).has_value());
    rig.graphs->Load(3, 10, rig.host.Source());
    const auto y = rig.Run({at_10, x.end()});
    ASSERT_TRUE(y.has_value());
    EXPECT_TRUE(std::equal(y->begin(), y->end(),
                           expected.y.begin() + 10 * int64_t{kWidth}))
        << shape.name;
    EXPECT_TRUE(rig.host == expected.rig.host) << shape.name;
  }
}

// Each run fails at another place, and nothing shows of it afterwards.
TEST(StaticModelTest, ARunThatFailsLeavesTheLengthAsItWas) {
  const Expected expected(19);
  const std::vector<float> x = SomeStream(19);
  const std::vector<float> first(x.begin(), x.begin() + 8 * int64_t{kWidth});
  const std::vector<float> rest(x.begin() + 8 * int64_t{kWidth}, x.end());
  for (const Shape& shape : kShapes) {
    StaticRig rig(SomeModel(), shape.options);
    ASSERT_TRUE(rig.Run(first).has_value());
    const auto expect_failure = [&](const auto& y, ErrorCode code,
                                    const char* message) {
      ASSERT_FALSE(y.has_value()) << shape.name;
      EXPECT_EQ(y.error().code, code) << shape.name;
      EXPECT_EQ(y.error().message, message);
      EXPECT_EQ(rig.graphs->length(), 8);
      rig.host.Truncate(8);
    };
    for (const int later : {0, 1}) {
      rig.device->failing_infer = rig.device->num_infers + later;
      expect_failure(rig.Run(rest), ErrorCode::kIo, "the device is lost");
      int num_asked = 0;
      expect_failure(rig.Run(rest, [&] { return num_asked++ == later; }),
                     ErrorCode::kCancelled, "cancelled");
    }
    const auto y = rig.Run(rest);
    ASSERT_TRUE(y.has_value()) << shape.name << y.error().message;
    EXPECT_TRUE(std::equal(y->begin(), y->end(),
                           expected.y.begin() + 8 * int64_t{kWidth}))
        << shape.name;
    EXPECT_TRUE(rig.host == expected.rig.host) << shape.name;
  }
}

// An error, and a run later goes on.
TEST(StaticModelTest, WithoutMoreThreadsNothingIsComputed) {
  const Expected expected(9);
  for (const bool weights_are_inputs : {false, true}) {
    StaticRig rig(SomeModel(), {.weights_are_inputs = weights_are_inputs,
                                .rows = {8},
                                .contexts = {64}});
    // Of the hand-over, and, where nothing is handed over, of the weights.
    for (const bool has_sink : {true, false}) {
      if (!has_sink && !weights_are_inputs) continue;
      const os::NoMoreThreads none;
      const KvSink sink = rig.host.Sink();
      std::vector<float> x = SomeStream(9);
      const Status status = rig.graphs->Run(PackedRows(x, kWidth),
                                            has_sink ? &sink : nullptr, {});
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
      EXPECT_NE(status.error().message.find("cannot start a thread"),
                std::string::npos);
    }
    EXPECT_EQ(rig.device->num_infers, 0);
    EXPECT_EQ(rig.Run(SomeStream(9)).value(), expected.y);
  }
}

TEST(StaticModelTest, ProgramsAreCompiledOnceBeforeAnythingIsComputed) {
  StaticRig rig(
      SomeModel(),
      {.layers_per_program = 1, .rows = {1, 8}, .contexts = {64, 128}});
  rig.device->failing_compile = 2;
  const auto y = rig.Run(SomeStream(9));
  ASSERT_FALSE(y.has_value());
  EXPECT_EQ(y.error().message,
            "layers 1 to 1, 8 rows, context 64: the compiler refused");
  EXPECT_EQ(rig.device->num_infers, 0);
  ASSERT_TRUE(rig.Run(SomeStream(9)).has_value());
  // Two of the first try, a failed one, and the rest of 3 layers in 2 shapes.
  EXPECT_EQ(rig.device->num_compiles, 7);
  ASSERT_TRUE(rig.Run(SomeStream(9)).has_value());
  EXPECT_EQ(rig.device->num_compiles, 7);
}

// Who waits for rows did not cancel them.
TEST(StaticModelTest, ACompileThatTookTooLongIsAFailure) {
  StaticRig rig(SomeModel(), {.rows = {8}, .contexts = {64}, .has_head = true});
  rig.device->failing_compile = 0;
  rig.device->compile_code = ErrorCode::kCancelled;
  const auto y = rig.Run(SomeStream(9));
  ASSERT_FALSE(y.has_value());
  EXPECT_EQ(y.error().code, ErrorCode::kIo);
  rig.device->failing_compile = 1;
  std::vector<float> logits(40);
  const Status status = rig.graphs->Logits(SomeStream(1), logits);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
}

// As PowerInfer has OPT: a row of zeros would have no norm.
TEST(StaticModelTest, PaddingNeedsNoEpsilon) {
  NpuModelSpec spec = SomeSpec();
  spec.norm_epsilon = 0.0f;
  const auto model = MakeNpuModel(spec);
  StaticRig padded(model, {.rows = {8}, .contexts = {64}});
  StaticRig one_by_one(model, OneByOne());
  const auto y = padded.Run(SomeStream(9));
  ASSERT_TRUE(y.has_value()) << y.error().message;
  EXPECT_EQ(*y, one_by_one.Run(SomeStream(9)).value());
}

TEST(StaticModelTest, WeightsAsInputsShareAProgram) {
  StaticRig rig(SomeModel(),
                {.weights_are_inputs = true, .rows = {8}, .contexts = {64}});
  ASSERT_TRUE(rig.Run(SomeStream(9)).has_value());
  EXPECT_EQ(rig.device->num_compiles, 1);
  EXPECT_EQ(rig.device->num_infers, 2 * static_cast<int>(kLayers));
}

TEST(StaticModelTest, WeightsComeFromASource) {
  const Expected expected(9);
  StaticRig rig(SomeModel(),
                {.weights_are_inputs = true, .rows = {8}, .contexts = {64}});
  std::string told;
  bool fails = true;
  rig.graphs->SetLayerSource(
      {.await = [&](size_t layer_idx) -> Result<const model::LayerWeights*> {
         told += "r" + std::to_string(layer_idx);
         if (fails && layer_idx == 1) return Fail(ErrorCode::kIo, "gone");
         return &rig.model->weights().layers[layer_idx];
       },
       .leave =
           [&](size_t layer_idx) { told += "l" + std::to_string(layer_idx); }});
  const auto failed = rig.Run(SomeStream(9));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "gone");
  EXPECT_EQ(told, "r0l0r1");
  EXPECT_EQ(rig.graphs->length(), 0);
  told.clear();
  fails = false;
  rig.host.Truncate(0);
  EXPECT_EQ(rig.Run(SomeStream(9)).value(), expected.y);
  EXPECT_EQ(told, "r0l0r1l1r2l2");
}

// Layer by layer, in the order of positions, without padding; and the rows are
// what they were.
TEST(StaticModelTest, ShowsWhatGatesLetThrough) {
  constexpr int64_t kRows = 11;
  for (const char* architecture : {"llama", "opt", "bamboo", "nemotron"}) {
    SCOPED_TRACE(architecture);
    const auto model =
        MakeNpuModel({.architecture = architecture, .ffn_width = 70});
    const size_t width = model->config().width;
    const std::vector<float> x = RandomStream(kRows, width, 5);
    PlainLayers plain(*model);
    for (size_t first = 0; first < x.size(); first += width) {
      plain.Run(Numbers64(&x[first], &x[first] + width));
    }
    StaticOptions options = {
        .weights_are_inputs = true, .rows = {4}, .contexts = {64}};
    StaticRig silent(model, options);
    options.shows_opened = true;
    StaticRig rig(model, options);
    EXPECT_GT(rig.graphs->num_bytes(), silent.graphs->num_bytes());
    std::vector<std::vector<double>> shown(model->config().num_layers);
    rig.graphs->SetOpenedSink([&](size_t layer_idx, int64_t first,
                                  int64_t count, const uint16_t* opened) {
      EXPECT_EQ(shown[layer_idx].size(), static_cast<size_t>(first) * 70);
      for (int64_t i = 0; i < count * 70; ++i) {
        shown[layer_idx].push_back(double{F16ToF32(opened[i])});
      }
    });
    EXPECT_EQ(rig.Run(x).value(), silent.Run(x).value());
    for (size_t l = 0; l < shown.size(); ++l) {
      std::vector<double> expected;
      for (const Numbers64& row : plain.opened(l)) {
        expected.insert(expected.end(), row.begin(), row.end());
      }
      EXPECT_LE(RelativeSquares(shown[l], expected), 1e-6) << l;
    }
  }
}

TEST(StaticModelTest, ARunThatNoContextHoldsComputesNothing) {
  StaticRig rig(SomeModel(), {.rows = {8}, .contexts = {64}});
  EXPECT_TRUE(rig.graphs->Holds(0, 57));
  EXPECT_TRUE(rig.graphs->Holds(56, 8));
  EXPECT_FALSE(rig.graphs->Holds(57, 1));
  const auto y = rig.Run(SomeStream(65));
  ASSERT_FALSE(y.has_value());
  EXPECT_EQ(y.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(rig.device->num_compiles, 0);
}

TEST(StaticModelTest, LogitsDoNotDependOnTheRowsBesideThem) {
  const std::vector<float> x = SomeStream(5);
  std::vector<std::vector<float>> all;
  for (const int64_t rows : {1, 8}) {
    StaticRig rig(SomeModel(),
                  {.rows = {rows}, .contexts = {64}, .has_head = true});
    std::vector<float> logits(5 * 40);
    ASSERT_TRUE(rig.graphs->Logits(x, logits).has_value());
    all.push_back(logits);
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_NE(all[0][0], all[0][40]);
}

TEST(StaticModelTest, KeysThatF16CannotHoldAreAnError) {
  NpuModelSpec spec = SomeSpec();
  spec.edit = [](const std::string& name, std::span<float> values) {
    if (name != "blk.1.attn_v.weight") return;
    for (float& value : values) value *= 6e4f;
  };
  const auto model = MakeNpuModel(spec);
  StaticRig rig(model, {.rows = {8}, .contexts = {64}});
  const auto y = rig.Run(SomeStream(9));
  ASSERT_FALSE(y.has_value());
  EXPECT_EQ(y.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(y.error().message,
            "keys or values of layer 1 are not finite in F16 at positions 0 "
            "to 7");
  EXPECT_EQ(rig.graphs->length(), 0);
}

TEST(StaticModelTest, TimesAndWords) {
  StaticRig rig(
      SomeModel(),
      {.weights_are_inputs = true, .rows = {8}, .contexts = {64, 128}});
  ASSERT_TRUE(rig.Run(SomeStream(9)).has_value());
  const StaticTimes& times = rig.graphs->times();
  EXPECT_EQ(times.num_rows, 9u);
  EXPECT_EQ(times.num_padded, 7u);
  EXPECT_GT(times.infer_s, 0.0);
  EXPECT_GT(times.unpack_s, 0.0);
  EXPECT_GT(times.compile_s, 0.0);
  EXPECT_LE(times.infer_s + times.unpack_wait_s + times.hand_over_wait_s,
            times.whole_s);
  rig.graphs->ResetTimes();
  EXPECT_EQ(times.num_rows, 0u);
  EXPECT_GT(times.compile_s, 0.0);
  EXPECT_EQ(rig.graphs->Describe(),
            "faulty device, weights exact as inputs, 8 rows, contexts 64 to "
            "128");
}

TEST(StaticModelTest, WhatTheDeviceTakesBesides) {
  const auto model = MakeNpuModel({.down_dtype = DType::kQ8_0});
  EXPECT_EQ(RoughDeviceBytes(*model, {.weights_are_inputs = true}), 0u);
  const uint64_t f16 = RoughDeviceBytes(*model, {.weights = WeightForm::kF16});
  const uint64_t i4 =
      RoughDeviceBytes(*model, {.weights = WeightForm::kI4Channel});
  EXPECT_GT(f16, 7 * i4);
  EXPECT_LT(f16, 12 * i4);
  // F16 threefold, and the norm.
  const model::Config& config = model->config();
  const StaticOptions with_head = {.weights = WeightForm::kF16,
                                   .has_head = true};
  EXPECT_EQ(RoughDeviceBytes(*model, with_head) - f16,
            3 * config.width * (2 * config.vocab_size + 4));
}

// The weights that graphs hold, and all positions of the one that is used.
TEST(StaticModelTest, WhatATokenReads) {
  const auto model = SomeModel();
  const model::Config& config = model->config();
  const auto bytes = [&](StaticOptions options, int64_t length) {
    options.rows = {1, 8};
    options.contexts = {64, 128};
    return TokenBytes(*model, options, length);
  };
  uint64_t of_layers = 0;
  for (size_t i = 0; i < kLayers; ++i) {
    const auto inputs = LayerInputs(*model, i, WeightForm::kF16);
    for (const LayerInput& input : *inputs) of_layers += NumBytes(input.type);
  }
  const KvWidths widths = KvWidthsOf(config, 0);
  const uint64_t kv = kLayers * 2 * (widths.k + widths.v);  // of a position
  const StaticOptions f16 = {.weights = WeightForm::kF16};
  for (const auto& [length, past] : {std::pair{0, 63}, {63, 63}, {64, 127}}) {
    EXPECT_EQ(bytes(f16, length), of_layers + kv * static_cast<uint64_t>(past))
        << length;
  }
  EXPECT_EQ(bytes({.weights = WeightForm::kF16, .has_head = true}, 0),
            bytes(f16, 0) + config.width * (2 * config.vocab_size + 4));
  EXPECT_EQ(bytes({.weights = WeightForm::kF16, .kv = KvForm::kRoll}, 0),
            of_layers + kv * 128);
  EXPECT_LT(bytes({.weights = WeightForm::kI4Channel}, 0), bytes(f16, 0));
}

TEST(StaticModelTest, RefusesOptionsThatDoNotGoTogether) {
  const auto model = SomeModel();
  struct Case {
    StaticOptions options;
    ErrorCode code;
    const char* message;
  };
  const Case cases[] = {
      {{.weights_are_inputs = true, .layers_per_program = 2},
       ErrorCode::kInvalidArgument,
       "graphs of 2 layers, and weights as inputs of a graph of one"},
      {{.rows = {}}, ErrorCode::kInvalidArgument, "static graphs of  rows"},
      {{.rows = {8}, .contexts = {65}},
       ErrorCode::kInvalidArgument,
       "static graphs of contexts 65"},
  };
  for (const Case& c : cases) {
    const auto made =
        StaticModel::Create(model, MakeReferenceDevice(), c.options);
    ASSERT_FALSE(made.has_value()) << c.message;
    EXPECT_EQ(made.error().code, c.code);
    EXPECT_NE(made.error().message.find(c.message), std::string::npos)
        << made.error().message;
  }
}

}  // namespace
}  // namespace thermocline::npu
