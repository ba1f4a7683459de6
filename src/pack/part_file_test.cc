#include "pack/part_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "model/prepared_names.h"
#include "model/profile_file.h"
#include "model/test_prepared.h"
#include "model/test_random_model.h"
#include "os/test_folder.h"
#include "pack/test_parts.h"

namespace thermocline::pack {
namespace {

using model::RandomModel;

namespace prepared = model::prepared;
using gguf::CountField;
using gguf::ParsedCopy;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Of model::TestModel, with what thresholds need.
model::Config PackedConfig() {
  const ParsedCopy parsed(model::TestModel().Bytes());
  return model::ReadConfig(**parsed.file).value();
}

// What AddTestParts gives, without a model.
TestFile PartsFile() {
  TestFile file;
  file.SetText("general.type", prepared::kPartsType)
      .SetText("general.architecture", "llama")
      .SetU32(prepared::kPartsLayers, 2)
      .SetU32(prepared::kPartsWidth, 32)
      .SetU32(prepared::kPartsNeurons, 64);
  model::AddTestParts(file);
  return file;
}

Result<PreparedParts> ReadPacked(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  return ReadParts(**parsed.file, PackedConfig());
}

void ExpectError(TestFile file, ErrorCode code, const std::string& part) {
  const auto parts = ReadPacked(std::move(file));
  ASSERT_FALSE(parts.has_value()) << part;
  EXPECT_EQ(parts.error().code, code) << parts.error().message;
  EXPECT_THAT(parts.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(part)));
}

TEST(ReadPartsTest, OfAFileOfPartsAndOfAPreparedModel) {
  TestFile prepared = model::TestPreparedModel();
  model::AddTestParts(prepared);
  const auto from_model = ReadPacked(prepared);
  ASSERT_TRUE(from_model.has_value()) << from_model.error().message;
  const auto from_parts = ReadPacked(PartsFile());
  ASSERT_TRUE(from_parts.has_value()) << from_parts.error().message;
  ExpectSameParts(*from_model, *from_parts);
  EXPECT_FALSE(from_parts->predictors[0].has_value());
  EXPECT_EQ(from_parts->predictors[1]->up.num_rows, 32u);
  EXPECT_EQ(from_parts->training_free[1]->max_differences, 12);
  EXPECT_EQ(from_parts->thresholds[1], 0.5f);
  EXPECT_EQ(from_parts->order[0].front(), 63u);
  EXPECT_EQ(from_parts->order_group_size, 4);
  EXPECT_EQ(from_parts->self_test[1].candidates.size(), 3u);
  ASSERT_EQ(from_parts->keys.size(), 1u);
  EXPECT_EQ(from_parts->keys[0].key, "thermocline.profile.tokens");
}

TEST(CheckPartsAreOfTest, ComparesTheFingerprint) {
  const os::TestFolder folder;
  const auto model =
      model::Model::Open(
          folder.Write("m.gguf", RandomModel(DType::kF16).Bytes()))
          .value();
  const auto check = [&](model::ModelFingerprint print) {
    neuron::LayerProfile layer;
    layer.counts.resize(64);
    const std::string path = folder / "p.gguf";
    EXPECT_TRUE(model::WriteProfile(
        {.model = std::move(print), .context = 16, .profile = {{layer, layer}}},
        path));
    return CheckPartsAreOf(*model, *gguf::File::Open(path).value());
  };
  const model::ModelFingerprint own = model::FingerprintOf(*model);
  EXPECT_TRUE(check(own));
  model::ModelFingerprint other = own;
  other.hash ^= 1;
  const Status refused = check(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("p.gguf"), HasSubstr("m.gguf"),
                    HasSubstr("another model"), HasSubstr("norms")));
  // Nothing is known of files that do not say.
  const ParsedCopy silent(PartsFile().Bytes());
  EXPECT_TRUE(CheckPartsAreOf(*model, **silent.file));
}

TEST(ReadPartsTest, OtherFilesAreRefused) {
  ExpectError(model::TestModel(), ErrorCode::kUnsupported,
              "neither a prepared model nor predictors");
  ExpectError(PartsFile().SetU32(prepared::kVersionKey, 2),
              ErrorCode::kUnsupported, "newer version");
}

TEST(ReadPartsTest, PartsOfOtherModels) {
  ExpectError(PartsFile().SetU32(prepared::kPartsLayers, 3),
              ErrorCode::kCorrupt, "made for a model of 3 layers");
  ExpectError(PartsFile().SetU32(prepared::kPartsWidth, 64),
              ErrorCode::kCorrupt, "width 64");
  ExpectError(PartsFile().SetU32(prepared::kPartsNeurons, 128),
              ErrorCode::kCorrupt, "128 neurons");
  ExpectError(PartsFile().Remove(prepared::kPartsNeurons), ErrorCode::kCorrupt,
              prepared::kPartsNeurons);
  TestFile opt = model::TestPreparedModel("opt");
  opt.SetU32("opt.embedding_length", 64);
  EXPECT_FALSE(ReadPacked(opt).has_value());
}

TEST(ReadPartsTest, PartsThatContradictThemselves) {
  ExpectError(PartsFile().RemoveTensor("blk.0.tc_order"), ErrorCode::kCorrupt,
              "1 of 2 layers");
  ExpectError(PartsFile().SetU32(prepared::kOrderGroupSize, 3),
              ErrorCode::kCorrupt, "do not divide");
  std::string counts(64 * 4, '\xff');
  ExpectError(PartsFile().SetTensor("blk.0.tc_profile.counts", DType::kI32,
                                    {64}, counts),
              ErrorCode::kCorrupt, "too large");
  ExpectError(PartsFile().SetText(prepared::kActivation, "tanh"),
              ErrorCode::kUnsupported, "tanh");
  ExpectError(PartsFile().SetText(prepared::kActivation, "relu"),
              ErrorCode::kCorrupt, "has zeros");
}

TEST(ReadPartsRobustness, EveryCountAndEveryByteOfTheMetadata) {
  TestFile file = PartsFile();
  const std::string bytes = file.Bytes();
  const model::Config config = PackedConfig();
  const auto try_bytes = [&](const std::string& patched) {
    const ParsedCopy parsed(patched);
    if (!parsed.file) return;
    const auto parts = ReadParts(**parsed.file, config);
    if (!parts) {
      EXPECT_TRUE(parts.error().message.starts_with("test.gguf: "))
          << parts.error().message;
    }
  };
  for (const CountField& field : file.fields()) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31,
                                 uint64_t{1} << 63, ~uint64_t{0}}) {
      std::string patched = bytes;
      std::memcpy(patched.data() + field.position, &value, field.num_bytes);
      try_bytes(patched);
    }
  }
  const size_t num_metadata_bytes =
      file.fields().back().position + file.fields().back().num_bytes;
  for (size_t i = 0; i < num_metadata_bytes; ++i) {
    for (const unsigned char value : {0x00, 0x01, 0xff}) {
      std::string patched = bytes;
      patched[i] = static_cast<char>(value);
      try_bytes(patched);
    }
  }
  for (size_t length = 0; length < bytes.size(); length += 13) {
    try_bytes(bytes.substr(0, length));
  }
}

}  // namespace
}  // namespace thermocline::pack
