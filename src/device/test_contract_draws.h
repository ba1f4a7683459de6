// Operations of shapes, types and values from a seed, against sums in double,
// for every device: see test_contract.h. TC_DEVICE_DRAWS of them, from
// TC_DEVICE_SEED on.
#ifndef THERMOCLINE_DEVICE_TEST_CONTRACT_DRAWS_H_
#define THERMOCLINE_DEVICE_TEST_CONTRACT_DRAWS_H_

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "device/test_contract.h"
#include "device/test_contract_kv.h"
#include "device/test_contract_ops.h"
#include "device/test_contract_sets.h"

namespace thermocline::device {

class DeviceDrawsContract : public DeviceContract {
 protected:
  uint32_t From(uint32_t least, uint32_t most) {
    return least + static_cast<uint32_t>(random_.Below(most - least + 1));
  }
  bool Coin() { return random_.Below(2) == 0; }
  template <typename Values>
  auto OneOf(const Values& values) {
    return values[random_.Below(std::size(values))];
  }

  void DrawNorm() {
    const auto kind = Coin() ? NormKind::kRms : NormKind::kLayer;
    const size_t n = From(8, 3000), num_rows = From(1, 40);
    const auto x = kernels::RandomFloats(num_rows * n, random_.Next());
    const auto weight = kernels::RandomFloats(n, random_.Next());
    float* out = on_.Room<float>(num_rows * n);
    on_.Run(kernels::NormArgs{.kind = kind,
                              .epsilon = 1e-5f,
                              .num_rows = static_cast<uint32_t>(num_rows),
                              .n = static_cast<uint32_t>(n),
                              .x = on_.Put(x),
                              .weight = on_.Put(weight),
                              .out = out});
    EXPECT_LT(
        Nmse(on_.Get(out, num_rows * n), NormsOf(kind, x, weight, nullptr)),
        kFloatNmse)
        << num_rows << " norms of " << n;
  }

  void DrawProduct() {
    const DType dtype = OneOf(TypesOf(device_));
    const size_t num_rows = From(8, 300), n = WidthOf(dtype, From(1, 1500));
    const size_t num_tokens = From(1, 8);
    const bool adds = Coin(), has_bias = Coin();
    GemvCase gemv(on_, dtype, num_rows, n);
    EXPECT_LT(Nmse(gemv.Run(0, num_tokens, adds, has_bias),
                   gemv.Want(num_tokens, adds, has_bias)),
              kFloatNmse)
        << NameOf(dtype) << " " << num_rows << " rows of " << n << " T "
        << num_tokens;
  }

  void DrawFfn() {
    const auto types = TypesOf(device_);
    const ActivationInfo info = OneOf(Activations());
    constexpr float kRests[] = {-1.0f, 0.0f, 0.3f};
    const FfnShape shape{.gate = OneOf(types),
                         .up = OneOf(types),
                         .down = OneOf(types),
                         .about = From(1, 300),
                         .num_neurons = From(1, 400),
                         .activation = info.activation,
                         .gated = info.needs_gate || Coin(),
                         .rest_below = OneOf(kRests),
                         .has_bias = Coin()};
    const double resident = random_.Uniform();
    FfnCase ffn(on_, shape, resident, random_.Next());
    const uint32_t num_tokens = From(1, 8);
    SCOPED_TRACE(testing::Message()
                 << info.name << (shape.gated ? " gated " : " plain ")
                 << NameOf(shape.gate) << " " << NameOf(shape.up) << " "
                 << NameOf(shape.down) << ", " << shape.num_neurons
                 << " neurons of " << ffn.n() << ", T " << num_tokens);
    ffn.Check(num_tokens, Coin(), MostFfnNmse(shape.down));
  }

  void DrawAttention() {
    const uint32_t num_kv_heads = From(1, 3), group = From(1, 6);
    const KvShape shape = {num_kv_heads * group, num_kv_heads, 8 * From(1, 16),
                           8 * From(1, 16)};
    const uint32_t num_tokens = From(1, 8), pages_each = From(1, 7);
    KvCase kv(on_, shape, num_tokens, pages_each);
    const auto q = kernels::RandomFloats(
        size_t{num_tokens} * shape.num_heads * shape.k_width, random_.Next(),
        2);
    std::vector<uint32_t> counts, first;
    for (uint32_t t = 0; t < num_tokens; ++t) {
      counts.push_back(From(1, pages_each * KvCase::kPage));
      first.push_back(From(0, counts[t] - 1));
    }
    const float cap = Coin() ? 1.5f : 0.0f;
    const bool has_window = Coin();
    std::vector<double> want;
    for (uint32_t t = 0; t < num_tokens; ++t) {
      for (uint32_t h = 0; h < shape.num_heads; ++h) {
        kv.Attend(t, h,
                  q.data() + (size_t{t} * shape.num_heads + h) * shape.k_width,
                  has_window ? first[t] : 0, counts[t], cap, want);
      }
    }
    const auto got = RunAttention(on_, kv, shape, q, counts,
                                  has_window ? first : std::vector<uint32_t>(),
                                  pages_each, 0, num_tokens, cap);
    EXPECT_LT(Nmse(got, want), group < 3 ? 1e-9 : 1e-4)
        << shape.num_heads << " heads of " << num_kv_heads << ", "
        << shape.k_width << " and " << shape.v_width << " wide, T "
        << num_tokens;
  }

  Random random_{0};
};

TEST_P(DeviceDrawsContract, EqualTheReference) {
  const uint64_t first_seed = NumberFrom("TC_DEVICE_SEED", 1);
  const uint64_t num_draws = NumberFrom("TC_DEVICE_DRAWS", 2);
  for (uint64_t seed = first_seed; seed < first_seed + num_draws; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    random_ = Random(seed);
    DrawNorm();
    DrawProduct();
    DrawFfn();
    DrawAttention();
    on_.FreeAll();
  }
}

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_TEST_CONTRACT_DRAWS_H_
