#include "gguf/file_type.h"

#include <gtest/gtest.h>

#include <set>

namespace thermocline::gguf {
namespace {

TEST(QuantizeTypesTest, NamesInAnyCaseAndShortOnes) {
  for (const FileTypeInfo& info : FileTypes()) {
    ASSERT_NE(FindFileType(info.name), nullptr);
    EXPECT_EQ(FindFileType(info.name)->type, info.type);
    EXPECT_EQ(&InfoOf(info.type), FindFileType(info.name));
  }
  EXPECT_EQ(FindFileType("q4_k_m")->type, FileType::kQ4_K_M);
  EXPECT_EQ(FindFileType("Bf16")->type, FileType::kBF16);
  EXPECT_EQ(FindFileType("q4_K")->type, FileType::kQ4_K_M);
  EXPECT_EQ(FindFileType("Q5_K")->type, FileType::kQ5_K_M);
  for (const char* name : {"", "Q4", "Q4_K_L", "Q2_K", "Q4_K_M ", "15"}) {
    EXPECT_EQ(FindFileType(name), nullptr) << name;
  }
}

TEST(QuantizeTypesTest, EveryTypeOnceAndComputable) {
  std::set<FileType> types;
  for (const FileTypeInfo& info : FileTypes()) {
    EXPECT_TRUE(types.insert(info.type).second) << info.name;
    EXPECT_TRUE(InfoOf(info.dtype).can_compute) << info.name;
  }
  EXPECT_EQ(types.size(), 13u);
}

TEST(QuantizeTypesTest, OfAnElementType) {
  EXPECT_EQ(FileTypeOf(DType::kF32), FileType::kF32);
  EXPECT_EQ(FileTypeOf(DType::kBF16), FileType::kBF16);
  EXPECT_EQ(FileTypeOf(DType::kQ8_0), FileType::kQ8_0);
  EXPECT_EQ(FileTypeOf(DType::kQ4_K), FileType::kQ4_K_S);
}

}  // namespace
}  // namespace thermocline::gguf
