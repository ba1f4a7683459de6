#include "device/sim/op_check.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "device/sim/sim_layout.h"

namespace thermocline::device {
namespace {

constexpr std::byte kByte{};

kernels::DeviceMatrix MatrixOf(DType dtype, uint32_t num_rows, uint32_t n) {
  return {.rows = &kByte,
          .row_bytes = SimRowBytes(dtype, n),
          .dtype = dtype,
          .num_rows = num_rows,
          .n = n};
}

std::string CheckedBy(const kernels::DeviceOp& op) {
  const SimLayout layout(kernels::KernelsFor(kernels::Isa::kScalar));
  const Status status = CheckOp(op, layout);
  if (status.has_value()) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  return status.error().message;
}

template <typename Args, typename Spoil>
kernels::DeviceOp Spoiled(Args args, Spoil spoil) {
  spoil(args);
  return args;
}

kernels::SparseFfnArgs GoodFfn() {
  return {.n = 64,
          .num_neurons = 10,
          .record_bytes = 3 * 48,
          .gate_dtype = DType::kQ4_0,
          .up_dtype = DType::kQ4_0,
          .down_dtype = DType::kQ4_0,
          .up_offset = 48,
          .down_offset = 96};
}

kernels::DecodeAttentionArgs GoodAttention() {
  return {.kv = {.page_bytes = 2 * 2 * 64 * 8 * 2,
                 .v_offset = 2 * 64 * 8 * 2,
                 .num_kv_heads = 2,
                 .k_width = 8,
                 .v_width = 8},
          .num_tokens = 2,
          .num_heads = 4,
          .max_positions = 65,
          .table_stride = 2};
}

TEST(OpCheck, TakesWhatIsRight) {
  EXPECT_EQ(
      CheckedBy(kernels::GemvArgs{.weights = MatrixOf(DType::kQ4_K, 3, 512)}),
      "");
  EXPECT_EQ(CheckedBy(GoodFfn()), "");
  EXPECT_EQ(CheckedBy(GoodAttention()), "");
}

using Cases = std::vector<std::pair<kernels::DeviceOp, std::string>>;

void ExpectRefused(const Cases& cases) {
  for (const auto& [op, want] : cases) EXPECT_EQ(CheckedBy(op), want);
}

TEST(OpCheck, SaysWhatIsWrong) {
  using kernels::GemvArgs;
  const GemvArgs gemv{.weights = MatrixOf(DType::kQ4_0, 3, 64)};
  const Cases cases = {
      {kernels::NormArgs{}, "NormArgs: n is 0"},
      {kernels::ArgMaxArgs{.num_tokens = 9, .n = 1},
       "ArgMaxArgs: num_tokens is not 1 to 8"},
      {kernels::AddRowsScaledArgs{.num_tokens = 0},
       "AddRowsScaledArgs: num_tokens is not 1 to 8"},
      {kernels::RopeArgs{.head_width = 8, .num_pairs = 5},
       "RopeArgs: num_pairs do not fit head_width"},
      {kernels::ActivateArgs{.activation = Activation::kDRelu},
       "ActivateArgs: the activation needs a gate"},
      {GemvArgs{}, "GemvArgs: a matrix is empty"},
      {Spoiled(gemv, [](auto& a) { a.weights.dtype = DType::kI32; }),
       "GemvArgs: weights are of a type that the device cannot compute"},
      {Spoiled(gemv, [](auto& a) { a.weights.n = 65; }),
       "GemvArgs: n is no number of whole blocks"},
      {Spoiled(gemv, [](auto& a) { a.weights.row_bytes = 36; }),
       "GemvArgs: row_bytes is no multiple of 16"},
      {Spoiled(gemv, [](auto& a) { a.weights.row_bytes = 32; }),
       "GemvArgs: row_bytes is less than a row's"},
      {kernels::PredictArgs{.up = MatrixOf(DType::kF16, 8, 4),
                            .down = MatrixOf(DType::kF16, 8, 9)},
       "PredictArgs: down.n is not up.num_rows"},
      {kernels::KvAppendArgs{}, "KvAppendArgs: kv has no heads or no width"},
  };
  ExpectRefused(cases);
}

TEST(OpCheck, SaysWhatIsWrongWithAnFfnOrAttention) {
  const Cases cases = {
      {Spoiled(GoodFfn(), [](auto& a) { a.down_offset = 112; }),
       "SparseFfnArgs: a row ends behind its record"},
      {Spoiled(GoodFfn(), [](auto& a) { a.up_offset = 40; }),
       "SparseFfnArgs: a row's offset is no multiple of 16"},
      {Spoiled(GoodFfn(), [](auto& a) { a.record_bytes = 150; }),
       "SparseFfnArgs: record_bytes is no multiple of 16"},
      {Spoiled(GoodFfn(),
               [](auto& a) {
                 a.gated = false;
                 a.activation = Activation::kDRelu;
               }),
       "SparseFfnArgs: the activation needs a gate"},
      {Spoiled(GoodAttention(), [](auto& a) { a.num_heads = 3; }),
       "DecodeAttentionArgs: num_heads is no multiple of num_kv_heads"},
      {Spoiled(GoodAttention(), [](auto& a) { a.max_positions = 0; }),
       "DecodeAttentionArgs: max_positions is 0"},
      {Spoiled(GoodAttention(), [](auto& a) { a.table_stride = 1; }),
       "DecodeAttentionArgs: table_stride is less than the pages of "
       "max_positions"},
      {Spoiled(GoodAttention(), [](auto& a) { a.kv.v_offset += 16; }),
       "DecodeAttentionArgs: keys or values end behind their page"},
  };
  ExpectRefused(cases);
}

}  // namespace
}  // namespace thermocline::device
