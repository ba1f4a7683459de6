// Appending to KV pages and attention over them, against sums in double, for
// every device: see test_contract.h.
#ifndef THERMOCLINE_DEVICE_TEST_CONTRACT_KV_H_
#define THERMOCLINE_DEVICE_TEST_CONTRACT_KV_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/test_contract.h"
#include "kernels/device_ops.h"
#include "tensor/float16.h"

namespace thermocline::device {

class DeviceKvContract : public DeviceContract {};

struct KvShape {
  uint32_t num_heads, num_kv_heads, k_width, v_width;
};

// Pages of two layers, the second of which is the case's, with random keys and
// values. Sequence t has its pages from t * pages_each on, in another order.
class KvCase {
 public:
  static constexpr uint32_t kPage = kernels::kDevicePage;

  KvCase(OnDevice& on, const KvShape& shape, uint32_t num_sequences,
         uint32_t pages_each)
      : on_(on), shape_(shape), pages_each_(pages_each) {
    const size_t k_bytes =
        size_t{2} * shape.num_kv_heads * kPage * shape.k_width;
    const size_t v_bytes =
        size_t{2} * shape.num_kv_heads * kPage * shape.v_width;
    const size_t layer_bytes = (k_bytes + v_bytes + 15) / 16 * 16;
    kv_ = {.page_bytes = 2 * layer_bytes,
           .k_offset = layer_bytes,
           .v_offset = layer_bytes + k_bytes,
           .num_kv_heads = shape.num_kv_heads,
           .k_width = shape.k_width,
           .v_width = shape.v_width};
    const uint32_t num_pages = num_sequences * pages_each;
    Random random(num_pages + shape.num_heads);
    halves_.resize(num_pages * kv_.page_bytes / 2);
    for (uint16_t& half : halves_) half = F32ToF16(random.Uniform(-1.0f, 1.0f));
    for (uint32_t i = 0; i < num_pages; ++i) {
      table_.push_back((i + 1) % num_pages);
    }
    kv_.pages = reinterpret_cast<std::byte*>(on.Put(halves_));
  }

  const kernels::DeviceKv& kv() const { return kv_; }
  const std::vector<uint32_t>& table() const { return table_; }
  uint32_t PlaceOf(uint32_t sequence, uint32_t position) const {
    return table_[sequence * pages_each_ + position / kPage] * kPage +
           position % kPage;
  }

  // Where element i of a position's key or value lies, in halves.
  size_t KeyAt(uint32_t place, uint32_t head, uint32_t i) const {
    return At(kv_.k_offset, kv_.k_width, place, head, i);
  }
  size_t ValueAt(uint32_t place, uint32_t head, uint32_t i) const {
    return At(kv_.v_offset, kv_.v_width, place, head, i);
  }
  const std::vector<uint16_t>& halves() const { return halves_; }
  std::vector<uint16_t> Get() {
    return on_.Get(reinterpret_cast<const uint16_t*>(kv_.pages),
                   halves_.size());
  }

  // One head's output for a row, in double.
  void Attend(uint32_t row, uint32_t head, const float* q, uint32_t first,
              uint32_t count, double cap, std::vector<double>& out) const {
    const uint32_t kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
    std::vector<double> scores;
    for (uint32_t p = first; p < count; ++p) {
      double dot = 0.0;
      for (uint32_t i = 0; i < kv_.k_width; ++i) {
        dot += double{q[i]} *
               F16ToF32(halves_[KeyAt(PlaceOf(row, p), kv_head, i)]);
      }
      dot *= kScale;
      scores.push_back(cap > 0.0 ? cap * std::tanh(dot / cap) : dot);
    }
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (double& score : scores) sum += score = std::exp(score - max);
    for (uint32_t i = 0; i < kv_.v_width; ++i) {
      double value = 0.0;
      for (uint32_t p = first; p < count; ++p) {
        value += scores[p - first] *
                 F16ToF32(halves_[ValueAt(PlaceOf(row, p), kv_head, i)]);
      }
      out.push_back(value / sum);
    }
  }

  static constexpr float kScale = 0.7f;

 private:
  size_t At(size_t offset, uint32_t width, uint32_t place, uint32_t head,
            uint32_t i) const {
    return place / kPage * kv_.page_bytes / 2 + offset / 2 +
           (size_t{head} * kPage + place % kPage) * width + i;
  }

  OnDevice& on_;
  KvShape shape_;
  uint32_t pages_each_;
  kernels::DeviceKv kv_;
  std::vector<uint16_t> halves_;
  std::vector<uint32_t> table_;
};

TEST_P(DeviceKvContract, AppendsToTheirPlacesAlone) {
  for (uint32_t num_tokens = 1; num_tokens <= 8; num_tokens += token_step_) {
    KvCase kv(on_, {6, 3, 16, 8}, num_tokens, 2);
    auto k = kernels::RandomFloats(num_tokens * 48, 1, 100);
    auto v = kernels::RandomFloats(num_tokens * 24, 2, 100);
    // What F16 cannot hold shows.
    k[1] = 1e6f;
    v[2] = std::numeric_limits<float>::infinity();
    v[3] = 65519.0f;  // rounds to the largest
    auto want = kv.halves();
    std::vector<uint32_t> places;
    const auto half = [](float value) {
      const uint16_t rounded = F32ToF16(value);
      return std::isfinite(F16ToF32(rounded)) ? rounded : uint16_t{0x7fff};
    };
    for (uint32_t t = 0; t < num_tokens; ++t) {
      places.push_back(kv.PlaceOf(t, 11 * t + 1));
      for (uint32_t i = 0; i < 48; ++i) {
        want[kv.KeyAt(places[t], i / 16, i % 16)] = half(k[t * 48 + i]);
      }
      for (uint32_t i = 0; i < 24; ++i) {
        want[kv.ValueAt(places[t], i / 8, i % 8)] = half(v[t * 24 + i]);
      }
    }
    on_.Run(kernels::KvAppendArgs{.kv = kv.kv(),
                                  .num_tokens = num_tokens,
                                  .places = on_.Put(places),
                                  .k = on_.Put(k),
                                  .v = on_.Put(v)});
    const auto got = kv.Get();
    for (size_t i = 0; i < want.size(); ++i) {
      const float expected = F16ToF32(want[i]), there = F16ToF32(got[i]);
      if (std::isnan(expected) && std::isnan(there)) continue;
      ASSERT_EQ(got[i], want[i]) << "T " << num_tokens << " at " << i;
    }
  }
}

// Rows of the case from first_row on.
inline std::vector<float> RunAttention(OnDevice& on, const KvCase& kv,
                                       const KvShape& shape,
                                       const std::vector<float>& q,
                                       const std::vector<uint32_t>& counts,
                                       const std::vector<uint32_t>& first,
                                       uint32_t stride, uint32_t first_row,
                                       uint32_t num_tokens, float cap) {
  const auto from = [&](const auto& values, size_t each) {
    using Values = std::remove_cvref_t<decltype(values)>;
    return Values(values.begin() + first_row * each,
                  values.begin() + (first_row + num_tokens) * each);
  };
  const auto seen = from(counts, 1);
  const uint32_t max = *std::max_element(seen.begin(), seen.end());
  const size_t out_floats =
      size_t{num_tokens} * shape.num_heads * shape.v_width;
  float* out = on.Room<float>(out_floats);
  on.Run(kernels::DecodeAttentionArgs{
      .kv = kv.kv(),
      .num_tokens = num_tokens,
      .num_heads = shape.num_heads,
      .scale = KvCase::kScale,
      .logit_cap = cap,
      .max_positions = max,
      .q = on.Put(from(q, shape.num_heads * shape.k_width)),
      .page_table = on.Put(from(kv.table(), stride)),
      .table_stride = stride,
      .counts = on.Put(seen),
      .first = first.empty() ? nullptr : on.Put(from(first, 1)),
      .out = out,
      .partials = on.Room<float>(kernels::DecodePartialFloats(
          num_tokens, shape.num_heads, shape.v_width, max))});
  return on.Get(out, out_floats);
}

TEST_P(DeviceKvContract, AttendsOverPages) {
  constexpr KvShape kShapes[] = {
      {1, 1, 64, 64}, {4, 2, 40, 24}, {8, 1, 128, 128}, {71, 1, 8, 8}};
  constexpr uint32_t kPagesEach = 10;  // 640 positions: three pieces
  for (const KvShape& shape : kShapes) {
    KvCase kv(on_, shape, 8, kPagesEach);
    const auto q = kernels::RandomFloats(
        size_t{8} * shape.num_heads * shape.k_width, 9, 2);
    const std::vector<uint32_t> counts = {1, 64, 65, 256, 257, 500, 512, 640};
    const std::vector<uint32_t> first = {0, 63, 0, 255, 256, 300, 63, 511};
    // All of 1 to 8 where the reference is cheap.
    const uint32_t step = shape.num_heads < 6 ? token_step_ : 7;
    for (uint32_t num_tokens = 1; num_tokens <= 8; num_tokens += step) {
      const bool has_window = num_tokens % 2 == 0;
      const float cap = num_tokens % 3 == 0 ? 1.5f : 0.0f;
      std::vector<double> want;
      for (uint32_t t = 0; t < num_tokens; ++t) {
        for (uint32_t h = 0; h < shape.num_heads; ++h) {
          kv.Attend(
              t, h,
              q.data() + (size_t{t} * shape.num_heads + h) * shape.k_width,
              has_window ? first[t] : 0, counts[t], cap, want);
        }
      }
      const auto window = has_window ? first : std::vector<uint32_t>();
      const auto got = RunAttention(on_, kv, shape, q, counts, window,
                                    kPagesEach, 0, num_tokens, cap);
      // Kernels may round queries and weights where many heads share keys.
      EXPECT_LT(Nmse(got, want), shape.num_heads < 6 ? 1e-9 : 1e-4)
          << shape.num_heads << " heads, T " << num_tokens;
    }
  }
}

TEST_P(DeviceKvContract, ARowsAttentionDoesNotDependOnOthers) {
  constexpr KvShape kShape = {4, 2, 64, 64};
  KvCase kv(on_, kShape, 8, 10);
  const auto q = kernels::RandomFloats(size_t{8} * 4 * 64, 9, 2);
  const std::vector<uint32_t> counts = {640, 1, 65, 256, 257, 500, 512, 3};
  const auto together =
      RunAttention(on_, kv, kShape, q, counts, {}, 10, 0, 8, 0.0f);
  for (uint32_t t = 0; t < 8; ++t) {
    const std::vector<float> row(together.begin() + t * 256,
                                 together.begin() + (t + 1) * 256);
    EXPECT_TRUE(kernels::SameBits(
        row, RunAttention(on_, kv, kShape, q, counts, {}, 10, t, 1, 0.0f)))
        << t;
  }
}

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_TEST_CONTRACT_KV_H_
