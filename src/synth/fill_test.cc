#include "synth/fill.h"

#include <gtest/gtest.h>

#include <vector>

#include "tensor/codec.h"

namespace thermocline::synth {
namespace {

SynthWeights WeightsLike(const std::string& like, DType dtype = DType::kQ4_0) {
  return SynthWeights(PlanSynth({.like = like, .dtype = dtype}).value());
}

std::vector<std::byte> Fill(const FillFn& fill, uint64_t num_rows,
                            size_t row_bytes) {
  std::vector<std::byte> bytes(num_rows * row_bytes);
  fill(0, num_rows, bytes.data());
  return bytes;
}

std::vector<float> FloatsOf(DType dtype, const std::vector<std::byte>& bytes,
                            size_t count) {
  std::vector<float> values(count);
  DequantizeRow(dtype, bytes.data(), values);
  return values;
}

TEST(SynthFillTest, DownIsTheTransposeOfItsColumnsInEveryType) {
  for (const DType dtype :
       {DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
    const SynthWeights weights = WeightsLike("tiny-mixtral", dtype);
    const size_t width = 512;
    const size_t ffn_width = 1024;
    const auto columns = FloatsOf(dtype,
                                  Fill(FillDownTransposed(weights, 1),
                                       2 * ffn_width, BytesOf(dtype, width)),
                                  2 * ffn_width * width);
    const auto rows = FloatsOf(
        dtype, Fill(FillDown(weights, 1), 2 * width, BytesOf(dtype, ffn_width)),
        2 * ffn_width * width);
    for (size_t expert = 0; expert < 2; ++expert) {
      for (size_t i = 0; i < ffn_width; i += 7) {
        for (size_t j = 0; j < width; j += 5) {
          ASSERT_EQ(columns[(expert * ffn_width + i) * width + j],
                    rows[(expert * width + j) * ffn_width + i]);
        }
      }
    }
  }
}

void ExpectRecordsOf(const SynthWeights& weights) {
  const neuron::RecordLayout layout = SynthRecordLayout(weights.plan());
  const size_t row_bytes = BytesOf(DType::kQ4_0, 512);
  const auto records = Fill(FillRecords(weights, 1), 64, layout.stride);
  const auto gate = Fill(FillLooks(weights, 1), 64, row_bytes);
  const auto up =
      Fill(FillRandom(weights.plan(), SynthPart::kUp, 1, DType::kQ4_0, 512,
                      weights.reading_deviation()),
           64, row_bytes);
  const auto down = Fill(FillDownTransposed(weights, 1), 64, row_bytes);
  for (size_t i = 0; i < 64; ++i) {
    const std::byte* record = &records[i * layout.stride];
    const auto is_part = [&](size_t offset, const std::vector<std::byte>& all) {
      return std::equal(record + offset, record + offset + row_bytes,
                        &all[i * row_bytes]);
    };
    if (layout.gate) {
      EXPECT_TRUE(is_part(layout.gate_offset(), gate)) << i;
    }
    EXPECT_TRUE(is_part(layout.up_offset(), up)) << i;
    EXPECT_TRUE(is_part(layout.down_offset(), down)) << i;
    for (size_t k = layout.used_bytes(); k < layout.stride; ++k) {
      EXPECT_EQ(record[k], std::byte{0});
    }
  }
}

TEST(SynthFillTest, RecordsHoldGateUpAndDownBitByBit) {
  ExpectRecordsOf(WeightsLike("tiny"));
  const SynthWeights bare(
      PlanSynth({.like = "tiny", .with_predictor = false}).value());
  EXPECT_FALSE(SynthRecordLayout(bare.plan()).gate.has_value());
  ExpectRecordsOf(bare);
}

TEST(SynthFillTest, PredictorsEndInRandomRows) {
  const SynthWeights weights(PlanSynth({.like = "llama-1b"}).value());
  const SynthPlan& plan = weights.plan();
  ASSERT_GT(plan.powerinfer_rank, plan.needed_rank());
  const auto rows =
      FloatsOf(DType::kQ4_0,
               Fill(FillPredictorUp(weights, 0, 9, DType::kQ4_0,
                                    SynthWeights::Reads::kStream),
                    plan.powerinfer_rank, BytesOf(DType::kQ4_0, 2048)),
               plan.powerinfer_rank * 2048);
  std::vector<float> row(2048);
  weights.PredictorUp(0, 3, SynthWeights::Reads::kStream, row);
  for (size_t j = 0; j < row.size(); ++j) {
    EXPECT_NEAR(rows[3 * 2048 + j], row[j], 1e-3f * std::abs(row[j]));
  }
  double squares = 0.0;
  for (size_t j = 0; j < row.size(); ++j) {
    const double x = rows[(plan.powerinfer_rank - 1) * 2048 + j];
    squares += x * x * plan.stream_rms * plan.stream_rms;
  }
  EXPECT_NEAR(squares, 1.0, 0.2);
}

TEST(SynthFillTest, ConstantsAreConstant) {
  EXPECT_EQ(FloatsOf(DType::kF32, Fill(FillConstant(5, 0.5f), 1, 20), 5),
            std::vector<float>(5, 0.5f));
}

}  // namespace
}  // namespace thermocline::synth
