#include "gguf/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "gguf/test_file.h"
#include "os/file.h"

namespace thermocline::gguf {
namespace {

using ::testing::HasSubstr;

// A path of this test's own; what is written there goes when the program ends.
std::string TempPath(const std::string& name) {
  struct Remover {
    ~Remover() {
      for (const std::string& path : paths) unlink(path.c_str());
    }
    std::vector<std::string> paths;
  };
  static Remover remover;
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return remover.paths.emplace_back(fmt::format(
      "{}writer_{}_{}_{}", ::testing::TempDir(), getpid(), test->name(), name));
}

std::unique_ptr<Writer> MakeWriter(const std::string& path) {
  auto writer = Writer::Create(path);
  EXPECT_TRUE(writer) << writer.error().message;
  return std::move(*writer);
}

TEST(Writer, RoundTripOfEveryValueType) {
  const std::vector<KeyValue> expected = {
      {"u8", ValueType::kU8, int64_t{255}},
      {"i8", ValueType::kI8, int64_t{-128}},
      {"u16", ValueType::kU16, int64_t{65535}},
      {"i16", ValueType::kI16, int64_t{-32768}},
      {"u32", ValueType::kU32, int64_t{4294967295}},
      {"i32", ValueType::kI32, int64_t{INT32_MIN}},
      {"u64", ValueType::kU64, int64_t{INT64_MAX}},
      {"large u64", ValueType::kU64, ~uint64_t{0}},
      {"large u64s", ValueType::kArray,
       Array{ValueType::kU64, std::vector<uint64_t>{1, ~uint64_t{0}}}},
      {"i64", ValueType::kI64, int64_t{INT64_MIN}},
      {"f32", ValueType::kF32, 0.5},
      {"f64", ValueType::kF64, 0.1},
      {"yes", ValueType::kBool, true},
      {"no", ValueType::kBool, false},
      {"text", ValueType::kString, std::string("a\0\xff", 3)},
      {"ints", ValueType::kArray,
       Array{ValueType::kI16, std::vector<int64_t>{-1, 0, 32767}}},
      {"bools", ValueType::kArray,
       Array{ValueType::kBool, std::vector<int64_t>{1, 0}}},
      {"floats", ValueType::kArray,
       Array{ValueType::kF32, std::vector<double>{1.5, -2}}},
      {"doubles", ValueType::kArray,
       Array{ValueType::kF64, std::vector<double>{0.1}}},
      {"texts", ValueType::kArray,
       Array{ValueType::kString, std::vector<std::string>{"", "b"}}},
      {"none", ValueType::kArray,
       Array{ValueType::kU64, std::vector<int64_t>{}}},
  };
  const std::string path = TempPath("a.gguf");
  auto writer = MakeWriter(path);
  for (const KeyValue& kv : expected) ASSERT_TRUE(writer->AddKeyValue(kv));
  ASSERT_TRUE(writer->Start());
  ASSERT_TRUE(writer->Finish());

  const auto file = File::Open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->version(), 3u);
  ASSERT_EQ((*file)->metadata().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const KeyValue& actual = (*file)->metadata()[i];
    SCOPED_TRACE(expected[i].key);
    EXPECT_EQ(actual.key, expected[i].key);
    EXPECT_EQ(actual.type, expected[i].type);
    if (const auto* array = std::get_if<Array>(&expected[i].value)) {
      const auto& actual_array = std::get<Array>(actual.value);
      EXPECT_EQ(actual_array.elem_type, array->elem_type);
      EXPECT_EQ(actual_array.values, array->values);
    } else {
      EXPECT_EQ(actual.value.index(), expected[i].value.index());
      std::visit(
          [&]<typename T>(const T& value) {
            if constexpr (!std::is_same_v<T, Array>) {
              EXPECT_EQ(std::get<T>(actual.value), value);
            }
          },
          expected[i].value);
    }
  }
}

TEST(Writer, TypedAdds) {
  const std::string path = TempPath("a.gguf");
  auto writer = MakeWriter(path);
  ASSERT_TRUE(writer->AddInt("i", ValueType::kU16, 7));
  ASSERT_TRUE(writer->AddFloat("f", 0.1f));
  ASSERT_TRUE(writer->AddBool("b", true));
  ASSERT_TRUE(writer->AddString("s", "text"));
  ASSERT_TRUE(
      writer->AddArray("a", {ValueType::kU8, std::vector<int64_t>{1, 2, 3}}));
  ASSERT_TRUE(writer->Start());
  ASSERT_TRUE(writer->Finish());
  const auto file = File::Open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->Find("i")->type, ValueType::kU16);
  EXPECT_EQ((*file)->Int("i").value(), 7);
  EXPECT_EQ((*file)->Float("f").value(), static_cast<double>(0.1f));
  EXPECT_EQ((*file)->Bool("b").value(), true);
  EXPECT_EQ((*file)->String("s").value(), "text");
  EXPECT_EQ(std::get<Array>((*file)->Find("a")->value).size(), 3u);
}

TEST(Writer, TensorsInPiecesAndAligned) {
  const std::string path = TempPath("a.gguf");
  auto writer = MakeWriter(path);
  ASSERT_TRUE(writer->DeclareTensor("odd", DType::kF32, {{3, 1, 1, 1}, 1}));
  ASSERT_TRUE(writer->DeclareTensor("q", DType::kQ8_0, {{32, 3, 1, 1}, 2}));
  ASSERT_TRUE(writer->DeclareTensor("h", DType::kF16, {{5, 1, 2, 1}, 3}));
  ASSERT_TRUE(writer->Start());
  std::vector<std::string> data = {std::string(12, 'a'), std::string(102, 'b'),
                                   std::string(20, 'c')};
  ASSERT_TRUE(writer->WriteTensorData(std::as_bytes(std::span(data[0]))));
  // One byte, nothing, the rest.
  const auto q = std::as_bytes(std::span(data[1]));
  ASSERT_TRUE(writer->WriteTensorData(q.first(1)));
  ASSERT_TRUE(writer->WriteTensorData({}));
  ASSERT_TRUE(writer->WriteTensorData(q.subspan(1)));
  ASSERT_TRUE(writer->WriteTensorData(std::as_bytes(std::span(data[2]))));
  EXPECT_FALSE(std::filesystem::exists(path)) << "appeared before Finish";
  ASSERT_TRUE(writer->Finish());

  EXPECT_EQ(std::filesystem::file_size(path) % Writer::kAlignment, 0u);
  const auto file = File::Open(path);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ((*file)->tensors().size(), 3u);
  for (size_t i = 0; i < data.size(); ++i) {
    const TensorInfo& info = (*file)->tensors()[i];
    ASSERT_EQ(info.num_bytes, data[i].size());
    EXPECT_EQ(std::memcmp(info.data, data[i].data(), data[i].size()), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(info.data) % Writer::kAlignment, 0u);
  }
  EXPECT_EQ(ToString((*file)->tensors()[2].shape), "[5, 1, 2]");
}

TEST(Writer, ALargerAlignmentIsSaid) {
  const std::string path = TempPath("a.gguf");
  auto writer = Writer::Create(path, Container::kGguf, 4096);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->DeclareTensor("a", DType::kI8, {{3, 1, 1, 1}, 1}));
  ASSERT_TRUE((*writer)->DeclareTensor("b", DType::kI8, {{5, 1, 1, 1}, 1}));
  ASSERT_TRUE((*writer)->Start());
  ASSERT_TRUE((*writer)->WriteTensorData(std::vector<std::byte>(3)));
  ASSERT_TRUE((*writer)->WriteTensorData(std::vector<std::byte>(5)));
  ASSERT_TRUE((*writer)->Finish());
  const auto file = File::Open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->Int("general.alignment").value(), 4096);
  // The mapping begins at a page, and so do the tensors.
  for (const TensorInfo& tensor : (*file)->tensors()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 4096, 0u);
  }
  EXPECT_EQ((*file)->num_file_bytes(), 3u * 4096);
}

TEST(Writer, MatchesBytesPutTogetherByHand) {
  const std::string path = TempPath("a.gguf");
  auto writer = MakeWriter(path);
  ASSERT_TRUE(writer->AddString("general.architecture", "llama"));
  ASSERT_TRUE(writer->AddInt("n", ValueType::kU32, 3));
  ASSERT_TRUE(writer->DeclareTensor("t", DType::kF32, {{2, 1, 1, 1}, 1}));
  ASSERT_TRUE(writer->Start());
  const std::string data = Raw(1.0f) + Raw(2.0f);
  ASSERT_TRUE(writer->WriteTensorData(std::as_bytes(std::span(data))));
  ASSERT_TRUE(writer->Finish());
  TestFile expected;
  expected.SetText("general.architecture", "llama").SetU32("n", 3);
  expected.SetTensor("t", DType::kF32, {2}, data);
  EXPECT_EQ(os::ReadFile(path).value(), expected.Bytes());
}

TEST(Writer, PowerInfersContainerDiffersInFourBytes) {
  const std::string path = TempPath("pwri");
  auto writer = Writer::Create(path, Container::kPowerInfer).value();
  ASSERT_TRUE(writer->AddBool("a", true));
  ASSERT_TRUE(writer->Start());
  ASSERT_TRUE(writer->Finish());
  const auto file = File::Open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->container(), Container::kPowerInfer);
  EXPECT_EQ((*file)->Bool("a").value(), true);
}

TEST(Writer, RefusesBadKeys) {
  auto writer = MakeWriter(TempPath("a.gguf"));
  ASSERT_TRUE(writer->AddBool("k", true));
  const Status twice = writer->AddInt("k", ValueType::kU8, 1);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(twice.error().message, HasSubstr("\"k\""));
  EXPECT_FALSE(writer->AddBool("", true));
  EXPECT_FALSE(writer->AddBool(std::string(65536, 'k'), true));
  EXPECT_FALSE(writer->AddInt("general.alignment", ValueType::kU32, 64));
}

TEST(Writer, RefusesValuesThatTheirTypeCannotHold) {
  const std::string path = TempPath("a.gguf");
  auto writer = MakeWriter(path);
  const struct {
    ValueType type;
    int64_t value;
  } cases[] = {
      {ValueType::kU8, 256},
      {ValueType::kU8, -1},
      {ValueType::kI8, 128},
      {ValueType::kU16, 65536},
      {ValueType::kI16, -32769},
      {ValueType::kU32, int64_t{1} << 32},
      {ValueType::kI32, int64_t{1} << 31},
      {ValueType::kU64, -1},

      {ValueType::kF32, 1},
      {ValueType::kString, 1},
      {ValueType::kArray, 1},
  };
  for (const auto& c : cases) {
    const Status status = writer->AddInt("k", c.type, c.value);
    ASSERT_FALSE(status) << NameOf(c.type);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(writer->AddKeyValue({"k", ValueType::kF32, int64_t{1}}));
  EXPECT_FALSE(writer->AddKeyValue({"k", ValueType::kU8, 1.0}));
  EXPECT_FALSE(writer->AddKeyValue({"k", ValueType::kU8, true}));
  EXPECT_FALSE(writer->AddKeyValue({"k", ValueType::kI64, ~uint64_t{0}}));
  EXPECT_FALSE(writer->AddKeyValue({"k", ValueType::kU8, std::string("x")}));
  EXPECT_FALSE(
      writer->AddArray("k", {ValueType::kU8, std::vector<int64_t>{1, 256}}));
  EXPECT_FALSE(
      writer->AddArray("k", {ValueType::kBool, std::vector<int64_t>{2}}));
  EXPECT_FALSE(writer->AddArray("k", {ValueType::kU8, std::vector<double>{1}}));
  EXPECT_FALSE(
      writer->AddArray("k", {ValueType::kArray, std::vector<int64_t>{1}}));
  // Nothing of them is left behind.
  ASSERT_TRUE(writer->AddInt("k", ValueType::kU8, 1));
  ASSERT_TRUE(writer->Start());
  ASSERT_TRUE(writer->Finish());
  EXPECT_EQ(os::ReadFile(path).value(),
            TestFile().Set("k", ValueType::kU8, "\1").Bytes());
}

TEST(Writer, RefusesBadTensors) {
  auto writer = MakeWriter(TempPath("a.gguf"));
  const Shape one = {{1, 1, 1, 1}, 1};
  ASSERT_TRUE(writer->DeclareTensor("t", DType::kF32, one));
  const Status twice = writer->DeclareTensor("t", DType::kF32, one);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(writer->DeclareTensor("", DType::kF32, one));
  EXPECT_FALSE(writer->DeclareTensor(std::string(64, 't'), DType::kF32, one));
  EXPECT_FALSE(writer->DeclareTensor("r", DType::kQ8_0, {{33, 1, 1, 1}, 1}));
  EXPECT_FALSE(writer->DeclareTensor("z", DType::kF32, {{0, 1, 1, 1}, 1}));
  EXPECT_FALSE(writer->DeclareTensor("s", DType::kF32, {}));
  EXPECT_FALSE(writer->DeclareTensor("h", DType::kF32,
                                     {{uint64_t{1} << 62, 1, 1, 1}, 1}));
}

TEST(Writer, LeavesNothingWithoutFinish) {
  const std::string path = TempPath("a.gguf");
  {
    auto writer = MakeWriter(path);
    ASSERT_TRUE(writer->AddBool("k", true));
    ASSERT_TRUE(writer->Start());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Of an input that changed on the way, half the output may be.
TEST(Writer, RefusesWhereAMappedFileChanged) {
  const std::string input = TempPath("in.gguf");
  {
    auto file = os::AtomicFile::Create(input).value();
    ASSERT_TRUE(file->Write(std::string_view("abc")));
    ASSERT_TRUE(file->Commit());
  }
  const std::string path = TempPath("a.gguf");
  auto writer = MakeWriter(path);
  ASSERT_TRUE(writer->Start());
  {
    const auto mapped = os::MappedFile::Open(input);
    ASSERT_TRUE(mapped);
    ASSERT_EQ(truncate(input.c_str(), 2), 0);
    const Status status = writer->Finish();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message, HasSubstr("in.gguf: was changed"));
  }
  writer.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Writer, SaysWhereItCannotWrite) {
  const auto writer = Writer::Create("/no/such/folder/a.gguf");
  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().message, HasSubstr("/no/such/folder/a.gguf"));
}

TEST(WriterDeathTest, TheOrderIsTheCallersDuty) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto writer = MakeWriter(TempPath("a.gguf"));
  ASSERT_TRUE(writer->DeclareTensor("t", DType::kF32, {{1, 1, 1, 1}, 1}));
  EXPECT_DEATH((void)writer->Finish(), "check failed");
  ASSERT_TRUE(writer->Start());
  EXPECT_DEATH((void)writer->Finish(), "check failed");
  EXPECT_DEATH((void)writer->AddBool("k", true), "check failed");
  const std::byte five[5] = {};
  EXPECT_DEATH((void)writer->WriteTensorData(five), "check failed");
}

// A header, and as much memory as its tensors would take, is a file.
TEST(Writer, AHeaderAloneIsWhatAFileBeginsWith) {
  const Shape shape = {.ne = {32, 3, 1, 1}, .rank = 2};
  const std::string path = TempPath("whole.gguf");
  std::string header;
  const auto whole = Writer::Create(path, Container::kGguf, 4096);
  ASSERT_TRUE(whole);
  const auto alone = Writer::OfHeader(header, 4096);
  for (Writer* writer : {whole->get(), alone.get()}) {
    ASSERT_TRUE(writer->AddString("general.architecture", "none"));
    ASSERT_TRUE(writer->DeclareTensor("a", DType::kF32, shape));
    ASSERT_TRUE(writer->DeclareTensor("b", DType::kQ4_0, shape));
    ASSERT_TRUE(writer->Start());
  }
  const std::vector<std::byte> data(32 * 3 * 4);
  ASSERT_TRUE((*whole)->WriteTensorData(data));
  ASSERT_TRUE((*whole)->WriteTensorData(std::span(data).first(3 * 18)));
  ASSERT_TRUE((*whole)->Finish());
  const std::string bytes = os::ReadFile(path).value();
  EXPECT_EQ(header.size(), 4096u);
  EXPECT_EQ(header, bytes.substr(0, header.size()));

  auto memory = os::AlignedBuffer::Reserve(bytes.size()).value();
  std::memcpy(memory.data(), header.data(), header.size());
  const auto file = File::Parse(std::move(memory), "a name");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->path(), "a name");
  EXPECT_EQ((*file)->FindTensor("b")->offset, 8192u);
  EXPECT_EQ((*file)->Tensor("b").data[53], std::byte{0});
  ASSERT_TRUE((*file)->Hold({.read = true}, {}));
  EXPECT_EQ((*file)->Tensor("a").num_bytes(), data.size());
  EXPECT_FALSE(File::Parse(os::AlignedBuffer(), "empty"));
}

}  // namespace
}  // namespace thermocline::gguf
