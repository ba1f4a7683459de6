#include "kernels/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

namespace thermocline::kernels {
namespace {

TEST(IsaTest, NamesRoundTrip) {
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512,
                  Isa::kAvx512Vnni, Isa::kAmx, Isa::kNeonDotprod}) {
    EXPECT_EQ(ParseIsa(NameOf(isa)), isa) << NameOf(isa);
  }
  EXPECT_EQ(NameOf(Isa::kAvxVnni), "avx-vnni");
  EXPECT_EQ(NameOf(Isa::kAvx512Vnni), "avx512-vnni");
  EXPECT_EQ(NameOf(Isa::kAmx), "amx");
  EXPECT_EQ(NameOf(Isa::kNeonDotprod), "neon-dotprod");
}

TEST(IsaTest, UnknownNamesAreRefused) {
  EXPECT_EQ(ParseIsa(""), std::nullopt);
  EXPECT_EQ(ParseIsa("AVX2"), std::nullopt);
  EXPECT_EQ(ParseIsa("avx512-vnni "), std::nullopt);
}

TEST(IsaTest, SupportedStartsWithScalarAndRises) {
  const std::vector<Isa> isas = SupportedIsas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kScalar);
  EXPECT_EQ(isas.back(), BestIsa());
  EXPECT_TRUE(std::is_sorted(isas.begin(), isas.end()));
  EXPECT_EQ(std::adjacent_find(isas.begin(), isas.end()), isas.end());
}

#if defined(__x86_64__)
// /proc/cpuinfo is another witness; an emulator shows the machine's own.
bool CpuInfoHas(const std::string& word) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return text.find(word) != text.npos;
}

TEST(IsaTest, KnowsWhoMadeTheCpu) {
  EXPECT_EQ(IsAmd(), CpuInfoHas("AuthenticAMD"));
}

TEST(IsaTest, FindsAvxVnniWhereTheSystemDoes) {
  EXPECT_EQ(std::ranges::count(SupportedIsas(), Isa::kAvxVnni) > 0,
            CpuInfoHas(" avx_vnni"));
}
#else
TEST(IsaTest, NobodyElsesCpuIsAmds) { EXPECT_FALSE(IsAmd()); }
#endif

TEST(IsaTest, SupportedBelongsToThisArchitecture) {
  const std::vector<Isa> isas = SupportedIsas();
#if defined(__x86_64__)
  EXPECT_THAT(isas, ::testing::Not(::testing::Contains(Isa::kNeonDotprod)));
  EXPECT_EQ(__builtin_cpu_supports("avx2") != 0,
            std::find(isas.begin(), isas.end(), Isa::kAvx2) != isas.end());
#else
  EXPECT_THAT(isas, ::testing::Not(::testing::Contains(Isa::kAvx2)));
#endif
}

}  // namespace
}  // namespace thermocline::kernels
