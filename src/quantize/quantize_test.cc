#include "quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gguf/test_file.h"
#include "model/test_random_model.h"
#include "os/test_folder.h"
#include "tensor/codec.h"

namespace thermocline::quantize {
namespace {

using model::RandomRows;

using ::testing::HasSubstr;

// Rows of attn_q that make it longer than a piece, with an end within a chunk.
constexpr uint64_t kManyRows = (uint64_t{1} << 22) / 256 + 3;

gguf::TestFile TinyModel(uint64_t num_rows = 67) {
  gguf::TestFile file;
  file.SetText("general.architecture", "llama");
  file.SetU32("llama.block_count", 1);
  file.SetTexts("tokenizer.ggml.tokens", {"a", "b"});
  file.SetU32("general.file_type", 1);
  file.SetTensor("token_embd.weight", DType::kF16, {256, 8},
                 RandomRows(DType::kF16, 256 * 8, 1));
  file.SetTensor("blk.0.attn_q.weight", DType::kBF16, {256, num_rows},
                 RandomRows(DType::kBF16, 256 * num_rows, 2));
  file.SetTensor("blk.0.attn_norm.weight", DType::kF32, {3},
                 RandomRows(DType::kF32, 3, 3));
  file.SetTensor("output.weight", DType::kF32, {256, 8},
                 RandomRows(DType::kF32, 256 * 8, 4));
  return file;
}

class QuantizeTest : public ::testing::Test {
 protected:
  Status Quantize(const std::string& input, int num_threads = 1) {
    TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(input));
    TC_ASSIGN_OR_RETURN(const auto plan, PlanQuantization(*file, options));
    job.num_threads = num_threads;
    return WriteQuantized(*file, plan, output, job);
  }
  Status QuantizeBytes(gguf::TestFile file) {
    return Quantize(folder.Write("in.gguf", file.Bytes()));
  }
  std::string ErrorOf(gguf::TestFile file) {
    const Status status = QuantizeBytes(std::move(file));
    if (status.has_value()) return "";
    EXPECT_EQ(folder.num_entries(), 1);  // nothing is left behind
    return status.error().message;
  }

  os::TestFolder folder;
  const std::string output = folder / "out.gguf";
  QuantizeOptions options;
  QuantizeJob job;
};

TEST_F(QuantizeTest, EveryTensorIsItsCodecs) {
  ASSERT_TRUE(QuantizeBytes(TinyModel(kManyRows)).has_value());
  const auto before = gguf::File::Open(folder / "in.gguf");
  const auto after = gguf::File::Open(output);
  ASSERT_TRUE(after.has_value()) << after.error().message;
  ASSERT_EQ((*after)->tensors().size(), 4u);
  for (const gguf::TensorInfo& made : (*after)->tensors()) {
    const gguf::TensorInfo& source = *(*before)->FindTensor(made.name);
    EXPECT_EQ(made.shape, source.shape);
    std::vector<float> values(source.shape.num_elems());
    DequantizeRow(source.dtype, source.data, values);
    std::vector<std::byte> expected(made.num_bytes);
    QuantizeRow(made.dtype, values, expected.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), made.data))
        << made.name;
  }
  EXPECT_EQ((*after)->FindTensor("blk.0.attn_q.weight")->dtype, DType::kQ4_K);
  EXPECT_EQ((*after)->FindTensor("output.weight")->dtype, DType::kQ6_K);
}

TEST_F(QuantizeTest, Metadata) {
  gguf::TestFile input = TinyModel().SetU32("split.count", 1);
  input.alignment = 64;
  input.SetU32("general.alignment", 64);
  ASSERT_TRUE(QuantizeBytes(input).has_value());
  const auto file = gguf::File::Open(output);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ((*file)->Int("general.file_type").value(), 15);
  EXPECT_EQ((*file)->Int("general.quantization_version").value(), 2);
  EXPECT_EQ((*file)->String("general.architecture").value(), "llama");
  EXPECT_EQ((*file)->Find("split.count"), nullptr);
  EXPECT_EQ((*file)->Find("general.alignment"), nullptr);
  EXPECT_EQ(std::get<gguf::Array>((*file)->Find("tokenizer.ggml.tokens")->value)
                .size(),
            2u);
}

TEST_F(QuantizeTest, SameBytesForEveryNumberOfThreads) {
  const std::string input =
      folder.Write("in.gguf", TinyModel(kManyRows).Bytes());
  ASSERT_TRUE(Quantize(input, 1).has_value());
  const std::string expected = os::TestFolder::Read(output);
  for (const int num_threads : {2, 5}) {
    ASSERT_TRUE(Quantize(input, num_threads).has_value());
    EXPECT_EQ(os::TestFolder::Read(output), expected) << num_threads;
  }
}

TEST_F(QuantizeTest, PowerInferFilesStayThat) {
  auto file = TinyModel();
  file.magic = "PWRI";
  file.SetTensor("blk.0.fc1.weight", DType::kF16, {256, 32});
  ASSERT_TRUE(QuantizeBytes(file).has_value());
  EXPECT_EQ(os::TestFolder::Read(output).substr(0, 4), "PWRI");
  const auto made = gguf::File::Open(output);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ((*made)->FindTensor("blk.0.fc1.weight")->dtype, DType::kQ5_0);
}

TEST_F(QuantizeTest, AllPartsOfASplitModelBecomeOneFile) {
  gguf::TestFile first = TinyModel();
  gguf::TestFile second;
  first.RemoveTensor("output.weight");
  second.SetTensor("output.weight", DType::kF32, {256, 8},
                   RandomRows(DType::kF32, 256 * 8, 4));
  int number = 0;
  for (gguf::TestFile* file : {&first, &second}) {
    file->Set("split.no", gguf::ValueType::kU16,
              gguf::Raw(static_cast<uint16_t>(number++)));
    file->Set("split.count", gguf::ValueType::kU16, gguf::Raw(uint16_t{2}));
    file->Set("split.tensors.count", gguf::ValueType::kI32,
              gguf::Raw(int32_t{4}));
    folder.Write("m-0000" + std::to_string(number) + "-of-00002.gguf",
                 file->Bytes());
  }
  ASSERT_TRUE(Quantize(folder / "m-00001-of-00002.gguf").has_value());
  const std::string joined = os::TestFolder::Read(output);
  ASSERT_TRUE(QuantizeBytes(TinyModel()).has_value());
  EXPECT_EQ(joined, os::TestFolder::Read(output));
}

TEST_F(QuantizeTest, BadNumbersAreNamedByTheirPlace) {
  const auto with = [](float odd, size_t at) {
    std::string bytes = RandomRows(DType::kF32, 256 * 8, 4);
    bytes.replace(4 * at, 4, gguf::Raw(odd));
    return TinyModel().SetTensor("output.weight", DType::kF32, {256, 8}, bytes);
  };
  EXPECT_THAT(ErrorOf(with(std::nanf(""), 256 * 3 + 7)),
              HasSubstr("in.gguf: tensor \"output.weight\" has in row 3, "
                        "column 7 an element that is nan"));
  EXPECT_THAT(ErrorOf(with(std::numeric_limits<float>::infinity(), 0)),
              HasSubstr("row 0, column 0 an element that is inf"));
  EXPECT_THAT(ErrorOf(with(1e30f, 2047)),
              HasSubstr("row 7, column 255 an element 1e+30, too large for "
                        "Q6_K; choose BF16 or F32"));
}

TEST_F(QuantizeTest, BadNumbersInTensorsThatStay) {
  std::string bytes =
      gguf::Raw(1.0f) + gguf::Raw(std::nanf("")) + gguf::Raw(std::nanf(""));
  EXPECT_THAT(ErrorOf(TinyModel().SetTensor("blk.0.attn_norm.weight",
                                            DType::kF32, {3}, bytes)),
              HasSubstr("\"blk.0.attn_norm.weight\" has in row 0, column 1"));
  // A block with a scale that is infinite, far behind.
  std::string blocks(BytesOf(DType::kQ8_0, 256 * 200), '\0');
  blocks.replace(34 * (8 * 150 + 1), 2, gguf::Raw(uint16_t{0x7c00}));
  blocks[34 * (8 * 150 + 1) + 2 + 5] = 1;
  options.type = gguf::FileType::kQ8_0;
  EXPECT_THAT(ErrorOf(TinyModel().SetTensor("blk.0.attn_k.weight", DType::kQ8_0,
                                            {256, 200}, blocks)),
              HasSubstr("row 150, column "));
}

TEST_F(QuantizeTest, TheFirstBadNumberWhateverTheThreads) {
  std::string bytes = RandomRows(DType::kF16, 256 * 600, 5);
  for (size_t row = 599; row > 300; row -= 7) {
    bytes.replace(2 * (256 * row + 9), 2, gguf::Raw(uint16_t{0x7e00}));
  }
  const std::string input = folder.Write(
      "in.gguf",
      TinyModel()
          .SetTensor("blk.0.attn_k.weight", DType::kF16, {256, 600}, bytes)
          .Bytes());
  for (const int num_threads : {1, 2, 5}) {
    const Status status = Quantize(input, num_threads);
    ASSERT_FALSE(status.has_value());
    EXPECT_THAT(status.error().message, HasSubstr("row 305, column 9"));
  }
}

TEST_F(QuantizeTest, InterruptedLeavesNothing) {
  std::atomic<bool> cancel = false;
  job.cancel = &cancel;
  int num_calls = 0;
  job.progress = [&](std::string_view, uint64_t num_done, uint64_t num_total) {
    EXPECT_LE(num_done, num_total);
    cancel = ++num_calls == 2;
  };
  const Status status = QuantizeBytes(TinyModel(kManyRows));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(num_calls, 2);
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST_F(QuantizeTest, ProgressCountsTheBytesOfTheSource) {
  std::vector<uint64_t> done;
  uint64_t total = 0;
  job.progress = [&](std::string_view, uint64_t num_done, uint64_t num_total) {
    done.push_back(num_done);
    total = num_total;
  };
  ASSERT_TRUE(QuantizeBytes(TinyModel(kManyRows)).has_value());
  // Four tensors, one of them in two pieces, and the end.
  ASSERT_EQ(done.size(), 6u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(total, 256 * 8 * 2 + 256 * kManyRows * 2 + 3 * 4 + 256 * 8 * 4);
  EXPECT_EQ(done[4], total - 256 * 8 * 4);
  EXPECT_EQ(done.back(), total);
}

TEST_F(QuantizeTest, AnOutputThatCannotBeWritten) {
  const std::string input = folder.Write("in.gguf", TinyModel().Bytes());
  const auto file = gguf::File::Open(input);
  const auto plan = PlanQuantization(**file, options);
  const Status status =
      WriteQuantized(**file, *plan, folder / "no/such/out.gguf", {});
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("no/such"));
}

}  // namespace
}  // namespace thermocline::quantize
