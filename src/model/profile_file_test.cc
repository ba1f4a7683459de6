#include "model/profile_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>

#include "model/test_log.h"
#include "model/test_model.h"
#include "os/test_folder.h"

namespace thermocline::model {
namespace {

using gguf::CountField;
using gguf::ParsedCopy;
using gguf::Raw;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Two layers of three neurons.
ProfileFile Sample() {
  neuron::ProfileBuilder builder(2, 3);
  builder.BeginSequence();
  for (const std::vector<uint32_t>& set :
       std::vector<std::vector<uint32_t>>{{0, 1}, {1}, {}, {1, 2}, {2}}) {
    builder.Add(0, set);
    builder.Add(1, std::vector<uint32_t>{2});
  }
  return {.model = {.architecture = "llama",
                    .name = "a model",
                    .num_layers = 2,
                    .width = 8,
                    .ffn_width = 3,
                    .num_experts = 0,
                    .hash = 0x0123456789abcdef},
          .corpus = "text.txt",
          .context = 256,
          .profile = builder.profile()};
}

TEST(ProfileFileTest, RoundTrip) {
  const os::TestFolder folder;
  const std::string path = folder / "m.profile";
  ASSERT_TRUE(WriteProfile(Sample(), path));
  const auto got = ReadProfile(path);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, Sample());
  const auto file = gguf::File::Open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->Int("thermocline.profile.tokens").value(), 5);
  EXPECT_FLOAT_EQ(
      static_cast<float>(
          (*file)->Float("thermocline.profile.density").value().value()),
      static_cast<float>(Sample().profile.density()));
  EXPECT_NE((*file)->Find("thermocline.profile.locality"), nullptr);
  EXPECT_NE((*file)->FindTensor("blk.1.tc_profile.counts"), nullptr);
}

TEST(ProfileFileTest, OfAMixture) {
  const os::TestFolder folder;
  ProfileFile mixture = Sample();
  mixture.model.num_experts = 4;
  neuron::ProfileBuilder builder(2, 12);
  for (size_t l = 0; l < 2; ++l) builder.Add(l, std::vector<uint32_t>{0, 11});
  mixture.profile = builder.profile();
  ASSERT_TRUE(WriteProfile(mixture, folder / "m"));
  const auto got = ReadProfile(folder / "m");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, mixture);
  // Of a single token there is none.
  const auto file = gguf::File::Open(folder / "m");
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->Find("thermocline.profile.locality"), nullptr);
}

// The same file put together by hand, to be made wrong.
TestFile Valid() {
  const std::string p = "thermocline.profile.";
  const auto counts = [](std::vector<int32_t> values) {
    std::string bytes;
    for (const int32_t value : values) bytes += Raw(value);
    return bytes;
  };
  TestFile file;
  file.SetText("general.architecture", "thermocline-profile")
      .SetU32(p + "version", 1)
      .Set(p + "tokens", ValueType::kU64, Raw(uint64_t{5}))
      .SetU32(p + "context", 256)
      .SetText(p + "corpus", "text.txt")
      .SetText(p + "model.architecture", "llama")
      .SetText(p + "model.name", "a model")
      .SetU32(p + "model.layers", 2)
      .SetU32(p + "model.width", 8)
      .SetU32(p + "model.neurons", 3)
      .SetU32(p + "model.experts", 0)
      .SetText(p + "model.hash", "0123456789abcdef")
      .SetNumbers<uint64_t>(p + "layers.pairs", ValueType::kU64, {3, 4})
      .SetNumbers<double>(p + "layers.locality_sum", ValueType::kF64, {2, 4})
      .SetNumbers<double>(p + "layers.squared_density_sum", ValueType::kF64,
                          {10.0 / 9, 5.0 / 9})
      .SetTensor("blk.0.tc_profile.counts", DType::kI32, {3}, counts({1, 3, 2}))
      .SetTensor("blk.1.tc_profile.counts", DType::kI32, {3},
                 counts({0, 0, 5}));
  return file;
}

Result<ProfileFile> ReadTestProfile(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  if (!parsed.file) return tl::unexpected(parsed.file.error());
  return ReadProfile(**parsed.file);
}

void ExpectRefusedProfile(TestFile file, const std::string& part,
                          const std::string& other = "") {
  const auto profile = ReadTestProfile(std::move(file));
  ASSERT_FALSE(profile) << part;
  EXPECT_THAT(profile.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(part), HasSubstr(other)));
}

TEST(ProfileFileTest, ReadsWhatIsDocumented) {
  const auto got = ReadTestProfile(Valid());
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->model, Sample().model);
  EXPECT_EQ(got->profile.layers[0].counts, Sample().profile.layers[0].counts);
  EXPECT_EQ(got->profile.layers[1].num_fired, 5u);
  EXPECT_EQ(got->profile.layers[0].num_pairs, 3u);
}

// Other tensors are the model's own, where it is one.
TEST(ProfileFileTest, ReadsThatOfAPreparedModel) {
  TestFile file = Valid();
  file.SetTensor("token_embd.weight", DType::kF32, {4});
  ExpectRefusedProfile(file,
                       "has 3 tensors; a profile of 2 layers has as many");
  file.SetText("general.architecture", "llama");
  EXPECT_TRUE(ReadTestProfile(file));
}

TEST(ProfileFileTest, TheFingerprintAlone) {
  const auto read = [](TestFile file) {
    const ParsedCopy parsed(file.Bytes());
    return ReadModelFingerprint(**parsed.file);
  };
  const auto found = read(Valid());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, Sample().model);
  const auto none = read(TestFile());
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, std::nullopt);
  const auto wrong =
      read(Valid().SetText("thermocline.profile.model.hash", "12"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kCorrupt);
}

TEST(ProfileFileTest, NoProfileAtAll) {
  TestFile file;
  file.SetText("general.architecture", "llama");
  const auto none = ReadTestProfile(file);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("holds no profile"));
  file = Valid();
  file.SetU32("thermocline.profile.version", 2);
  ExpectRefusedProfile(file, "of version 2");
}

TEST(ProfileFileTest, EveryKeyIsNeeded) {
  for (const char* key :
       {"tokens", "context", "corpus", "model.architecture", "model.name",
        "model.layers", "model.width", "model.neurons", "model.experts",
        "model.hash", "layers.pairs", "layers.locality_sum",
        "layers.squared_density_sum"}) {
    TestFile file = Valid();
    file.Remove(std::string("thermocline.profile.") + key);
    ExpectRefusedProfile(file, key, "is missing");
  }
}

TEST(ProfileFileTest, ValuesOutOfRange) {
  const std::string p = "thermocline.profile.";
  const auto number = [&](const std::string& key, int64_t value) {
    TestFile file = Valid();
    file.Set(p + key, ValueType::kI64, Raw(value));
    return file;
  };
  ExpectRefusedProfile(number("tokens", -1),
                       "\"thermocline.profile.tokens\" is -1");
  ExpectRefusedProfile(number("tokens", int64_t{1} << 31), "it must be 0 to");
  ExpectRefusedProfile(number("tokens", 4),
                       "has 5 for neuron 2, more than the 4");
  ExpectRefusedProfile(number("context", 0), "context");
  ExpectRefusedProfile(number("model.layers", 0), "model.layers");
  ExpectRefusedProfile(number("model.layers", 1), "layers has as many");
  ExpectRefusedProfile(number("model.layers", 3), "layers has as many");
  ExpectRefusedProfile(number("model.layers", int64_t{1} << 40),
                       "model.layers");
  ExpectRefusedProfile(number("model.width", 0), "model.width");
  ExpectRefusedProfile(number("model.neurons", 4),
                       "a vector of 4 I32 belongs there");
  ExpectRefusedProfile(number("model.neurons", int64_t{1} << 40),
                       "model.neurons");
  ExpectRefusedProfile(number("model.experts", 2),
                       "a vector of 6 I32 belongs there");
  ExpectRefusedProfile(number("model.experts", -1), "model.experts");
  for (const char* hash : {"", "123", "0123456789abcdeg", "0x23456789abcdef",
                           "0123456789abcdef0"}) {
    TestFile file = Valid();
    file.SetText(p + "model.hash", hash);
    ExpectRefusedProfile(file, "16 hexadecimal digits");
  }
}

TEST(ProfileFileTest, ArraysOutOfRange) {
  const std::string p = "thermocline.profile.layers.";
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const char* key : {"locality_sum", "squared_density_sum"}) {
    for (const double bad : {-1.0, kNaN, kInf, 6.0}) {
      TestFile file = Valid();
      file.SetNumbers<double>(p + key, ValueType::kF64, {1, bad});
      ExpectRefusedProfile(file, key, "for layer 1; it must be 0 to 5");
    }
    TestFile file = Valid();
    file.SetNumbers<double>(p + key, ValueType::kF64, {1});
    ExpectRefusedProfile(file, key, "an array of 2 numbers");
    file.SetTexts(p + key, {"1", "2"});
    ExpectRefusedProfile(file, key, "an array of 2 numbers");
    file.SetU32(p + key, 1);
    ExpectRefusedProfile(file, key, "an array of 2 numbers");
  }
  TestFile file = Valid();
  file.SetNumbers<double>(p + "locality_sum", ValueType::kF64, {3.5, 4});
  ExpectRefusedProfile(file, "is 3.5 for layer 0, more than its 3 pairs");
}

TEST(ProfileFileTest, TensorsThatAreWrong) {
  const std::string name = "blk.1.tc_profile.counts";
  TestFile file = Valid();
  file.SetTensor(name, DType::kF32, {3});
  ExpectRefusedProfile(file, name, "is F32 [3]");
  file.SetTensor(name, DType::kI32, {3, 2});
  ExpectRefusedProfile(file, name, "is I32 [3, 2]");
  file.SetTensor(name, DType::kI32, {3},
                 Raw(int32_t{0}) + Raw(int32_t{-1}) + Raw(int32_t{0}));
  ExpectRefusedProfile(file, name, "has -1 for neuron 1");
  file.RemoveTensor(name).SetTensor("other", DType::kI32, {3});
  ExpectRefusedProfile(file, name, "is missing");
}

TEST(ProfileFileTest, EveryTruncationIsRefused) {
  const std::string bytes = Valid().Bytes();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const ParsedCopy parsed(std::string_view(bytes).substr(0, n));
    // Only the padding behind the last tensor may go.
    if (parsed.file) EXPECT_GT(n + 32, bytes.size());
  }
}

TEST(ProfileFileTest, EveryCountFieldWithEveryBadValue) {
  TestFile file = Valid();
  const std::string bytes = file.Bytes();
  for (const CountField& field : file.fields()) {
    for (const uint64_t value :
         {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 31) - 1, uint64_t{1} << 31,
          uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}}) {
      std::string patched = bytes;
      std::memcpy(patched.data() + field.position, &value, field.num_bytes);
      SCOPED_TRACE(field.what + " = " + std::to_string(value));
      const ParsedCopy parsed(patched);
      if (parsed.file) (void)ReadProfile(**parsed.file);
    }
  }
}

std::string FilledNorm(float value) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes += Raw(value);
  return bytes;
}

class FingerprintTest : public ::testing::Test {
 protected:
  // Models are views of bytes that live as long as the test.
  std::shared_ptr<const Model> Open(TestFile file) {
    bytes_.push_back(std::make_unique<std::string>(file.Bytes()));
    auto parsed = gguf::File::Parse(std::as_bytes(std::span(*bytes_.back())),
                                    "test.gguf");
    EXPECT_TRUE(parsed);
    auto model = Model::FromFile(*std::move(parsed));
    EXPECT_TRUE(model) << model.error().message;
    return *model;
  }

  TestLog log_;
  std::vector<std::unique_ptr<std::string>> bytes_;
};

TEST_F(FingerprintTest, FollowsTheNormsAndSizesOnly) {
  TestFile file = TestModel();
  file.SetTensor("blk.1.ffn_norm.weight", DType::kF32, {32}, FilledNorm(0.5f));
  const ModelFingerprint one = FingerprintOf(*Open(file));
  EXPECT_EQ(one.architecture, "llama");
  EXPECT_EQ(one.num_layers, 2);
  EXPECT_EQ(one.ffn_width, 64);

  TestFile other_type = file;
  other_type.SetTensor("blk.0.ffn_up.weight", DType::kF16, {32, 64})
      .SetText("general.name", "quantised");
  const auto same = Open(other_type);
  EXPECT_EQ(FingerprintOf(*same).hash, one.hash);
  EXPECT_TRUE(CheckSameModel(one, *same, "p: was made"));

  TestFile other_norm = file;
  other_norm.SetTensor("blk.1.ffn_norm.weight", DType::kF32, {32},
                       FilledNorm(0.25f));
  const auto status = CheckSameModel(one, *Open(other_norm), "p: was made");
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("p: was made for another model than test.gguf"),
                    HasSubstr("hash of the norms")));
}

TEST_F(FingerprintTest, NamesWhatDiffers) {
  const auto model = Open(TestModel());
  const ModelFingerprint own = FingerprintOf(*model);
  const auto message = [&](const ModelFingerprint& other) {
    const Status status = CheckSameModel(other, *model, "p: was made");
    return status.has_value() ? "" : status.error().message;
  };
  EXPECT_EQ(message(own), "");
  ModelFingerprint other = own;
  other.name = "another";
  EXPECT_EQ(message(other), "");
  other.architecture = "qwen2";
  EXPECT_THAT(message(other),
              HasSubstr("its architecture is \"qwen2\", here it is \"llama\""));
  other = own;
  other.num_layers = 5;
  EXPECT_THAT(message(other), HasSubstr("number of layers is 5, here it is 2"));
  other = own;
  other.ffn_width = 65;
  EXPECT_THAT(message(other), HasSubstr("number of neurons is 65"));
}

}  // namespace
}  // namespace thermocline::model
