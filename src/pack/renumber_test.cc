#include "pack/renumber.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/random.h"
#include "gguf/test_file.h"
#include "model/profile_file.h"
#include "model/test_log.h"
#include "model/test_random_model.h"
#include "os/test_folder.h"
#include "pack/names.h"
#include "pack/pack.h"
#include "pack/part_file.h"
#include "pack/test_parts.h"

namespace thermocline::pack {
namespace {

using gguf::TestFile;
using ::testing::HasSubstr;
using NumberedPtr = std::shared_ptr<const model::Model>;

constexpr size_t kNeurons = 64;

// Where a tensor has its neurons, told apart from the table of roles.
enum class Place { kRows, kBits };
const std::map<std::string, Place, std::less<>>& PlacesOfNeurons() {
  static const std::map<std::string, Place, std::less<>> places = {
      {"ffn_records.weight", Place::kRows},
      {"ffn_gate.weight", Place::kRows},
      {"ffn_gate.bias", Place::kRows},
      {"ffn_up.bias", Place::kRows},
      {"fc2.weight", Place::kRows},
      {"ffn_pred_down.weight", Place::kRows},
      {"ffn_pred_down.bias", Place::kRows},
      {"tc_pred_down.weight", Place::kRows},
      {"tc_pred_down.bias", Place::kRows},
      {"tc_free_signs.weight", Place::kRows},
      {"tc_free_down.weight", Place::kRows},
      {"tc_free.bias", Place::kRows},
      {"tc_profile.counts", Place::kRows},
      {"tc_selftest.fired", Place::kBits},
      {"tc_selftest.candidates", Place::kBits},
      {"tc_selftest.free", Place::kBits}};
  return places;
}

std::vector<uint32_t> RandomOrder(uint64_t seed) {
  std::vector<uint32_t> order(kNeurons);
  std::iota(order.begin(), order.end(), 0u);
  Random random(seed);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.Below(i)]);
  }
  return order;
}

// As TestParts, with another order in each layer and signs that differ.
PreparedParts PartsInOrder(const model::Config& config, uint64_t seed) {
  PreparedParts parts = TestParts(config);
  for (size_t l = 0; l < parts.order.size(); ++l) {
    parts.order[l] = RandomOrder(seed + l);
    if (!parts.training_free[l]) continue;
    uint64_t bits = seed;
    for (uint64_t& word : parts.training_free[l]->signs) {
      word = bits += 0x9e3779b97f4a7c15;
    }
  }
  return parts;
}

TestFile WithBiases(TestFile file, bool gated) {
  for (int i = 0; i < model::kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    const auto set = [&](const std::string& name, uint64_t seed) {
      file.SetTensor(blk + name, DType::kF32, {kNeurons},
                     model::RandomRows(DType::kF32, kNeurons, seed));
    };
    if (gated) set("ffn_gate.bias", 50);
    set("ffn_up.bias", 51);
  }
  return file;
}

// With that program's predictor, and weights that are not 0; rank 0: none.
TestFile ForeignModel(TestFile file, const std::string& down,
                      const std::vector<uint64_t>& ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    const std::string blk = fmt::format("blk.{}.", i);
    for (const char* name : {"ffn_gate.weight", "ffn_down_t.weight"}) {
      file.SetTensor(blk + name, DType::kQ4_0, {32, kNeurons},
                     model::RandomRows(DType::kQ4_0, 32 * kNeurons, 60 + i));
    }
    if (ranks[i] == 0) continue;
    file.SetTensor(blk + down + ".weight", DType::kF16, {ranks[i], kNeurons},
                   model::RandomRows(DType::kF16, ranks[i] * kNeurons, 70));
  }
  return file;
}

class RenumberTest : public ::testing::Test {
 protected:
  NumberedPtr Open(TestFile file) {
    auto opened = model::Model::Open(
        folder_.Write(fmt::format("m{}.gguf", num_files_++), file.Bytes()));
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return *opened;
  }
  NumberedPtr Write(const model::Model& source, const PreparedParts& parts,
                    bool in_order, size_t alignment = 64) {
    const std::string path = folder_ / fmt::format("m{}.tc.gguf", num_files_++);
    const auto summary =
        Pack(source, parts, path,
             {.record_alignment = alignment, .in_order = in_order});
    EXPECT_TRUE(summary.has_value()) << summary.error().message;
    why_ = summary->why_in_number_order;
    auto opened = model::Model::Open(path);
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return *opened;
  }

  model::TestLog log_;
  os::TestFolder folder_;
  std::string why_;
  int num_files_ = 0;
};

bool BitOf(const gguf::TensorInfo& tensor, uint64_t row, uint64_t i) {
  const std::byte byte = tensor.data[row * (kNeurons / 8) + i / 8];
  return (byte >> (i % 8) & std::byte{1}) != std::byte{0};
}

void ExpectMovedTensor(const gguf::TensorInfo& moved,
                       const gguf::TensorInfo& from, Place place,
                       const std::vector<uint32_t>& order) {
  ASSERT_EQ(moved.num_bytes, from.num_bytes);
  EXPECT_NE(std::memcmp(moved.data, from.data, from.num_bytes), 0);
  const uint64_t num_rows = from.num_bytes / (kNeurons / 8);
  const size_t row_bytes = from.num_bytes / kNeurons;
  for (size_t i = 0; i < kNeurons; ++i) {
    if (place == Place::kRows) {
      ASSERT_EQ(std::memcmp(moved.data + i * row_bytes,
                            from.data + order[i] * row_bytes, row_bytes),
                0)
          << i;
      continue;
    }
    for (uint64_t row = 0; row < num_rows; ++row) {
      ASSERT_EQ(BitOf(moved, row, i), BitOf(from, row, order[i])) << i;
    }
  }
}

std::vector<uint32_t> NumbersOfTensor(const model::Model& model, size_t layer,
                                      const std::string& name) {
  const gguf::TensorInfo* tensor =
      model.file().FindTensor(fmt::format("blk.{}.{}", layer, name));
  if (tensor == nullptr) return {};
  std::vector<uint32_t> numbers(kNeurons);
  std::memcpy(numbers.data(), tensor->data, tensor->num_bytes);
  return numbers;
}

std::vector<uint32_t> Ascending() {
  std::vector<uint32_t> numbers(kNeurons);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

// Every tensor of one has the neurons of the other in that order; `seen`: those
// that have any.
void ExpectMovedFile(const model::Model& moved, const model::Model& from,
                     const std::vector<std::vector<uint32_t>>& order,
                     std::set<std::string>& seen) {
  for (const gguf::TensorInfo& tensor : moved.file().tensors()) {
    SCOPED_TRACE(tensor.name);
    const auto layer = ParseLayerName(tensor.name);
    const std::string rest = layer ? std::string(layer->rest) : tensor.name;
    if (rest == "tc_source_neurons" || rest == "tc_order") continue;
    const gguf::TensorInfo* other = from.file().FindTensor(tensor.name);
    ASSERT_NE(other, nullptr);
    const auto place = PlacesOfNeurons().find(rest);
    if (place == PlacesOfNeurons().end()) {
      ASSERT_EQ(tensor.num_bytes, other->num_bytes);
      EXPECT_EQ(std::memcmp(tensor.data, other->data, other->num_bytes), 0);
      continue;
    }
    seen.insert(rest);
    ExpectMovedTensor(tensor, *other, place->second, order[layer->layer_idx]);
  }
  for (size_t l = 0; l < order.size(); ++l) {
    EXPECT_EQ(NumbersOfTensor(moved, l, "tc_source_neurons"), order[l]);
    EXPECT_EQ(NumbersOfTensor(from, l, "tc_source_neurons").size(), 0u);
    EXPECT_EQ(NumbersOfTensor(moved, l, "tc_order"), Ascending());
  }
}

TEST_F(RenumberTest, EverythingOfANeuronMovesWithIt) {
  struct Row {
    TestFile file;
    bool is_foreign = false;  // keeps the predictors that it has
    size_t alignment = 64;
  };
  const Row rows[] = {
      {.file = WithBiases(model::RandomModel(DType::kQ4_0), true)},
      {.file = model::RandomModel(DType::kF16), .alignment = 4096},
      {.file = WithBiases(model::RandomModel(DType::kF32, "opt"), false)},
      {.file = ForeignModel(model::TestPowerInferModel(), "fc2", {32, 64}),
       .is_foreign = true},
      {.file =
           ForeignModel(model::TestKairoxModel(), "ffn_pred_down", {0, 16})
               .SetTensor("blk.1.ffn_pred_down.bias", DType::kF32, {kNeurons},
                          model::RandomRows(DType::kF32, kNeurons, 62)),
       .is_foreign = true}};
  std::set<std::string> seen;
  for (const Row& row : rows) {
    const NumberedPtr source = Open(row.file);
    PreparedParts parts = PartsInOrder(source->config(), 7);
    if (row.is_foreign) parts = {.order = parts.order};
    // Layer 0 alone has no predictor, and its gates stay a matrix.
    const NumberedPtr plain = Write(*source, parts, false, row.alignment);
    const NumberedPtr moved = Write(*source, parts, true, row.alignment);
    EXPECT_EQ(why_, "");
    ExpectMovedFile(*moved, *plain, parts.order, seen);
  }
  EXPECT_EQ(seen.size(), PlacesOfNeurons().size());
}

TEST_F(RenumberTest, NumbersOfTheFirstSourceStayKnown) {
  const NumberedPtr source = Open(model::RandomModel(DType::kQ8_0));
  PreparedParts parts = PartsInOrder(source->config(), 1);
  const NumberedPtr first = Write(*source, parts, true);
  PreparedParts again = ReadParts(first->file(), first->config()).value();
  EXPECT_EQ(again.order[0], Ascending());
  // Packed again as it is, or in its order, which is its numbers' now.
  for (const bool in_order : {false, true}) {
    const NumberedPtr same = Write(*first, again, in_order);
    for (size_t l = 0; l < 2; ++l) {
      EXPECT_EQ(NumbersOfTensor(*same, l, "tc_source_neurons"), parts.order[l]);
    }
  }
  const std::vector<uint32_t> before = parts.order[1];
  for (size_t l = 0; l < 2; ++l) again.order[l] = RandomOrder(20 + l);
  const NumberedPtr second = Write(*first, again, true);
  std::vector<uint32_t> both;
  for (const uint32_t neuron : again.order[1]) both.push_back(before[neuron]);
  EXPECT_EQ(NumbersOfTensor(*second, 1, "tc_source_neurons"), both);
  parts.order[0] = NumbersOfTensor(*second, 0, "tc_source_neurons");
  parts.order[1] = both;
  const NumberedPtr at_once = Write(*source, parts, true);
  for (const gguf::TensorInfo& tensor : at_once->file().tensors()) {
    const gguf::TensorInfo* other = second->file().FindTensor(tensor.name);
    EXPECT_EQ(std::memcmp(tensor.data, other->data, tensor.num_bytes), 0)
        << tensor.name;
  }
}

TEST_F(RenumberTest, ItIsAnotherModelToThoseWhoNameNeurons) {
  const NumberedPtr source = Open(model::RandomModel(DType::kF16));
  PreparedParts parts = PartsInOrder(source->config(), 3);
  parts.keys.push_back(
      {.key = "thermocline.profile.model.hash",
       .type = gguf::ValueType::kString,
       .value = fmt::format("{:016x}", model::FingerprintOf(*source).hash)});
  const NumberedPtr plain = Write(*source, parts, false);
  EXPECT_EQ(model::FingerprintOf(*plain), model::FingerprintOf(*source));
  const NumberedPtr moved = Write(*source, parts, true);
  const model::ModelFingerprint fingerprint = model::FingerprintOf(*moved);
  EXPECT_NE(fingerprint.hash, model::FingerprintOf(*source).hash);
  EXPECT_EQ(moved->file().String("thermocline.profile.model.hash").value(),
            fmt::format("{:016x}", fingerprint.hash));
  const auto status =
      model::CheckSameModel(model::FingerprintOf(*source), *moved, "a.trace");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("have other numbers"));
  // As parts of the source, whose neurons they do not name.
  const auto together =
      source->WithParts(gguf::File::Open(moved->file().path()).value());
  ASSERT_FALSE(together);
  EXPECT_THAT(together.error().message, HasSubstr("have other numbers"));
  EXPECT_TRUE(moved->WithParts(gguf::File::Open(moved->file().path()).value()));
}

TEST_F(RenumberTest, WhereNothingSaysHowNumbersStay) {
  const NumberedPtr mixture = Open(model::TestExpertModel());
  PreparedParts parts = TestParts(mixture->config());
  parts.lookahead = 0;
  const NumberedPtr packed = Write(*mixture, parts, true);
  EXPECT_EQ(why_, "those of experts keep theirs");
  EXPECT_EQ(packed->file().FindTensor("blk.0.tc_source_neurons"), nullptr);
  const NumberedPtr source = Open(model::RandomModel(DType::kF16));
  EXPECT_EQ(
      Write(*source, {}, true)->file().FindTensor("blk.0.tc_source_neurons"),
      nullptr);
  EXPECT_EQ(why_, "nothing says which fire together");
  parts = TestParts(source->config());
  parts.predictors.clear();
  parts.training_free.clear();
  parts.lookahead = 0;
  parts.self_test.clear();
  EXPECT_EQ(
      Write(*source, parts, true)->file().FindTensor("blk.0.tc_source_neurons"),
      nullptr);
  EXPECT_EQ(why_, "without a predictor all gates are read");
  Write(*source, {}, false);
  EXPECT_EQ(why_, "");
}

}  // namespace
}  // namespace thermocline::pack
