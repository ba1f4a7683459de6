#include "bench/roof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/session.h"

namespace thermocline::bench {
namespace {

std::shared_ptr<const model::Model> OpenRoofModel() {
  auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                  "/golden/llama-gqa-Q4_0.gguf");
  if (!model.has_value()) ADD_FAILURE() << model.error().message;
  return model.value_or(nullptr);
}

TEST(MeasureRoofTest, GivesWhatFollowsForAModel) {
  RoofOptions options;
  options.threads = {1, 2};
  options.probe_bytes = 4 << 20;
  options.model = OpenRoofModel();
  ASSERT_NE(options.model, nullptr);
  uint64_t last_done = 0;
  uint64_t total = 0;
  options.progress = [&](std::string_view, uint64_t done, uint64_t num_total) {
    EXPECT_EQ(done, last_done + 1);
    last_done = done;
    total = num_total;
  };
  const auto report = MeasureRoof(options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(last_done, total);
  EXPECT_EQ(report->probe_bytes, options.probe_bytes);
  EXPECT_FALSE(report->probe_is_capped);
  ASSERT_EQ(report->reads.size(), 2u);
  ASSERT_EQ(report->models.size(), 2u);
  EXPECT_EQ(report->bytes_per_token,
            engine::WeightBytesPerToken(*options.model));
  // Only the types of this model, Q4_0 with a head of its own.
  EXPECT_GE(report->products.size(), 1u);
  EXPECT_LE(report->products.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const ReadRow& read = report->reads[i];
    const ModelRow& model = report->models[i];
    EXPECT_EQ(read.num_threads, static_cast<int>(i) + 1);
    EXPECT_GE(read.gb_per_s, read.gb_per_s_median);
    EXPECT_NEAR(model.memory_tokens_per_s *
                    static_cast<double>(report->bytes_per_token),
                read.gb_per_s * 1e9, 1.0);
  }
  // Arithmetic grows with the threads, by the same in-cache rates.
  EXPECT_NEAR(report->models[1].arithmetic_tokens_per_s.value(),
              2 * report->models[0].arithmetic_tokens_per_s.value(), 1e-6);
  EXPECT_NEAR(report->models[1].prefill_tokens_per_s.value(),
              2 * report->models[0].prefill_tokens_per_s.value(), 1e-6);
}

TEST(MeasureRoofTest, ReadsAlone) {
  RoofOptions options;
  options.threads = {1};
  options.probe_bytes = 1 << 20;
  options.measure_products = false;
  const auto report = MeasureRoof(options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->reads.size(), 1u);
  EXPECT_TRUE(report->products.empty());
  EXPECT_TRUE(report->models.empty());
}

TEST(MeasureRoofTest, ReadsRowsApart) {
  RoofOptions options;
  options.threads = {1, 2};
  options.probe_bytes = 1 << 20;
  options.measure_products = false;
  options.row_bytes = 1152;
  const auto report = MeasureRoof(options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->row_bytes, 1152u);
  ASSERT_EQ(report->rows_apart.size(), report->reads.size());
  for (size_t i = 0; i < report->reads.size(); ++i) {
    const ReadRow& row = report->rows_apart[i];
    EXPECT_EQ(row.num_threads, report->reads[i].num_threads);
    EXPECT_GT(row.gb_per_s_median, 0.0);
    EXPECT_GE(row.gb_per_s, row.gb_per_s_median);
  }
  options.row_bytes = 1000;
  EXPECT_EQ(MeasureRoof(options).error().code, ErrorCode::kInvalidArgument);
}

TEST(MeasureRoofTest, ReadsAloneGiveWhatMemoryAllowsAModel) {
  RoofOptions options;
  options.threads = {1};
  options.probe_bytes = 1 << 20;
  options.measure_products = false;
  options.model = OpenRoofModel();
  ASSERT_NE(options.model, nullptr);
  const auto report = MeasureRoof(options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_TRUE(report->products.empty());
  EXPECT_EQ(report->model_path, options.model->file().path());
  ASSERT_EQ(report->models.size(), 1u);
  EXPECT_GT(report->models[0].memory_tokens_per_s, 0);
  EXPECT_FALSE(report->models[0].arithmetic_tokens_per_s.has_value());
  EXPECT_FALSE(report->models[0].prefill_tokens_per_s.has_value());
}

}  // namespace
}  // namespace thermocline::bench
