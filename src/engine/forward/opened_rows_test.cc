#include "engine/forward/opened_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/stream/streamed_store.h"
#include "engine/testing/tiny_model.h"
#include "tensor/float16.h"

namespace thermocline::engine {
namespace {

struct OpenedCase {
  int64_t first;
  int64_t num_rows;
  int64_t chunk;
};

constexpr size_t kOpenedNeurons = 70;

std::shared_ptr<const model::Model> OpenedModel() {
  testing::TinySpec spec;
  spec.ffn_width = kOpenedNeurons;
  spec.activation = "silu";
  spec.thresholds = {0.25f, 0.5f};
  return testing::MakeTinyModel(spec);
}

// Adds rows of one layer; returns what they hold in F16.
std::vector<float> AddRows(const OpenedCase& test, size_t layer, Random& random,
                           OpenedRows& rows) {
  std::vector<uint16_t> opened;
  std::vector<float> values;
  for (size_t i = 0; i < static_cast<size_t>(test.num_rows) * kOpenedNeurons;
       ++i) {
    opened.push_back(
        F32ToF16(random.Below(3) > 0 ? random.Uniform(-1.0f, 1.0f) : 0.0f));
    values.push_back(F16ToF32(opened.back()));
  }
  for (int64_t row = 0; row < test.num_rows; row += test.chunk) {
    rows.Add(layer, test.first + row, std::min(test.chunk, test.num_rows - row),
             &opened[static_cast<size_t>(row) * kOpenedNeurons]);
  }
  return values;
}

// Of chunks of any length the last rows, each as it was given; of a second
// prompt nothing of the first.
TEST(OpenedRowsTest, KeepsTheLastRows) {
  const auto model = OpenedModel();
  Random random(3);
  for (const FfnMode mode : {FfnMode::kExact, FfnMode::kThreshold}) {
    OpenedRows rows(model->config(), mode);
    for (const OpenedCase& test :
         {OpenedCase{0, 1, 8}, OpenedCase{5, 63, 7}, OpenedCase{1, 64, 64},
          OpenedCase{3, 150, 13}, OpenedCase{0, 300, 128}}) {
      const auto num_rows = static_cast<size_t>(test.num_rows);
      const size_t num_kept = std::min(num_rows, StreamedStore::kLearnedRows);
      rows.Start(test.first, test.num_rows);
      ASSERT_EQ(rows.num_kept(), num_kept);
      for (size_t layer = 0; layer < 2; ++layer) {
        const std::vector<float> values = AddRows(test, layer, random, rows);
        const float least =
            mode == FfnMode::kExact ? 0.0f : model->config().thresholds[layer];
        const float* kept = &values[(num_rows - num_kept) * kOpenedNeurons];
        for (size_t i = 0; i < num_kept * kOpenedNeurons; ++i) {
          const bool is_used = kept[i] != 0.0f && std::abs(kept[i]) >= least;
          const neuron::NeuronSet used = rows.used(layer, i / kOpenedNeurons);
          ASSERT_EQ(used.Has(i % kOpenedNeurons), is_used) << kept[i];
        }
      }
    }
  }
}

TEST(OpenedRowsTest, TakesWhatItSays) {
  EXPECT_EQ(OpenedRows::NumBytes(OpenedModel()->config()),
            uint64_t{2} * StreamedStore::kLearnedRows * 2 * 8);
}

}  // namespace
}  // namespace thermocline::engine
