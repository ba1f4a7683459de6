#include "engine/stream/expert_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "gguf/test_file.h"
#include "model/test_prepared.h"

namespace thermocline::engine {
namespace {

// A slot as reads fill it.
std::vector<std::byte> ReadBlock(const ExpertBlock& block,
                                 const std::string& file) {
  std::vector<std::byte> slot(block.layout.num_bytes);
  for (const BlockRead& read : block.layout.reads) {
    std::memcpy(slot.data() + read.slot_offset, file.data() + read.offset,
                read.num_bytes);
  }
  return slot;
}

void ExpectSameRows(const TensorView& placed, const TensorView& expected) {
  ASSERT_EQ(placed.in_memory(), expected.in_memory());
  if (!expected.in_memory()) return;
  ASSERT_EQ(placed.shape, expected.shape);
  EXPECT_EQ(placed.row_stride(), expected.row_stride());
  for (uint64_t row = 0; row < expected.shape.num_rows(); ++row) {
    EXPECT_EQ(
        std::memcmp(placed.row(row), expected.row(row), expected.row_bytes()),
        0);
  }
}

// Where an expert's parts lie in a slot that was read is what they are in the
// file, whatever they are.
TEST(ExpertBlocksTest, PlacedPartsAreThoseOfTheFile) {
  for (gguf::TestFile file :
       {model::TestExpertModel(), model::TestPreparedExpertModel(),
        model::TestPreparedExpertModel(false)}) {
    std::string bytes = file.Bytes();
    // Weights are all zero: here no two of them are.
    for (size_t i = bytes.size() - (8 << 10); i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(i % 251);
    }
    const auto model =
        model::Model::FromFile(
            gguf::File::Parse(std::as_bytes(std::span(bytes)), "file").value())
            .value();
    const auto layers = LayExperts(model->file(), model->config(),
                                   std::vector<uint64_t>{bytes.size()});
    ASSERT_EQ(layers.size(), 2u);
    EXPECT_EQ(layers[1].first_unit, 4u);
    const model::FfnMatrices& expected =
        model->weights().layers[1].ffn.experts[3];
    const std::vector<std::byte> slot = ReadBlock(layers[1].blocks[3], bytes);
    model::FfnMatrices placed = expected;
    for (auto view : {&model::FfnMatrices::gate, &model::FfnMatrices::up,
                      &model::FfnMatrices::down, &model::FfnMatrices::down_t}) {
      (placed.*view).data = nullptr;
    }
    PlaceExpert(layers[1].blocks[3], layers[1].records, slot.data(), placed);
    ExpectSameRows(placed.gate, expected.gate);
    ExpectSameRows(placed.up, expected.up);
    ExpectSameRows(placed.down, expected.down);
    ExpectSameRows(placed.down_t, expected.down_t);
  }
}

}  // namespace
}  // namespace thermocline::engine
