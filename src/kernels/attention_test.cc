// What attention of every table keeps whatever it computes with: pages anywhere
// in memory, a cap of the scores, windows. Known answers:
// ref/attention_test.cc.
#include <limits>
#include <numeric>

#include "base/random.h"
#include "kernels/kv_group.h"
#include "kernels/test_attention.h"
#include "kernels/testing.h"

namespace thermocline::kernels {
namespace {

struct KvCase {
  DType k_dtype, v_dtype;
  size_t num_tokens, num_heads, k_width, v_width, num_positions;
  KvOrder order = KvOrder::kRows;
  float logit_cap = 0;
  size_t window = 0;
};

std::string DescribeKv(const KvCase& c) {
  return std::string(NameOf(c.k_dtype)) + "/" + std::string(NameOf(c.v_dtype)) +
         (c.order == KvOrder::kGroups ? " groups" : " rows") + " tokens " +
         std::to_string(c.num_tokens) + " heads " +
         std::to_string(c.num_heads) + " widths " + std::to_string(c.k_width) +
         ", " + std::to_string(c.v_width) + " positions " +
         std::to_string(c.num_positions) + " window " +
         std::to_string(c.window);
}

// Keys or values one after another, and as pages in any order in memory, with
// NaN of every type before, between and behind them.
class KvMemory {
 public:
  KvMemory(const KvCase& c, bool are_keys, uint64_t seed)
      : order_(c.order),
        dtype_(are_keys ? c.k_dtype : c.v_dtype),
        width_(are_keys ? c.k_width : c.v_width),
        are_keys_(are_keys),
        num_positions_(c.num_positions),
        num_pages_((c.num_positions + kKvPage - 1) / kKvPage),
        bytes_(NaNs(num_pages_ * page_bytes())) {
    const std::vector<float> x = RandomFloats(num_positions_ * width_, seed);
    for (size_t p = 0; p < num_positions_; ++p) Store(p, x.data() + p * width_);
  }

  void Store(size_t p, const float* x) {
    const KernelTable& scalar = KernelsFor(Isa::kScalar);
    std::byte* page = bytes_.get() + p / kKvPage * page_bytes();
    if (order_ == KvOrder::kRows) {
      scalar.store_row(dtype_, x, width_, page + p % kKvPage * stride_bytes());
    } else if (are_keys_) {
      StoreKeyInGroup(scalar, x, width_, p % kKvPage, page);
    } else {
      StoreValueInGroup(scalar, x, width_, p % kKvPage, page);
    }
  }

  const std::byte* data() const { return bytes_.get(); }
  size_t stride_bytes() const { return BytesOf(dtype_, width_); }

  // Rows at odd addresses.
  std::vector<const std::byte*> Scattered(uint64_t seed) {
    const size_t slot_bytes = (page_bytes() + 63) / 64 * 64 + 64;
    scattered_ = NaNs(64 + num_pages_ * slot_bytes);
    std::vector<size_t> slots(num_pages_);
    std::iota(slots.begin(), slots.end(), size_t{0});
    Random random(seed);
    for (size_t i = num_pages_; i > 1; --i) {
      std::swap(slots[i - 1], slots[random.Next() % i]);
    }
    std::vector<const std::byte*> pages;
    for (size_t i = 0; i < num_pages_; ++i) {
      std::byte* page = scattered_.get() + 64 + slots[i] * slot_bytes +
                        (order_ == KvOrder::kRows ? 1 : 0);
      std::memcpy(page, bytes_.get() + i * page_bytes(), page_bytes());
      pages.push_back(page);
    }
    return pages;
  }

 private:
  size_t page_bytes() const { return kKvPage * stride_bytes(); }
  static AlignedBytes NaNs(size_t num_bytes) {
    AlignedBytes bytes = MakeAligned(num_bytes);
    std::memset(bytes.get(), 0xFF, num_bytes);
    return bytes;
  }

  KvOrder order_;
  DType dtype_;
  size_t width_;
  bool are_keys_;
  size_t num_positions_;
  size_t num_pages_;
  AlignedBytes bytes_;
  AlignedBytes scattered_;
};

struct KvProblem {
  explicit KvProblem(const KvCase& c)
      : k(c, true, 1),
        v(c, false, 2),
        args{.q = RandomFloats(c.num_tokens * c.num_heads * c.k_width, 3, 4),
             .num_tokens = c.num_tokens,
             .num_heads = c.num_heads,
             .k_dtype = c.k_dtype,
             .v_dtype = c.v_dtype,
             .kv_order = c.order,
             .k = k.data(),
             .k_stride_bytes = k.stride_bytes(),
             .v = v.data(),
             .v_stride_bytes = v.stride_bytes(),
             .k_width = c.k_width,
             .v_width = c.v_width,
             .num_positions = c.num_positions,
             .scale = 1 / std::sqrt(static_cast<float>(c.k_width)),
             .logit_cap = c.logit_cap,
             .window = c.window} {}

  void Scatter() {
    args.k_pages = k.Scattered(4);
    args.v_pages = v.Scattered(5);
  }
  // One of its tokens alone.
  AttentionCase Alone(size_t token) const {
    const size_t q_width = args.num_heads * args.k_width;
    AttentionCase alone = args;
    alone.num_tokens = 1;
    alone.q.assign(args.q.begin() + token * q_width,
                   args.q.begin() + (token + 1) * q_width);
    alone.num_positions -= args.num_tokens - 1 - token;
    return alone;
  }

  KvMemory k;
  KvMemory v;
  AttentionCase args;
};

// The power of the difference, relative. Groups: queries are rounded to eight
// bits, 2^-9 of four at most, which moves scores by some 2^-8; the tiles of AMX
// leave 2^-15 of a product out.
void ExpectClose(const KvCase& c, const std::vector<float>& out,
                 const std::vector<float>& truth) {
  double error = 0, power = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    error += std::pow(static_cast<double>(out[i]) - truth[i], 2);
    power += std::pow(static_cast<double>(truth[i]), 2);
  }
  EXPECT_LE(error, (c.order == KvOrder::kGroups ? 1e-3 : 1e-9) * power)
      << DescribeKv(c);
}

// Every attention of a table, in the place of the first.
class KvTest : public IsaTest {
 protected:
  std::vector<KernelTable> Tables(const KvCase& c) const {
    std::vector<KernelTable> tables;
    if (c.order == KvOrder::kGroups &&
        KvOrderFor(GetParam(), c.k_dtype, c.v_dtype) != c.order &&
        GetParam() != Isa::kScalar) {
      return tables;
    }
    tables.push_back(kernels());
    if (kernels().large_batch_attention != nullptr) {
      tables.push_back(kernels());
      tables.back().attention = kernels().large_batch_attention;
    }
    return tables;
  }
  // Of every type and order; with one head, in whole vectors and not, and many.
  static std::vector<KvCase> Cases(size_t num_tokens, size_t num_positions) {
    constexpr DType kF32 = DType::kF32, kF16 = DType::kF16;
    constexpr DType kQ8 = DType::kQ8_0;
    const size_t t = num_tokens, n = num_positions;
    return {{kF32, kF32, t, 1, 64, 64, n},
            {kF32, kF16, t, 3, 19, 40, n},
            {kF16, kF16, t, 1, 64, 64, n},
            {kF16, kF16, t, 8, 128, 128, n},
            {kF16, kF16, t, 7, 64, 64, n},
            {kF16, kF16, t, 4, 80, 33, n},
            {kF16, kQ8, t, 2, 96, 32, n},
            {kQ8, kQ8, t, 5, 32, 64, n},
            {kQ8, kQ8, t, 1, 64, 32, n, KvOrder::kGroups},
            {kQ8, kQ8, t, 4, 128, 128, n, KvOrder::kGroups},
            {kQ8, kQ8, t, 8, 32, 96, n, KvOrder::kGroups}};
  }
};

class AttentionPagesTest : public KvTest {};
TC_FOR_EACH_ISA(AttentionPagesTest);

TEST_P(AttentionPagesTest, PagesAnywhereAreAsOneBlock) {
  for (size_t num_positions : {1, 63, 64, 65, 127, 200, 256, 700, 1300}) {
    for (const KvCase& c : Cases(1, num_positions)) {
      for (const KernelTable& table : Tables(c)) {
        KvProblem problem(c);
        const std::vector<float> block = AttendRows(table, problem.args);
        ExpectClose(c, block, AttendRows(scalar(), problem.args));
        problem.Scatter();
        for (size_t num_pieces : {1, 4}) {
          EXPECT_TRUE(
              SameBits(AttendRows(table, problem.args, num_pieces), block))
              << DescribeKv(c) << " pieces " << num_pieces;
        }
      }
    }
  }
}

TEST_P(AttentionPagesTest, OfManyTokensToo) {
  for (size_t num_positions : {9, 66, 129, 256, 520}) {
    for (const KvCase& c : Cases(8, num_positions)) {
      for (const KernelTable& table : Tables(c)) {
        KvProblem problem(c);
        const std::vector<float> block = AttendRows(table, problem.args);
        problem.Scatter();
        EXPECT_TRUE(SameBits(AttendRows(table, problem.args), block))
            << DescribeKv(c);
      }
    }
  }
}

class AttentionCapTest : public KvTest {};
TC_FOR_EACH_ISA(AttentionCapTest);

// Scores are up to some 4; the caps bend them a lot, a little and hardly.
TEST_P(AttentionCapTest, AgreesWithScalar) {
  for (const float cap : {0.5f, 5.0f, 50.0f}) {
    for (size_t num_positions : {1, 17, 65, 300}) {
      for (KvCase c : Cases(num_positions > 17 ? 3 : 1, num_positions)) {
        c.logit_cap = cap;
        const KvProblem problem(c);
        const std::vector<float> truth = AttendRows(scalar(), problem.args);
        for (const KernelTable& table : Tables(c)) {
          ExpectClose(c, AttendRows(table, problem.args), truth);
        }
      }
    }
  }
}

// One query of one element with keys of one element each.
std::vector<float> AttendWithCap(const KernelTable& kernels, float cap,
                                 const std::vector<float>& k,
                                 const std::vector<float>& v) {
  return AttendRows(kernels, {.q = {1},
                              .k_dtype = DType::kF32,
                              .v_dtype = DType::kF32,
                              .k = AsBytes(k.data()),
                              .k_stride_bytes = sizeof(float),
                              .v = AsBytes(v.data()),
                              .v_stride_bytes = sizeof(float),
                              .k_width = 1,
                              .v_width = 1,
                              .num_positions = k.size(),
                              .scale = 1,
                              .logit_cap = cap});
}

TEST_P(AttentionCapTest, KnownAnswers) {
  for (const double cap : {0.25, 2.0, 30.0}) {
    for (const double score : {-1e30, -40.0, -3.0, -0.01, 0.7, 9.0, 1e30}) {
      const std::vector<float> out =
          AttendWithCap(kernels(), static_cast<float>(cap),
                        {static_cast<float>(score), 0.0f}, {1, 0});
      const double capped = cap * std::tanh(score / cap);
      EXPECT_NEAR(out[0], 1 / (1 + std::exp(-capped)), 2e-6 * (1 + cap) / 2)
          << score << " cap " << cap;
    }
  }
}

TEST_P(AttentionCapTest, NaNShows) {
  for (size_t place : {0, 3, 16, 19}) {
    std::vector<float> k(20, 0.5f);
    k[place] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(
        AttendWithCap(kernels(), 20, k, std::vector<float>(20, 1.0f))[0]))
        << place;
  }
}

class AttentionWindowTest : public KvTest {};
TC_FOR_EACH_ISA(AttentionWindowTest);

constexpr size_t kWindows[] = {1, 5, 63, 64, 65, 100, 301};

TEST_P(AttentionWindowTest, AgreesWithScalar) {
  for (size_t num_positions : {12, 200, 600}) {
    for (size_t window : kWindows) {
      for (KvCase c : Cases(8, num_positions)) {
        c.window = window;
        KvProblem problem(c);
        problem.Scatter();
        const std::vector<float> truth = AttendRows(scalar(), problem.args);
        for (const KernelTable& table : Tables(c)) {
          ExpectClose(c, AttendRows(table, problem.args), truth);
        }
      }
    }
  }
}

// One token's window is a problem of its own.
TEST_P(AttentionWindowTest, IsAsTheLastPositionsAlone) {
  for (size_t window : kWindows) {
    for (KvCase c : Cases(1, 450)) {
      if (c.order == KvOrder::kGroups) continue;
      c.window = window;
      const KvProblem problem(c);
      AttentionCase last = problem.args;
      last.window = 0;
      last.num_positions = window;
      last.k += (450 - window) * last.k_stride_bytes;
      last.v += (450 - window) * last.v_stride_bytes;
      for (const KernelTable& table : Tables(c)) {
        ExpectClose(c, AttendRows(table, problem.args),
                    AttendRows(table, last));
      }
    }
  }
}

TEST_P(AttentionWindowTest, TokensAreAsAlone) {
  for (size_t num_positions : {40, 264, 330, 520}) {
    for (size_t window : {3, 64, 70, 256}) {
      for (KvCase c : Cases(8, num_positions)) {
        c.window = window;
        const KvProblem problem(c);
        const size_t width = c.num_heads * c.v_width;
        for (const KernelTable& table : Tables(c)) {
          const std::vector<float> together = AttendRows(table, problem.args);
          for (size_t t = 0; t < c.num_tokens; ++t) {
            EXPECT_TRUE(SameBits(AttendRows(table, problem.Alone(t)),
                                 {together.begin() + t * width,
                                  together.begin() + (t + 1) * width}))
                << DescribeKv(c) << " token " << t;
          }
        }
      }
    }
  }
}

TEST_P(AttentionWindowTest, AllOfItIsAsNone) {
  for (KvCase c : Cases(3, 400)) {
    for (const KernelTable& table : Tables(c)) {
      KvProblem problem(c);
      const std::vector<float> all = AttendRows(table, problem.args);
      problem.args.window = 400;
      EXPECT_TRUE(SameBits(AttendRows(table, problem.args), all))
          << DescribeKv(c);
    }
  }
}

// Of the page in which the window begins, too.
TEST_P(AttentionWindowTest, WhatItHidesMayBeNaN) {
  for (size_t window : {1, 20, 64, 90, 270}) {
    for (KvCase c : Cases(2, 300)) {
      c.window = window;
      c.logit_cap = 3;
      KvProblem problem(c);
      const std::vector<float> truth = AttendRows(scalar(), problem.args);
      const std::vector<float> nan(128,
                                   std::numeric_limits<float>::quiet_NaN());
      for (size_t p = 0; p < 299 - window; ++p) {
        problem.k.Store(p, nan.data());
        problem.v.Store(p, nan.data());
      }
      for (const KernelTable& table : Tables(c)) {
        ExpectClose(c, AttendRows(table, problem.args), truth);
      }
    }
  }
}

// In the first of two pieces: of three tokens the first sees the last position
// of a piece, and the others none of it; or nobody sees any.
TEST_P(AttentionWindowTest, WhoSeesNothingHasTheNeutralSum) {
  for (size_t seen_by : {1, 0}) {
    for (KvCase c : Cases(3, 300)) {
      c.window = 298 - kAttentionPiece + seen_by;
      KvProblem problem(c);
      const size_t stride = PartialAttentionFloats(c.v_width);
      const size_t num_queries = 3 * c.num_heads;
      std::vector<float> neutral(stride, 0.0f);
      neutral[stride - 16] = -std::numeric_limits<float>::infinity();
      for (const KernelTable& table : Tables(c)) {
        const GuardedFloats sums(num_queries * stride);
        AttendPieces(table, problem.args, 0, 1, sums.data(), 0);
        for (size_t i = 0; i < num_queries; ++i) {
          const float* sum = sums.data() + i * stride;
          EXPECT_EQ(SameBits({sum, sum + stride}, neutral),
                    i >= seen_by * c.num_heads)
              << DescribeKv(c) << " query " << i;
        }
      }
    }
  }
}

class AttentionMergeTest : public IsaTest {
 protected:
  // Of a query over one key with the score `score`; nothing: without any.
  static std::vector<float> Sum(size_t v_width, float score, bool is_nothing) {
    const size_t padded = PartialAttentionFloats(v_width) - 16;
    std::vector<float> sum(padded + 16, 0.0f);
    sum[padded] = -std::numeric_limits<float>::infinity();
    if (is_nothing) return sum;
    const std::vector<float> v = RandomFloats(v_width, v_width);
    std::copy(v.begin(), v.end(), sum.begin());
    sum[padded] = score;
    sum[padded + 1] = 1;
    return sum;
  }
  std::vector<float> Merge(const std::vector<float>& earlier,
                           const std::vector<float>& later,
                           size_t v_width) const {
    const GuardedFloats sum(earlier.size()), partial(later.size());
    std::copy(earlier.begin(), earlier.end(), sum.data());
    std::copy(later.begin(), later.end(), partial.data());
    kernels().merge_attention(partial.data(), v_width, sum.data());
    return {sum.data(), sum.data() + earlier.size()};
  }
};
TC_FOR_EACH_ISA(AttentionMergeTest);

TEST_P(AttentionMergeTest, TheNeutralSumChangesNothing) {
  for (size_t v_width : {1, 16, 33, 64, 128}) {
    const std::vector<float> nothing = Sum(v_width, 0, true);
    EXPECT_TRUE(SameBits(Merge(nothing, nothing, v_width), nothing));
    for (const float score : {-3e38f, -100.0f, 0.0f, 7.0f, 3e38f}) {
      const std::vector<float> sum = Sum(v_width, score, false);
      EXPECT_TRUE(SameBits(Merge(sum, nothing, v_width), sum)) << score;
      EXPECT_EQ(Merge(nothing, sum, v_width), sum) << score;
    }
  }
}

}  // namespace
}  // namespace thermocline::kernels
