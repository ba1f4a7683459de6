// The predictor and the sparse FFN, against sums in double, for every device:
// see test_contract.h.
#ifndef THERMOCLINE_DEVICE_TEST_CONTRACT_SETS_H_
#define THERMOCLINE_DEVICE_TEST_CONTRACT_SETS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/test_contract.h"
#include "kernels/device_ops.h"
#include "kernels/testing.h"

namespace thermocline::device {

class DeviceSetsContract : public DeviceContract {};

inline bool InSet(const std::vector<uint32_t>& words, size_t row, size_t count,
                  size_t i) {
  return (words[row * kernels::DeviceSetWords(count) + i / 32] >> (i % 32) &
          1) != 0;
}

// Bits behind the last neuron of each row are 0.
inline void ExpectNoMoreThan(const std::vector<uint32_t>& words,
                             size_t num_rows, size_t count) {
  const size_t num_words = kernels::DeviceSetWords(count);
  for (size_t t = 0; t < num_rows && count % 32 != 0; ++t) {
    EXPECT_EQ(words[(t + 1) * num_words - 1] >> (count % 32), 0u);
  }
}

// Of the first `count` rows with x, what a bias adds included; it may be null.
inline std::vector<double> ProductsOf(DType dtype,
                                      const kernels::WeightRows& rows,
                                      size_t count, size_t n, const double* x,
                                      const float* bias) {
  std::vector<double> products(count);
  for (size_t i = 0; i < count; ++i) {
    products[i] = DotOf(RowValues(dtype, rows.row(i), n), x) +
                  (bias != nullptr ? bias[i] : 0.0f);
  }
  return products;
}

inline std::vector<float> ReluOf(const std::vector<double>& values) {
  std::vector<float> relu;
  for (const double value : values) {
    relu.push_back(std::max(0.0f, static_cast<float>(value)));
  }
  return relu;
}

inline constexpr size_t kSetNeurons = 301;
inline constexpr float kSetThreshold = 0.125f;

// The row's set is of those that reach kSetThreshold. Near it, rounding of the
// hidden row may go either way.
inline void ExpectSet(DType dtype, const std::vector<uint32_t>& words,
                      size_t row, const std::vector<double>& scores) {
  size_t num_near = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::abs(scores[i] - kSetThreshold) < 1e-2) {
      ++num_near;
      continue;
    }
    EXPECT_EQ(InSet(words, row, scores.size(), i), scores[i] >= kSetThreshold)
        << NameOf(dtype) << " row " << row << " neuron " << i;
  }
  EXPECT_LT(num_near, scores.size() / 4);
}

TEST_P(DeviceSetsContract, PredictsSets) {
  for (const DType dtype : TypesOf(device_)) {
    const size_t n = WidthOf(dtype, 65), rank = WidthOf(dtype, 20);
    const kernels::WeightRows up(dtype, rank, n, 0, 1);
    const kernels::WeightRows down(dtype, kSetNeurons, rank, 0, 2);
    const auto x = kernels::RandomFloats(8 * n, 3);
    const auto up_bias = kernels::RandomFloats(rank, 4);
    const auto down_bias = kernels::RandomFloats(kSetNeurons, 5);
    const auto seen = SeenBy(dtype, x, 8, n);
    for (uint32_t num_tokens = 1; num_tokens <= 8; num_tokens += token_step_) {
      const bool has_bias = num_tokens % 2 == 0;
      const size_t num_words =
          num_tokens * kernels::DeviceSetWords(kSetNeurons);
      auto* sets = on_.Room<uint32_t>(num_words);
      on_.Run(kernels::PredictArgs{
          .up = on_.PutMatrix(dtype, up, rank, n),
          .down = on_.PutMatrix(dtype, down, kSetNeurons, rank),
          .up_bias = has_bias ? on_.Put(up_bias) : nullptr,
          .down_bias = has_bias ? on_.Put(down_bias) : nullptr,
          .threshold = kSetThreshold,
          .num_tokens = num_tokens,
          .x = on_.Put(x),
          .hidden = on_.Room<float>(num_tokens * rank),
          .scratch = on_.Room<std::byte>(
              kernels::QuantizedRowsBytes(std::max(n, rank), num_tokens)),
          .sets = sets});
      const auto got = on_.Get(sets, num_words);
      ExpectNoMoreThan(got, num_tokens, kSetNeurons);
      for (uint32_t t = 0; t < num_tokens; ++t) {
        const auto hidden =
            ReluOf(ProductsOf(dtype, up, rank, n, seen.data() + t * n,
                              has_bias ? up_bias.data() : nullptr));
        const auto scores = ProductsOf(dtype, down, kSetNeurons, rank,
                                       SeenBy(dtype, hidden, 1, rank).data(),
                                       has_bias ? down_bias.data() : nullptr);
        ExpectSet(dtype, got, t, scores);
      }
    }
  }
}

struct FfnShape {
  DType gate, up, down;
  size_t about;
  size_t num_neurons;
  Activation activation = Activation::kRelu;
  bool gated = true;
  float rest_below = 0.0f;
  bool has_bias = false;
};

inline DType WithLargestBlock(const FfnShape& shape) {
  return std::max({shape.gate, shape.up, shape.down}, [](DType a, DType b) {
    return InfoOf(a).block_elems < InfoOf(b).block_elems;
  });
}

// A layer whose resident part is drawn, and what it comes to.
class FfnCase {
 public:
  FfnCase(OnDevice& on, const FfnShape& shape, double resident, uint64_t seed)
      : on_(on),
        shape_(shape),
        n_(WidthOf(WithLargestBlock(shape), shape.about)),
        gate_(shape.gate, shape.num_neurons, n_, 0, seed),
        up_(shape.up, shape.num_neurons, n_, 0, seed + 1),
        down_(shape.down, shape.num_neurons, n_, 0, seed + 2),
        gate_bias_(kernels::RandomFloats(shape.num_neurons, seed + 3)),
        up_bias_(kernels::RandomFloats(shape.num_neurons, seed + 4)),
        x_(kernels::RandomFloats(8 * n_, seed + 5)) {
    Random random(seed);
    for (size_t i = 0; i < shape.num_neurons; ++i) {
      slot_of_.push_back(random.Uniform() < resident ? num_slots_++ : -1);
    }
    // Slots are not in the neurons' order.
    for (int32_t& slot : slot_of_) {
      if (slot >= 0) slot = num_slots_ - 1 - slot;
    }
    sets_.resize(8 * kernels::DeviceSetWords(shape.num_neurons));
    for (uint32_t& word : sets_) {
      word = static_cast<uint32_t>(random.Next() & random.Next());
    }
    std::fill_n(sets_.begin(), sets_.size() / 8, 0u);  // row 0 wants nobody
    PutRecords();
  }

  size_t n() const { return n_; }
  const std::vector<int32_t>& slot_of() const { return slot_of_; }

  struct Output {
    std::vector<float> out;
    std::vector<uint32_t> fired;
    uint32_t num_listed;
  };

  kernels::SparseFfnArgs Args(uint32_t first_row, uint32_t num_tokens,
                              bool has_sets) {
    const size_t words = kernels::DeviceSetWords(shape_.num_neurons);
    const auto slots = static_cast<uint32_t>(num_slots_);
    return {.activation = shape_.activation,
            .threshold = 0.25f,
            .rest_below = shape_.rest_below,
            .n = static_cast<uint32_t>(n_),
            .num_neurons = static_cast<uint32_t>(shape_.num_neurons),
            .num_slots = slots,
            .num_tokens = num_tokens,
            .x = on_.Put(Part(x_, n_, first_row, num_tokens)),
            .sets = has_sets
                        ? on_.Put(Part(sets_, words, first_row, num_tokens))
                        : nullptr,
            .slot_of = on_.Put(slot_of_),
            .records = records_,
            .record_bytes = record_bytes_,
            .gated = shape_.gated,
            .gate_dtype = shape_.gate,
            .up_dtype = shape_.up,
            .down_dtype = shape_.down,
            .up_offset = up_offset_,
            .down_offset = down_offset_,
            .gate_bias = shape_.has_bias ? on_.Put(gate_bias_) : nullptr,
            .up_bias = shape_.has_bias ? on_.Put(up_bias_) : nullptr,
            .out = on_.Room<float>(num_tokens * n_),
            .fired = on_.Room<uint32_t>(num_tokens * words),
            .num_listed = on_.Room<uint32_t>(1),
            .scratch = on_.Room<std::byte>(
                kernels::SparseFfnScratchBytes(n_, slots, num_tokens))};
  }

  Output Run(uint32_t first_row, uint32_t num_tokens, bool has_sets) {
    const auto args = Args(first_row, num_tokens, has_sets);
    on_.Run(args);
    const size_t words = kernels::DeviceSetWords(shape_.num_neurons);
    return {.out = on_.Get(args.out, num_tokens * n_),
            .fired = on_.Get(args.fired, num_tokens * words),
            .num_listed = on_.Get(args.num_listed, 1)[0]};
  }

  // A hidden element in double; 0 where it rests.
  double Hidden(size_t t, size_t i) const {
    const double up =
        Product(shape_.up, up_, t, i) + (shape_.has_bias ? up_bias_[i] : 0.0f);
    const double tested = shape_.gated
                              ? Product(shape_.gate, gate_, t, i) +
                                    (shape_.has_bias ? gate_bias_[i] : 0.0f)
                              : up;
    const double f = ActivationOf(shape_.activation, 0.25, tested);
    const bool rests =
        shape_.rest_below >= 0 && (f == 0 || std::abs(f) < shape_.rest_below);
    if (rests) return 0.0;
    return shape_.gated ? GatedOf(shape_.activation, 0.25, tested, up) : f;
  }

  bool Wants(size_t t, size_t i, bool has_sets) const {
    return !has_sets || InSet(sets_, t, shape_.num_neurons, i);
  }

  void Check(uint32_t num_tokens, bool has_sets, double most_nmse) {
    const Output got = Run(0, num_tokens, has_sets);
    ExpectNoMoreThan(got.fired, num_tokens, shape_.num_neurons);
    std::vector<double> want(num_tokens * n_, 0.0);
    uint32_t num_listed = 0;
    for (size_t i = 0; i < shape_.num_neurons; ++i) {
      const auto down = RowValues(shape_.down, down_.row(i), n_);
      bool is_listed = false;
      for (size_t t = 0; t < num_tokens; ++t) {
        const bool is_in = slot_of_[i] >= 0 && Wants(t, i, has_sets);
        is_listed |= is_in;
        const double h = is_in ? Hidden(t, i) : 0.0;
        // Which side of 0 a sum falls on is rounding's, and so is where the end
        // of a smooth activation becomes 0.
        const bool is_end =
            is_in && shape_.rest_below <= 0.0f && !HasZeros(shape_.activation);
        if ((h == 0.0 && !is_end) || std::abs(h) > 1e-4) {
          EXPECT_EQ(InSet(got.fired, t, shape_.num_neurons, i), h != 0.0)
              << "row " << t << " neuron " << i;
        }
        for (size_t c = 0; c < n_; ++c) want[t * n_ + c] += h * down[c];
      }
      num_listed += is_listed ? 1 : 0;
    }
    EXPECT_EQ(got.num_listed, num_listed);
    EXPECT_LT(Nmse(got.out, want), most_nmse);
  }

 private:
  template <typename T>
  static std::vector<T> Part(const std::vector<T>& rows, size_t width,
                             size_t first, size_t count) {
    return {rows.begin() + first * width,
            rows.begin() + (first + count) * width};
  }

  double Product(DType dtype, const kernels::WeightRows& rows, size_t t,
                 size_t i) const {
    const std::vector<float> x(x_.begin() + t * n_, x_.begin() + (t + 1) * n_);
    return DotOf(RowValues(dtype, rows.row(i), n_),
                 SeenBy(dtype, x, 1, n_).data());
  }

  void PutRecords() {
    const RowLayout& layout = on_.device().layout();
    up_offset_ = shape_.gated ? layout.RowBytes(shape_.gate, n_) : 0;
    down_offset_ = up_offset_ + layout.RowBytes(shape_.up, n_);
    record_bytes_ = down_offset_ + layout.RowBytes(shape_.down, n_) + 16;
    // Nothing outside of rows is read: its bits are NaN.
    std::vector<std::byte> records(num_slots_ * record_bytes_, std::byte{0xff});
    for (size_t i = 0; i < slot_of_.size(); ++i) {
      if (slot_of_[i] < 0) continue;
      std::byte* record = records.data() + slot_of_[i] * record_bytes_;
      if (shape_.gated) layout.Pack(shape_.gate, gate_.row(i), n_, record);
      layout.Pack(shape_.up, up_.row(i), n_, record + up_offset_);
      layout.Pack(shape_.down, down_.row(i), n_, record + down_offset_);
    }
    records_ = on_.Put(records);
  }

  OnDevice& on_;
  FfnShape shape_;
  size_t n_;
  kernels::WeightRows gate_, up_, down_;
  std::vector<float> gate_bias_, up_bias_, x_;
  std::vector<int32_t> slot_of_;
  std::vector<uint32_t> sets_;
  int32_t num_slots_ = 0;
  size_t record_bytes_ = 0, up_offset_ = 0, down_offset_ = 0;
  const std::byte* records_ = nullptr;
};

// The host's kernels may round coefficients of Q4_0 and Q4_K to 8 bits.
inline double MostFfnNmse(DType down) {
  return down == DType::kQ4_0 || down == DType::kQ4_K ? 1e-4 : 1e-9;
}

TEST_P(DeviceSetsContract, SparseFfnOfEveryType) {
  for (const DType dtype : TypesOf(device_)) {
    for (const double resident : {0.0, 0.5, 1.0}) {
      const FfnShape shape{.gate = dtype,
                           .up = dtype,
                           .down = dtype,
                           .about = 65,
                           .num_neurons = 77};
      FfnCase ffn(on_, shape, resident, 11);
      for (const uint32_t num_tokens : {1u, 2u, 8u}) {
        SCOPED_TRACE(std::string(NameOf(dtype)) + " T " +
                     std::to_string(num_tokens));
        ffn.Check(num_tokens, num_tokens != 2, MostFfnNmse(dtype));
      }
    }
  }
}

TEST_P(DeviceSetsContract, SparseFfnOfEveryKind) {
  constexpr DType kF = DType::kF16;
  for (const ActivationInfo& info : Activations()) {
    for (const bool gated : {true, false}) {
      if (info.needs_gate && !gated) continue;
      for (const float rest_below : {-1.0f, 0.0f, 0.3f}) {
        const FfnShape shape{.gate = kF,
                             .up = kF,
                             .down = kF,
                             .about = 40,
                             .num_neurons = 64,
                             .activation = info.activation,
                             .gated = gated,
                             .rest_below = rest_below,
                             .has_bias = rest_below == 0.0f};
        FfnCase ffn(on_, shape, 0.7, 23);
        for (uint32_t num_tokens = 1; num_tokens <= 8;
             num_tokens += token_step_) {
          SCOPED_TRACE(std::string(info.name) + (gated ? " gated" : " plain") +
                       " T " + std::to_string(num_tokens));
          ffn.Check(num_tokens, true, MostFfnNmse(kF));
        }
      }
    }
  }
}

TEST_P(DeviceSetsContract, SparseFfnOfUnlikeTypesAndManyNeurons) {
  const auto types = TypesOf(device_);
  const auto has = [&](DType dtype) {
    return std::find(types.begin(), types.end(), dtype) != types.end();
  };
  if (!has(DType::kQ4_0) || !has(DType::kQ8_0)) return;
  const FfnShape shape{.gate = DType::kQ4_0,
                       .up = DType::kQ8_0,
                       .down = DType::kF16,
                       .about = 96,
                       .num_neurons = 1500};
  FfnCase ffn(on_, shape, 0.6, 31);
  ffn.Check(8, true, MostFfnNmse(DType::kF16));
}

TEST_P(DeviceSetsContract, ARowsFfnDoesNotDependOnOthers) {
  for (const DType dtype : TypesOf(device_)) {
    const FfnShape shape{.gate = dtype,
                         .up = dtype,
                         .down = dtype,
                         .about = 65,
                         .num_neurons = 150};
    FfnCase ffn(on_, shape, 0.8, 47);
    const auto together = ffn.Run(0, 8, true);
    EXPECT_TRUE(kernels::SameBits(together.out, ffn.Run(0, 8, true).out));
    const size_t n = ffn.n();
    for (uint32_t t = 0; t < 8; ++t) {
      const std::vector<float> row(together.out.begin() + t * n,
                                   together.out.begin() + (t + 1) * n);
      EXPECT_TRUE(kernels::SameBits(row, ffn.Run(t, 1, true).out))
          << NameOf(dtype) << " row " << t;
    }
  }
}

TEST_P(DeviceSetsContract, NaNShowsInASparseFfn) {
  const DType dtype = TypesOf(device_).front();
  const FfnShape shape{
      .gate = dtype, .up = dtype, .down = dtype, .about = 33, .num_neurons = 9};
  FfnCase ffn(on_, shape, 1.0, 3);
  const auto args = ffn.Args(0, 2, false);
  std::vector<float> x(2 * ffn.n(), 1.0f);
  x[ffn.n()] = std::numeric_limits<float>::quiet_NaN();
  on_.Write(const_cast<float*>(args.x), x);
  on_.Run(args);
  const auto got = on_.Get(args.out, 2 * ffn.n());
  EXPECT_TRUE(std::isfinite(got[0]));
  EXPECT_FALSE(std::isfinite(got[ffn.n()]));
}

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_TEST_CONTRACT_SETS_H_
