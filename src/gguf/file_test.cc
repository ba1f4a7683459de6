// Files on disk: real ones, split ones, ones that change under the mapping.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "gguf/split.h"
#include "gguf/test_file.h"
#include "os/file.h"
#include "os/memory.h"

namespace thermocline::gguf {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A folder of its own for each test; removed afterwards.
class Files : public ::testing::Test {
 protected:
  Files()
      : folder_(fmt::format(
            "{}file_{}_{}", ::testing::TempDir(), getpid(),
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  void WriteShard(int number, int count, TestFile& file) const {
    Write(fs::path(ShardPath("m", number, count)), file.Bytes());
  }
  std::string Shard(int number, int count) const {
    return Path(ShardPath("m", number, count));
  }

 private:
  std::string folder_;
};

// What lies on disk where a span says.
std::string BytesAt(const File& file, const FileSpan& span) {
  const std::string path = file.shard_path(span.shard_idx);
  EXPECT_LE(span.offset + span.num_bytes, fs::file_size(path));
  std::string bytes(span.num_bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(span.offset));
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(in.good());
  return bytes;
}

std::string Refusal(const std::string& path) {
  const auto file = File::Open(path);
  return file ? "" : file.error().message;
}

TestFile ShardFile(int split_no, int count) {
  TestFile file;
  file.Set("split.no", ValueType::kU16, Raw(static_cast<uint16_t>(split_no)));
  file.Set("split.count", ValueType::kU16, Raw(static_cast<uint16_t>(count)));
  file.Set("split.tensors.count", ValueType::kI32, Raw(int32_t{3}));
  return file;
}

// Three tensors in three files: none, one and two of them.
std::vector<TestFile> ThreeShards() {
  std::vector<TestFile> shards = {ShardFile(0, 3), ShardFile(1, 3),
                                  ShardFile(2, 3)};
  shards[0].SetText("general.architecture", "llama");
  shards[1].SetTensor("a", DType::kF32, {1}, Raw(1.0f));
  shards[2].SetTensor("b", DType::kF32, {1}, Raw(2.0f));
  shards[2].SetTensor("c", DType::kF32, {1}, Raw(3.0f));
  return shards;
}

class Shards : public Files {
 protected:
  // What is said of the three, after `change`.
  template <typename F>
  std::string RefusalAfter(F&& change) {
    std::vector<TestFile> shards = ThreeShards();
    change(shards);
    for (int i = 0; i < 3; ++i) {
      WriteShard(i + 1, 3, shards[static_cast<size_t>(i)]);
    }
    return Refusal(Shard(1, 3));
  }
};

TEST_F(Shards, AreOneModel) {
  ASSERT_EQ(RefusalAfter([](auto&) {}), "");
  const auto opened = File::Open(Shard(1, 3));
  const File& file = **opened;
  EXPECT_EQ(file.path(), Shard(1, 3));
  EXPECT_EQ(file.num_shards(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(file.shard_path(static_cast<uint32_t>(i)), Shard(i + 1, 3));
  }
  EXPECT_EQ(file.num_file_bytes(), fs::file_size(Shard(1, 3)) +
                                       fs::file_size(Shard(2, 3)) +
                                       fs::file_size(Shard(3, 3)));
  EXPECT_EQ(file.String("general.architecture").value(), "llama");
  ASSERT_EQ(file.tensors().size(), 3u);
  float expected = 1.0f;
  for (const char* name : {"a", "b", "c"}) {
    const TensorInfo* info = file.FindTensor(name);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->shard_idx, expected == 1.0f ? 1u : 2u);
    EXPECT_EQ(std::memcmp(info->data, &expected, 4), 0);
    EXPECT_EQ(BytesAt(file, info->span()), Raw(expected));
    expected += 1.0f;
  }
}

TEST_F(Shards, OnlyTheFirstOpens) {
  ASSERT_EQ(RefusalAfter([](auto&) {}), "");
  EXPECT_THAT(Refusal(Shard(2, 3)),
              AllOf(HasSubstr("open the first"), HasSubstr(Shard(1, 3))));
}

TEST_F(Shards, MissingOne) {
  ASSERT_EQ(RefusalAfter([](auto&) {}), "");
  fs::remove(Shard(3, 3));
  const auto file = File::Open(Shard(1, 3));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message,
              AllOf(HasSubstr("part 3 of 3"), HasSubstr(Shard(3, 3))));
}

TEST_F(Shards, CountLies) {
  const auto lie = [&](int32_t count) {
    return RefusalAfter([&](auto& shards) {
      shards[0].Set("split.count", ValueType::kI32, Raw(count));
    });
  };
  EXPECT_THAT(lie(2), HasSubstr("must be named"));
  EXPECT_THAT(lie(4), HasSubstr("must be named"));
  EXPECT_THAT(lie(-1), HasSubstr("split.count"));
  EXPECT_THAT(lie(INT32_MAX), HasSubstr("split.count"));
}

TEST_F(Shards, CountOfAnotherType) {
  EXPECT_THAT(
      RefusalAfter([](auto& shards) { shards[0].SetText("split.count", "3"); }),
      HasSubstr("expected an integer"));
}

TEST_F(Shards, WrongNumbersInside) {
  EXPECT_THAT(RefusalAfter([](auto& shards) {
                shards[1].Set("split.no", ValueType::kU16, Raw(uint16_t{2}));
              }),
              HasSubstr("split.no is 2"));
  EXPECT_THAT(RefusalAfter([](auto& shards) {
                shards[2].Set("split.count", ValueType::kU16, Raw(uint16_t{4}));
              }),
              HasSubstr("split.count is 4"));
  EXPECT_THAT(RefusalAfter([](auto& shards) { shards[1].Remove("split.no"); }),
              HasSubstr("split.no is missing"));
}

TEST_F(Shards, TensorTotal) {
  EXPECT_THAT(RefusalAfter([](auto& shards) {
                shards[0].SetU32("split.tensors.count", 4);
              }),
              HasSubstr("is 4, but the 3 files hold 3 tensors"));
  EXPECT_THAT(RefusalAfter([](auto& shards) {
                shards[0].Remove("split.tensors.count");
              }),
              HasSubstr("split.tensors.count"));
}

TEST_F(Shards, SameTensorInTwo) {
  EXPECT_THAT(RefusalAfter([](auto& shards) {
                shards[2].RemoveTensor("b");
                shards[2].SetTensor("a", DType::kF32, {1});
              }),
              HasSubstr("\"a\" occurs twice"));
}

TEST_F(Shards, DamageIsBlamedOnItsFile) {
  ASSERT_EQ(RefusalAfter([](auto&) {}), "");
  fs::resize_file(Shard(3, 3), fs::file_size(Shard(3, 3)) - 40);
  EXPECT_THAT(Refusal(Shard(1, 3)),
              AllOf(HasSubstr(Shard(3, 3)), HasSubstr("truncated")));
}

TEST_F(Shards, RenamedFirst) {
  ASSERT_EQ(RefusalAfter([](auto&) {}), "");
  fs::rename(Shard(1, 3), Path("model.gguf"));
  EXPECT_THAT(Refusal(Path("model.gguf")), HasSubstr("renamed"));
}

TEST_F(Shards, LinkedFromElsewhere) {
  // As download caches lay them out: names are links to nameless files.
  ASSERT_EQ(RefusalAfter([](auto&) {}), "");
  fs::create_directory(Path("links"));
  for (int i = 1; i <= 3; ++i) {
    fs::rename(Shard(i, 3), Path("blob" + std::to_string(i)));
    fs::create_symlink("../blob" + std::to_string(i),
                       Path("links/") + ShardPath("m", i, 3));
  }
  EXPECT_EQ(Refusal(Path("links/") + ShardPath("m", 1, 3)), "");
  fs::remove(Path("blob2"));
  EXPECT_THAT(Refusal(Path("links/") + ShardPath("m", 1, 3)),
              HasSubstr("part 2 of 3"));
}

// 0 is what a tool writes that joins the parts of a model.
TEST_F(Files, CountOfOneOrNoneIsAWholeModel) {
  for (const int count : {0, 1}) {
    TestFile file = ShardFile(0, count);
    file.SetTensor("a", DType::kF32, {1}, Raw(1.0f));
    EXPECT_EQ(Refusal(Write("any-name.gguf", file.Bytes())), "") << count;
  }
}

TEST_F(Files, ThatAreNotThere) {
  const auto file = File::Open(Path("absent.gguf"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, HasSubstr(Path("absent.gguf")));
}

TEST_F(Files, ThatAreFoldersOrEmpty) {
  EXPECT_NE(Refusal(Path("")), "");
  EXPECT_THAT(Refusal(Write("empty.gguf", "")), HasSubstr("empty"));
}

TEST(RealFiles, Open) {
  const fs::path root = TC_TEST_DATA;
  int num_models = 0;
  int num_vocabularies = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = File::Open(entry.path());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->version(), 3u);
    EXPECT_EQ((*file)->num_file_bytes(), entry.file_size());
    ++((*file)->tensors().empty() ? num_vocabularies : num_models);
  }
  EXPECT_GE(num_models, 12);
  EXPECT_GE(num_vocabularies, 3);
}

TEST(RealFiles, KnownContent) {
  const auto opened =
      File::Open(std::string(TC_TEST_DATA) + "/golden/llama-gqa-Q4_K_M.gguf");
  ASSERT_TRUE(opened) << opened.error().message;
  const File& file = **opened;
  EXPECT_EQ(file.metadata().size(), 20u);
  EXPECT_EQ(file.tensors().size(), 21u);
  EXPECT_EQ(file.Int("llama.embedding_length").value(), 256);
  EXPECT_EQ(file.String("general.name").value(), "tiny-llama");
  const TensorInfo* v = file.FindTensor("blk.1.attn_v.weight");
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(v->dtype, DType::kQ6_K);
  EXPECT_EQ(ToString(v->shape), "[256, 64]");
  EXPECT_EQ(v->num_bytes, 13440u);
  EXPECT_EQ(v->data - file.FindTensor("output.weight")->data, 513664);
}

TEST(RealFiles, PowerInfersContainer) {
  const fs::path root = TC_TEST_DATA;
  const auto sparse =
      File::Open(root / "golden-powerinfer/llama-f16.powerinfer.gguf");
  ASSERT_TRUE(sparse) << sparse.error().message;
  EXPECT_EQ((*sparse)->container(), Container::kPowerInfer);
  EXPECT_NE((*sparse)->FindTensor("blk.0.fc1.weight"), nullptr);
  const auto plain = File::Open(root / "golden/llama-gqa-f16.gguf");
  ASSERT_TRUE(plain);
  EXPECT_EQ((*plain)->container(), Container::kGguf);
}

TEST_F(Shards, OfAnotherContainer) {
  TestFile first = ShardFile(0, 2);
  first.SetTensor("a", DType::kF32, {4});
  WriteShard(1, 2, first);
  TestFile second = ShardFile(1, 2);
  second.magic = "PWRI";
  second.SetTensor("b", DType::kF32, {4}).SetTensor("c", DType::kF32, {4});
  WriteShard(2, 2, second);
  EXPECT_THAT(Refusal(Shard(1, 2)),
              AllOf(HasSubstr("00002"), HasSubstr("PWRI"), HasSubstr("GGUF")));
}

// Two tensors, the first of three quarters of a megabyte.
class HeldFiles : public Files {
 protected:
  HeldFiles() : path_(Write("m.gguf", Model().Bytes())) {}
  static TestFile Model() {
    TestFile file;
    std::string large(3 << 18, '\0');
    for (size_t i = 0; i < large.size(); ++i) {
      large[i] = static_cast<char>(i % 251);
    }
    file.SetText("general.architecture", "llama")
        .SetTensor("large", DType::kF32, {3 << 16}, large)
        .SetTensor("small", DType::kF32, {1}, Raw(2.0f));
    return file;
  }
  // That the tensors are those of an open file, which stays as it is.
  void ExpectSameTensors(const File& file) const {
    const auto other = File::Open(path_).value();
    for (const TensorInfo& info : file.tensors()) {
      const TensorInfo* mapped = other->FindTensor(info.name);
      ASSERT_NE(mapped, nullptr);
      EXPECT_NE(info.data, mapped->data);
      EXPECT_EQ(std::memcmp(info.data, mapped->data, info.num_bytes), 0);
      EXPECT_EQ(info.span(), mapped->span());
    }
  }
  const std::string path_;
};

TEST_F(HeldFiles, MappedIsTheDefault) {
  const auto file = File::Open(path_).value();
  EXPECT_FALSE(file->held().any());
  EXPECT_EQ(file->num_held_bytes(), 0u);
  EXPECT_NE(os::FindMappedFile(file->tensors()[0].data), nullptr);
}

TEST_F(HeldFiles, MemoryOfSomebodyElseIsNotHeld) {
  const std::string bytes = TestFile().Bytes();
  const auto file =
      File::Parse(std::as_bytes(std::span(bytes)), "parsed").value();
  ASSERT_TRUE(file->Hold({.read = true, .lock = true}, {}));
  EXPECT_FALSE(file->held().any());
}

TEST_F(HeldFiles, ReadIntoMemoryNeedsTheFileNoMore) {
  const auto file = File::Open(path_).value();
  uint64_t last_done = 0;
  const Status held =
      file->Hold({.read = true},
                 [&](std::string_view, uint64_t num_done, uint64_t num_total) {
                   EXPECT_EQ(num_total, file->num_file_bytes());
                   last_done = num_done;
                 });
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(last_done, file->num_file_bytes());
  EXPECT_TRUE(file->held().read);
  EXPECT_EQ(file->num_held_bytes(), file->num_file_bytes());
  EXPECT_EQ(os::FindMappedFile(file->tensors()[0].data), nullptr);
  ExpectSameTensors(*file);
  fs::resize_file(path_, 100);
  EXPECT_EQ(std::to_integer<int>(file->tensors()[0].data[500]), 500 % 251);
}

TEST_F(HeldFiles, WhatIsLeftOutHasNoData) {
  const auto mapped = File::Open(path_).value();
  const auto file = File::Open(path_).value();
  const std::string left_out = file->tensors()[0].name;
  uint64_t last_done = 0;
  const Status held = file->Hold({.read = true, .left_out = {left_out}},
                                 [&](std::string_view, uint64_t num_done,
                                     uint64_t) { last_done = num_done; });
  ASSERT_TRUE(held) << held.error().message;
  uint64_t num_kept = 0;
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const TensorInfo& tensor = file->tensors()[i];
    EXPECT_EQ(tensor.span(), mapped->tensors()[i].span());
    if (tensor.name == left_out) {
      EXPECT_EQ(tensor.data, nullptr);
      continue;
    }
    num_kept += tensor.num_bytes;
    EXPECT_EQ(os::FindMappedFile(tensor.data), nullptr);
    EXPECT_EQ(
        std::memcmp(tensor.data, mapped->tensors()[i].data, tensor.num_bytes),
        0);
  }
  EXPECT_GT(num_kept, 0u);
  EXPECT_GE(last_done, num_kept);
  EXPECT_EQ(file->num_held_bytes(), num_kept);
}

TEST_F(HeldFiles, TruncatedMeanwhile) {
  const auto file = File::Open(path_).value();
  fs::resize_file(path_, 1000);
  const Status held = file->Hold({.read = true}, {});
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, ErrorCode::kIo);
  EXPECT_THAT(held.error().message,
              AllOf(HasSubstr("m.gguf"), HasSubstr("ended at byte 1000 of ")));
}

TEST_F(HeldFiles, LockedMappedAndRead) {
  for (const bool read : {false, true}) {
    const auto file = File::Open(path_).value();
    const uint64_t before = os::ReadProcessMemory().locked_bytes;
    ASSERT_TRUE(file->Hold({.read = read, .lock = true}, {}));
    // False where the limit is low: a warning.
    if (!file->held().lock)
      GTEST_SKIP()
          << "needs a limit of locked memory (ulimit -l) of a megabyte";
    EXPECT_EQ(file->held().read, read);
    EXPECT_EQ(file->num_held_bytes(), file->num_file_bytes());
    EXPECT_GE(os::ReadProcessMemory().locked_bytes, before + (3 << 18));
  }
}

TEST_F(Shards, AreReadIntoMemoryTogether) {
  ASSERT_EQ(RefusalAfter([](auto&) {}), "");
  const auto file = File::Open(Shard(1, 3)).value();
  std::vector<uint64_t> progress;
  const Status held =
      file->Hold({.read = true},
                 [&](std::string_view, uint64_t num_done, uint64_t num_total) {
                   EXPECT_EQ(num_total, file->num_file_bytes());
                   progress.push_back(num_done);
                 });
  ASSERT_TRUE(held) << held.error().message;
  ASSERT_EQ(progress.size(), 3u);
  EXPECT_EQ(progress.back(), file->num_file_bytes());
  float expected = 1.0f;
  for (const char* name : {"a", "b", "c"}) {
    const TensorInfo* info = file->FindTensor(name);
    EXPECT_EQ(os::FindMappedFile(info->data), nullptr);
    EXPECT_EQ(std::memcmp(info->data, &expected, 4), 0);
    expected += 1.0f;
  }
  EXPECT_EQ(file->num_held_bytes(), file->num_file_bytes());
}

TEST_F(Shards, TruncationOfOneNamesIt) {
  ASSERT_EQ(RefusalAfter([](auto&) {}), "");
  const auto file = File::Open(Shard(1, 3)).value();
  fs::resize_file(Shard(2, 3), 40);
  const Status held = file->Hold({.read = true}, {});
  ASSERT_FALSE(held);
  EXPECT_THAT(held.error().message, HasSubstr(Shard(2, 3)));
}

using FilesDeathTest = Files;

TEST_F(FilesDeathTest, ShrinkingUnderTheMapRaisesSigbusAndNothingElse) {
  // The child shares the folder; started anew it would leave one behind.
  GTEST_FLAG_SET(death_test_style, "fast");
  TestFile file;
  file.SetTensor("t", DType::kF32, {uint64_t{1} << 16});
  const std::string path = Write("shrinks.gguf", file.Bytes());
  const auto opened = File::Open(path);
  ASSERT_TRUE(opened) << opened.error().message;
  fs::resize_file(path, 1000);
  // The metadata lives in memory of its own.
  EXPECT_EQ((*opened)->tensors()[0].name, "t");
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);  // a sanitizer would report it its own way
        const TensorInfo& info = (*opened)->tensors()[0];
        const volatile std::byte* last = info.data + info.num_bytes - 1;
        exit(static_cast<int>(*last));
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace thermocline::gguf
