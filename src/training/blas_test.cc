#include "training/blas.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

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

TEST(BlasTest, HasItsSpaceBeforeTheFirstProduct) {
  const auto blas = LoadBlas();
  ASSERT_TRUE(blas) << blas.error().message;
  EXPECT_TRUE(ReserveSpace(**blas, 2));
  // More than processors can address: must not ask for it for ever.
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
