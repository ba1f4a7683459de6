#include "training/blas.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/isa.h"

namespace thermocline::training {
namespace {

TEST(BlasTest, ComputesOnceItIsLoaded) {
  const auto blas = LoadBlas();
  ASSERT_TRUE(blas) << blas.error().message;
  EXPECT_EQ(*LoadBlas(), *blas);
  const float a[] = {1, 2, 3, 4};
  const float b[] = {1, 0, 1, 1};
  float out[4] = {};
  (*blas)->sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 2, 2, 1.0f, a, 2,
                 b, 2, 0.0f, out, 2);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 2);
  EXPECT_EQ(out[2], 7);
  EXPECT_EQ(out[3], 4);
}

// Address space that this process has.
size_t MappedBytes() {
  size_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  return num_pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(BlasTest, HasItsSpaceBeforeTheFirstProduct) {
  const auto blas = LoadBlas();
  ASSERT_TRUE(blas) << blas.error().message;
  // More than other tests have had products at a time.
  constexpr int kNumThreads = 12;
  ASSERT_TRUE(ReserveSpace(**blas, kNumThreads));
  if ((*blas)->take_space == nullptr) GTEST_SKIP() << "spaces are not shown";
  const size_t before = MappedBytes();
  std::vector<void*> spaces;
  for (int i = 0; i < kNumThreads; ++i) {
    spaces.push_back((*blas)->take_space(0));
  }
  // Less than one of them.
  EXPECT_LT(MappedBytes(), before + (size_t{16} << 20));
  for (void* space : spaces) (*blas)->give_space(space);
}

// Must not ask for it for ever.
TEST(BlasTest, MoreSpaceThanProcessorsCanAddressIsRefused) {
  const auto blas = LoadBlas();
  ASSERT_TRUE(blas) << blas.error().message;
  const Status refused = ReserveSpace(**blas, 1 << 21);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("libopenblas"));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("no memory"));
}

// Whatever the library thinks that the processor is.
TEST(BlasTest, TakesTheVectorsThatThereAre) {
  if (kernels::BestIsa() < kernels::Isa::kAvx2 ||
      kernels::BestIsa() > kernels::Isa::kAmx) {
    GTEST_SKIP() << "needs AVX2";
  }
  ASSERT_TRUE(LoadBlas());
  void* library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto core_name = reinterpret_cast<decltype(&::openblas_get_corename)>(
      ::dlsym(library, "openblas_get_corename"));
  ASSERT_NE(core_name, nullptr);
  const std::string core = core_name();
  // Unless someone else has set it.
  EXPECT_EQ(core, std::getenv("OPENBLAS_CORETYPE"));
  ::dlclose(library);
}

}  // namespace
}  // namespace thermocline::training
