#include "engine/ffn/neuron_ffn.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/testing/test_compute_fixture.h"
#include "engine/testing/test_record_store.h"
#include "engine/testing/tiny_model.h"
#include "neuron/record.h"
#include "tensor/codec.h"

namespace thermocline::engine {
namespace {

using testing::ComputeFixture;
using ::testing::ElementsAre;
using testing::OwnedTensor;
using testing::RandomFloats;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

model::Config ReluConfig(size_t width, size_t ffn_width) {
  model::Config config;
  config.width = width;
  config.layers = {model::LayerSpec{
      .ffn = {.activation = Activation::kRelu, .width = ffn_width}}};
  return config;
}

// Random matrices [F, D] of one type, down transposed, as they lie in files and
// as records; and the inputs of some tokens.
class RandomFfn {
 public:
  RandomFfn(size_t width, size_t ffn_width, DType dtype, size_t num_tokens = 8)
      : width(width),
        ffn_width(ffn_width),
        config(ReluConfig(width, ffn_width)),
        x(RandomFloats(num_tokens * width, 9)) {
    for (uint64_t i = 0; i < 3; ++i) {
      parts_.push_back(std::make_unique<OwnedTensor>(
          dtype, RandomFloats(width * ffn_width, i + 1), width));
    }
    for (uint64_t i = 0; i < 2; ++i) {
      biases_.push_back(std::make_unique<OwnedTensor>(
          DType::kF32, RandomFloats(ffn_width, i + 4), ffn_width));
    }
    biases_.push_back(std::make_unique<OwnedTensor>(
        DType::kF32, RandomFloats(width, 6), width));
    weights.gate = parts_[0]->view();
    weights.up = parts_[1]->view();
    weights.down_t = parts_[2]->view();
  }

  void AddBiases() {
    weights.gate_bias = biases_[0]->view();
    weights.up_bias = biases_[1]->view();
    weights.down_bias = biases_[2]->view();
  }
  void RemoveGate() {
    config.layers[0].ffn.gated = false;
    weights.gate = weights.gate_bias = {};
  }

  // The same values as records, the gate among them or as it is.
  void Bundle(bool with_gate = true) {
    std::optional<DType> gate;
    if (weights.gate && with_gate) gate = weights.gate.dtype;
    const auto layout = neuron::MakeRecordLayout(gate, weights.up.dtype,
                                                 weights.down_t.dtype, width);
    ASSERT_TRUE(layout.has_value());
    records_.resize(layout->stride * ffn_width);
    neuron::RecordViews views =
        neuron::ViewRecords(*layout, records_.data(), ffn_width);
    const auto copy = [&](TensorView& from, const TensorView& to) {
      if (!from || !to) return;
      for (size_t i = 0; i < ffn_width; ++i) {
        std::copy_n(
            from.row(i), from.row_bytes(),
            records_.data() + static_cast<size_t>(to.row(i) - records_.data()));
      }
      from = to;
    };
    copy(weights.gate, views.gate);
    copy(weights.up, views.up);
    copy(weights.down_t, views.down_t);
  }

  // delta of tokens with these lists, one after the other.
  std::vector<float> Run(const std::vector<std::vector<uint32_t>>& lists,
                         int num_threads,
                         kernels::Isa isa = kernels::BestIsa()) {
    Open(num_threads, isa);
    std::vector<NeuronList> views;
    for (const auto& list : lists) views.push_back({list.data(), list.size()});
    return RunLists(views);
  }
  // The same list for all of some tokens.
  std::vector<float> RunShared(const std::vector<uint32_t>& list,
                               size_t num_tokens, int num_threads,
                               kernels::Isa isa = kernels::BestIsa()) {
    Open(num_threads, isa);
    return RunLists(
        std::vector<NeuronList>(num_tokens, {list.data(), list.size()}));
  }

  // What was run last.
  std::vector<size_t> Fired(size_t token_idx) const {
    std::vector<uint64_t> words(neuron::WordsOf(ffn_width));
    const neuron::NeuronSet set = {words.data(), ffn_width};
    ffn_->AddFired(token_idx, set);
    std::vector<size_t> fired;
    set.ForEachIn(0, ffn_width, [&](size_t i) { fired.push_back(i); });
    return fired;
  }
  const NeuronFfn& ffn() const { return *ffn_; }
  const Scratch& scratch() const { return fixture_->scratch(); }

  // The same in double precision, neurons below `rest_below` at rest.
  std::vector<double> Expected(
      const std::vector<std::vector<uint32_t>>& lists) const {
    std::vector<double> out;
    for (size_t t = 0; t < lists.size(); ++t) {
      std::vector<double> delta(width, 0.0);
      if (weights.down_bias) Add(weights.down_bias, 0, 1.0, delta);
      for (const uint32_t i : lists[t]) {
        const double h = Hidden(t, i);
        if (h != 0.0) Add(weights.down_t, i, h, delta);
      }
      out.insert(out.end(), delta.begin(), delta.end());
    }
    return out;
  }

  size_t width, ffn_width;
  model::Config config;
  model::FfnWeights weights;
  float rest_below = 0.0f;
  Listed listed = Listed::kAllReordered;
  // Of a slot store's records; else they stay where the weights are.
  std::optional<testing::SlotStoreOptions> slots;
  Status status;  // of the last run
  std::vector<float> x;

 private:
  void Open(int num_threads, kernels::Isa isa) {
    fixture_ = std::make_unique<ComputeFixture>(
        config,
        ScratchShape{.batch = static_cast<int64_t>(x.size() / width),
                     .context = 1,
                     .num_threads = num_threads,
                     .is_sparse = true},
        isa);
    if (slots) {
      records_store_ = testing::SlotStore::Make(weights, *slots);
    } else {
      records_store_ = MakeMappedStore(weights);
    }
    ffn_ = std::make_unique<NeuronFfn>(
        &config.layers[0].ffn, &weights, records_store_.get(), listed,
        rest_below, &fixture_->compute(), &scratch().ffn[0], &board_);
  }
  std::vector<float> RunLists(const std::vector<NeuronList>& lists) {
    for (size_t t = 0; t < lists.size(); ++t) {
      std::copy_n(x.data() + t * width, width, scratch().normed.row(t));
      std::ranges::fill(scratch().delta.span(t), kNaN);
      std::ranges::fill(scratch().ffn[0].up.span(t), kNaN);
    }
    status = ffn_->Run(scratch().normed, lists, scratch().ffn[0].up,
                       scratch().delta);
    std::vector<float> out;
    for (size_t t = 0; t < lists.size(); ++t) {
      const auto row = scratch().delta.span(t);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

  double Dot(const TensorView& matrix, const TensorView& bias, size_t t,
             size_t i) const {
    std::vector<float> row(width);
    DequantizeRow(matrix.dtype, matrix.row(i), row);
    double sum = 0.0;
    for (size_t c = 0; c < width; ++c) {
      sum += static_cast<double>(row[c]) * x[t * width + c];
    }
    return bias ? sum + reinterpret_cast<const float*>(bias.data)[i] : sum;
  }
  double Hidden(size_t t, size_t i) const {
    const double up = Dot(weights.up, weights.up_bias, t, i);
    const double tested =
        weights.gate ? Dot(weights.gate, weights.gate_bias, t, i) : up;
    double opened = config.layers[0].ffn.activation == Activation::kSilu
                        ? tested / (1.0 + std::exp(-tested))
                        : std::max(tested, 0.0);
    if (config.layers[0].ffn.activation == Activation::kRelu2) opened *= opened;
    if (std::abs(opened) < rest_below || opened == 0.0) return 0.0;
    if (!weights.gate) return opened;
    return config.layers[0].ffn.activation == Activation::kDRelu
               ? opened * std::max(up, 0.0)
               : opened * up;
  }
  static void Add(const TensorView& matrix, size_t i, double h,
                  std::vector<double>& out) {
    std::vector<float> row(out.size());
    DequantizeRow(matrix.dtype, matrix.row(i), row);
    for (size_t c = 0; c < out.size(); ++c) {
      out[c] += h * static_cast<double>(row[c]);
    }
  }

  std::vector<std::unique_ptr<OwnedTensor>> parts_, biases_;
  std::vector<std::byte> records_;
  PieceResults board_;
  std::unique_ptr<RecordStore> records_store_;
  std::unique_ptr<ComputeFixture> fixture_;
  std::unique_ptr<NeuronFfn> ffn_;
};

std::vector<uint32_t> Every(size_t step, size_t first, size_t end) {
  std::vector<uint32_t> list;
  for (size_t i = first; i < end; i += step) {
    list.push_back(static_cast<uint32_t>(i));
  }
  return list;
}

TEST(NeuronFfn, IsTheProductsWrittenDown) {
  for (const Activation activation : {Activation::kRelu, Activation::kDRelu,
                                      Activation::kRelu2, Activation::kSilu}) {
    for (const bool gated : {true, false}) {
      if (!gated && activation == Activation::kDRelu) continue;
      for (const bool bundled : {true, false}) {
        SCOPED_TRACE(std::string(NameOf(activation)) +
                     (gated ? ", gated" : "") + (bundled ? ", bundled" : ""));
        RandomFfn ffn(96, 700, DType::kF32);
        ffn.config.layers[0].ffn.activation = activation;
        ffn.AddBiases();
        if (!gated) ffn.RemoveGate();
        if (bundled) ffn.Bundle();
        const std::vector<std::vector<uint32_t>> lists = {
            Every(1, 0, 700), Every(3, 1, 700), {}, {699}, Every(7, 300, 500)};
        EXPECT_LE(testing::Nmse(ffn.Run(lists, 3),
                                std::span<const double>(ffn.Expected(lists))),
                  1e-12);
        EXPECT_EQ(ffn.Fired(2), std::vector<size_t>());
      }
    }
  }
}

// Rows of a matrix that follow each other are read by another kernel.
TEST(NeuronFfn, AllInSequenceIsTheSameAsListed) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0,
                            DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
    for (const size_t ffn_width : {5, 300, 1111}) {
      for (const bool bundled : {true, false}) {
        SCOPED_TRACE(fmt::format("{}, {} neurons, {}", NameOf(dtype), ffn_width,
                                 bundled ? "records" : "matrices"));
        RandomFfn ffn(256, ffn_width, dtype);
        ffn.AddBiases();
        if (bundled) ffn.Bundle(/*with_gate=*/false);
        const std::vector<uint32_t> all = Every(1, 0, ffn_width);
        const auto listed = ffn.RunShared(all, 3, 2);
        ffn.listed = Listed::kAll;
        EXPECT_EQ(ffn.RunShared(all, 3, 2), listed);
        EXPECT_EQ(ffn.RunShared(all, 3, 1), listed);
        // Tokens that do not share a list, one by one.
        EXPECT_EQ(ffn.Run({all, all}, 2),
                  std::vector<float>(listed.begin(), listed.begin() + 2 * 256));
      }
    }
  }
}

// Each of sixteen pieces has more rows than are tested at once, so that some
// that pass wait for those of the next step: a part of the rows, or all.
TEST(NeuronFfn, PiecesTestedInSeveralSteps) {
  for (const Activation activation : {Activation::kRelu, Activation::kSilu}) {
    SCOPED_TRACE(NameOf(activation));
    constexpr size_t kNeurons = 9000;
    // The streams of 512 rows of 96 bytes begin at the same place of a page,
    // and with up to three groups of rows more they would not.
    for (const auto& [width, dtype] :
         {std::pair(256, DType::kQ4_0), std::pair(24, DType::kF32)}) {
      RandomFfn ffn(static_cast<size_t>(width), kNeurons, dtype);
      ffn.config.layers[0].ffn.activation = activation;
      ffn.Bundle(/*with_gate=*/false);
      const std::vector<uint32_t> all = Every(1, 0, kNeurons);
      const auto listed = ffn.RunShared(all, 2, 2);
      ffn.listed = Listed::kAll;
      for (const int num_threads : {1, 2, 3}) {
        EXPECT_EQ(ffn.RunShared(all, 2, num_threads), listed);
      }
    }
  }
}

TEST(NeuronFfn, EveryTypeBundledOrNot) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0,
                            DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
    SCOPED_TRACE(NameOf(dtype));
    RandomFfn ffn(256, 300, dtype);
    const std::vector<std::vector<uint32_t>> lists = {Every(1, 0, 300),
                                                      Every(2, 0, 300)};
    const auto expected = ffn.Expected(lists);
    const auto apart = ffn.Run(lists, 2);
    EXPECT_LE(testing::Nmse(apart, std::span<const double>(expected)),
              IsFloat(dtype) ? 1e-11 : 1e-3);
    ffn.Bundle();
    EXPECT_EQ(ffn.Run(lists, 2), apart);
    RandomFfn ungated(256, 300, dtype);
    ungated.RemoveGate();
    EXPECT_LE(testing::Nmse(ungated.Run(lists, 2),
                            std::span<const double>(ungated.Expected(lists))),
              IsFloat(dtype) ? 1e-11 : 1e-3);
  }
}

// Inputs are rounded for those matrices alone that are in blocks.
TEST(NeuronFfn, TypesOfGateAndUpThatDiffer) {
  const RandomFfn coarse(256, 300, DType::kQ8_0);
  const std::vector<std::vector<uint32_t>> lists = {Every(1, 0, 300),
                                                    Every(2, 0, 300)};
  for (const bool has_coarse_gate : {true, false}) {
    SCOPED_TRACE(has_coarse_gate);
    RandomFfn ffn(256, 300, DType::kF32);
    (has_coarse_gate ? ffn.weights.gate : ffn.weights.up) =
        has_coarse_gate ? coarse.weights.gate : coarse.weights.up;
    EXPECT_LE(testing::Nmse(ffn.Run(lists, 2),
                            std::span<const double>(ffn.Expected(lists))),
              1e-3);
  }
}

void ExpectSameBits(RandomFfn& ffn,
                    const std::vector<std::vector<uint32_t>>& lists,
                    kernels::Isa isa) {
  const std::vector<float> together = ffn.Run(lists, 1, isa);
  for (const int num_threads : {2, 3, 7}) {
    EXPECT_EQ(ffn.Run(lists, num_threads, isa), together);
  }
  const std::vector<float> inputs = ffn.x;
  for (size_t t = 0; t < lists.size(); ++t) {
    std::copy_n(inputs.data() + t * ffn.width, ffn.width, ffn.x.data());
    const auto alone = ffn.Run({lists[t]}, 2, isa);
    EXPECT_TRUE(std::ranges::equal(
        alone, std::span(together).subspan(t * ffn.width, ffn.width)))
        << t;
  }
  ffn.x = inputs;
}

// The bits depend neither on the threads nor on the other tokens.
TEST(NeuronFfn, SameBitsForEveryThreadCountAndGroup) {
  for (const DType dtype : {DType::kF16, DType::kQ4_0}) {
    for (const kernels::Isa isa : kernels::SupportedIsas()) {
      SCOPED_TRACE(std::string(NameOf(dtype)) + " " +
                   std::string(kernels::NameOf(isa)));
      // Records of 4 to 9 KiB and up to 20 pieces.
      RandomFfn ffn(1536, 290, dtype);
      ffn.listed = Listed::kCandidates;
      std::vector<std::vector<uint32_t>> lists;
      for (size_t t = 0; t < 8; ++t) lists.push_back(Every(t / 2 + 1, t, 290));
      ExpectSameBits(ffn, lists, isa);
      ffn.listed = Listed::kAll;
      ExpectSameBits(ffn, {8, Every(1, 0, 290)}, isa);
    }
  }
}

TEST(NeuronFfn, TokensThatShareAListGetTheSameBits) {
  for (const DType dtype : {DType::kF32, DType::kQ8_0}) {
    RandomFfn ffn(1536, 290, dtype);
    const std::vector<uint32_t> list = Every(1, 0, 290);
    const auto apart = ffn.Run(std::vector<std::vector<uint32_t>>(8, list), 2);
    EXPECT_EQ(ffn.RunShared(list, 8, 3), apart);
    EXPECT_GT(ffn.Fired(7).size(), 100u);
    EXPECT_LT(ffn.Fired(7).size(), 200u);
  }
}

TEST(NeuronFfn, TermsComeInTheOrderOfTheList) {
  RandomFfn ffn(32, 64, DType::kF32);
  std::vector<uint32_t> list = Every(1, 0, 64);
  const auto ascending = ffn.Run({list}, 2);
  const auto fired = ffn.Fired(0);
  std::ranges::reverse(list);
  const auto descending = ffn.Run({list}, 2);
  EXPECT_NE(descending, ascending);
  EXPECT_EQ(ffn.Fired(0), fired);
  EXPECT_LE(testing::Nmse(descending, std::span<const float>(ascending)),
            1e-12);
}

// Wherever records lie, in whatever order pieces come, on any thread.
void ExpectSameBitsFromSlots(RandomFfn& ffn,
                             const std::vector<std::vector<uint32_t>>& lists) {
  ffn.slots.reset();
  const std::vector<float> expected = ffn.Run(lists, 2);
  const std::vector<size_t> fired = ffn.Fired(0);
  for (const bool with_gate : {true, false}) {
    for (const int num_threads : {1, 2, 5}) {
      SCOPED_TRACE(fmt::format("{} threads{}", num_threads,
                               with_gate ? "" : ", gates a matrix"));
      ffn.slots = {.seed = static_cast<uint64_t>(num_threads),
                   .with_gate = with_gate};
      EXPECT_EQ(ffn.Run(lists, num_threads), expected);
      EXPECT_TRUE(ffn.status);
      EXPECT_EQ(ffn.Fired(0), fired);
    }
  }
}

TEST(NeuronFfn, ANeuronsPlaceChangesNoBit) {
  for (const DType dtype : {DType::kF16, DType::kQ4_0}) {
    for (const bool gated : {true, false}) {
      SCOPED_TRACE(fmt::format("{}{}", NameOf(dtype), gated ? ", gated" : ""));
      RandomFfn ffn(1536, 290, dtype);
      ffn.AddBiases();
      if (!gated) ffn.RemoveGate();
      ExpectSameBitsFromSlots(ffn, {3, Every(1, 0, 290)});
      ffn.listed = Listed::kAll;
      ExpectSameBitsFromSlots(ffn, {3, Every(1, 0, 290)});
      ffn.listed = Listed::kCandidates;
      ExpectSameBitsFromSlots(ffn, {Every(3, 1, 290),
                                    Every(2, 0, 290),
                                    {},
                                    {289},
                                    Every(1, 100, 250),
                                    Every(1, 100, 250)});
      ffn.rest_below = kNothingRests;
      ExpectSameBitsFromSlots(ffn, {2, Every(1, 0, 290)});
    }
  }
}

TEST(NeuronFfn, ARecordThatCannotBeReadEndsTheRun) {
  RandomFfn ffn(1536, 290, DType::kF16);
  const std::vector<std::vector<uint32_t>> lists = {Every(2, 0, 290),
                                                    Every(3, 0, 290)};
  testing::ReadFaults faults;
  ffn.slots = {.faults = &faults};
  for (const int num_threads : {1, 3}) {
    for (const int64_t num_reads : {0, 1, 100, 190}) {
      faults.num_reads_before = num_reads;
      ffn.Run(lists, num_threads);
      ASSERT_FALSE(ffn.status);
      EXPECT_EQ(ffn.status.error().code, ErrorCode::kIo);
    }
  }
}

// Neurons of one input: gate i is gates[i] * x, up i is ups[i] * x.
class SmallFfn {
 public:
  SmallFfn(const std::vector<float>& gates, const std::vector<float>& ups)
      : gate_(DType::kF32, gates, 1),
        up_(DType::kF32, ups, 1),
        down_(DType::kF32, std::vector<float>(ups.size(), 1.0f), ups.size()),
        config_(ReluConfig(1, ups.size())),
        fixture_(
            config_,
            {.batch = 2, .context = 1, .num_threads = 2, .is_sparse = true}) {
    weights.gate = gate_.view();
    weights.up = up_.view();
    weights.down = down_.view();  // so that the hidden vector is left
  }
  model::FfnSpec& config() { return config_.layers[0].ffn; }

  // The hidden vectors of x = 1 and x = -1.
  std::vector<std::vector<float>> Run(const std::vector<uint32_t>& first,
                                      const std::vector<uint32_t>& second,
                                      float rest_below = 0.0f) {
    const Scratch& scratch = fixture_.scratch();
    scratch.normed.row(0)[0] = 1.0f;
    scratch.normed.row(1)[0] = -1.0f;
    const auto records = MakeMappedStore(weights);
    NeuronFfn ffn(&config_.layers[0].ffn, &weights, records.get(),
                  Listed::kCandidates, rest_below, &fixture_.compute(),
                  &scratch.ffn[0], &board_);
    const std::vector<NeuronList> lists = {{first.data(), first.size()},
                                           {second.data(), second.size()}};
    EXPECT_TRUE(
        ffn.Run(scratch.normed, lists, scratch.ffn[0].up, scratch.delta));
    num_open = {ffn.num_open(0), ffn.num_open(1)};
    const auto row = [&](size_t t) {
      const auto span = scratch.ffn[0].up.span(t);
      return std::vector<float>(span.begin(), span.end());
    };
    return {row(0), row(1)};
  }

  model::FfnWeights weights;
  std::vector<size_t> num_open;

 private:
  OwnedTensor gate_, up_, down_;
  model::Config config_;
  ComputeFixture fixture_;
  PieceResults board_;
};

TEST(NeuronFfn, GateThenUp) {
  SmallFfn ffn({1, 2, -3, 4, 5}, {10, 20, 30, 0, kNaN});
  // The NaN in up is not looked at: neuron 4 is not listed for the first
  // token, and its gate is closed for the second.
  auto hidden = ffn.Run({0, 1, 2, 3}, {0, 1, 2, 3, 4});
  EXPECT_THAT(hidden[0], ElementsAre(10, 40, 0, 0, 0));
  EXPECT_THAT(hidden[1], ElementsAre(0, 0, -90, 0, 0));
  EXPECT_THAT(ffn.num_open, ElementsAre(3, 1));
  ffn.config().activation = Activation::kDRelu;
  hidden = ffn.Run({0, 1, 2, 3}, {0, 1, 2, 3});
  EXPECT_THAT(hidden[0], ElementsAre(10, 40, 0, 0, 0));
  EXPECT_THAT(hidden[1], ElementsAre(0, 0, 0, 0, 0));
}

TEST(NeuronFfn, DamageInAGateIsNotDropped) {
  SmallFfn ffn({1, kNaN}, {1, 1});
  const auto hidden = ffn.Run({0, 1}, {1}, 100.0f);
  EXPECT_TRUE(std::isnan(hidden[0][1]));
  EXPECT_TRUE(std::isnan(hidden[1][1]));
  EXPECT_EQ(hidden[0][0], 0.0f);
}

TEST(NeuronFfn, BiasesOfListedNeuronsOnly) {
  SmallFfn ffn({1, 1, 1}, {1, 1, 1});
  const OwnedTensor gate_bias(DType::kF32, std::vector<float>{0, -1, 5}, 3);
  const OwnedTensor up_bias(DType::kF32, std::vector<float>{7, 7, 0.5f}, 3);
  ffn.weights.gate_bias = gate_bias.view();
  ffn.weights.up_bias = up_bias.view();
  auto hidden = ffn.Run({0, 1, 2}, {0, 2});
  EXPECT_THAT(hidden[0], ElementsAre(8, 0, 9));
  EXPECT_THAT(hidden[1], ElementsAre(0, 0, -2));
  ffn.config().gated = false;
  hidden = ffn.Run({1, 2}, {2});
  EXPECT_THAT(hidden[0], ElementsAre(0, 8, 1.5f));
  EXPECT_THAT(hidden[1], ElementsAre(0, 0, 0));
}

TEST(NeuronFfn, BelowTheThresholdIsAtRest) {
  SmallFfn ffn({1, -1, 0.1f, 3}, {1, 1, 1, 1});
  ffn.config().activation = Activation::kSilu;
  // silu(1) = 0.73, silu(-1) = -0.27, silu(0.1) = 0.05, silu(3) = 2.86
  const auto hidden = ffn.Run({0, 1, 2, 3}, {}, 0.25f);
  EXPECT_NEAR(hidden[0][0], 0.731f, 1e-3);
  EXPECT_NEAR(hidden[0][1], -0.269f, 1e-3);
  EXPECT_EQ(hidden[0][2], 0.0f);
  EXPECT_NEAR(hidden[0][3], 2.858f, 1e-3);
  EXPECT_THAT(ffn.Run({0, 1, 2, 3}, {}, 10.0f)[0], ElementsAre(0, 0, 0, 0));
  // The threshold itself is not below it.
  ffn.config().activation = Activation::kRelu;
  EXPECT_THAT(ffn.Run({0, 1, 2, 3}, {}, 3.0f)[0], ElementsAre(0, 0, 0, 3));
}

TEST(NeuronFfn, BytesAreThoseOfTheRows) {
  RandomFfn ffn(64, 100, DType::kF16);
  ffn.Run({Every(1, 0, 10)}, 1);
  EXPECT_EQ(ffn.ffn().BytesRead(10, 3), 10u * 128 + 3 * 2 * 128);
  ffn.RemoveGate();
  ffn.Run({Every(1, 0, 10)}, 1);
  EXPECT_EQ(ffn.ffn().BytesRead(10, 3), 10u * 128 + 3 * 128);
}

}  // namespace
}  // namespace thermocline::engine
