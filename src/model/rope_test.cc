#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace thermocline::model {
namespace {

// The expected numbers were computed outside of this program, in double, from
// the formulas in the header.
void ExpectAngles(const RopeTable& table, int64_t position,
                  const std::vector<float>& cosines,
                  const std::vector<float>& sines) {
  ASSERT_EQ(table.num_pairs(), cosines.size());
  std::vector<float> cos(cosines.size());
  std::vector<float> sin(cosines.size());
  table.Angles(position, cos.data(), sin.data());
  for (size_t i = 0; i < cosines.size(); ++i) {
    EXPECT_NEAR(cos[i], cosines[i], 3e-7f) << "cosine of pair " << i;
    EXPECT_NEAR(sin[i], sines[i], 3e-7f) << "sine of pair " << i;
  }
}

RopeConfig Plain(size_t width, float base) {
  RopeConfig config;
  config.width = width;
  config.freq_base = base;
  return config;
}

TEST(RopeTable, Plain) {
  const RopeTable table(Plain(8, 10000.0f), {});
  ExpectAngles(table, 3,
               {-0.989992497f, 0.955336489f, 0.999550034f, 0.9999955f},
               {0.141120008f, 0.295520207f, 0.0299955002f, 0.0029999955f});
  ExpectAngles(table, 0, {1, 1, 1, 1}, {0, 0, 0, 0});
}

TEST(RopeTable, AnotherBaseAndAFarPosition) {
  ExpectAngles(RopeTable(Plain(8, 500000.0f), {}), 131071,
               {-0.817983499f, -0.995123906f, -0.999964558f, 0.772797942f},
               {-0.575241684f, 0.0986327156f, -0.00841917254f, 0.634652141f});
}

TEST(RopeTable, LinearDividesTheAngle) {
  RopeConfig config = Plain(8, 10000.0f);
  config.scaling = RopeScaling::kLinear;
  config.factor = 4.0f;
  ExpectAngles(RopeTable(config, {}), 3,
               {0.731688869f, 0.997188818f, 0.999971875f, 0.999999719f},
               {0.68163876f, 0.0749297073f, 0.00749992969f, 0.00074999993f});
}

TEST(RopeTable, NoScalingIgnoresTheFactor) {
  RopeConfig config = Plain(8, 10000.0f);
  config.factor = 4.0f;
  ExpectAngles(RopeTable(config, {}), 3,
               {-0.989992497f, 0.955336489f, 0.999550034f, 0.9999955f},
               {0.141120008f, 0.295520207f, 0.0299955002f, 0.0029999955f});
}

TEST(RopeTable, FactorsDividePairByPair) {
  const std::vector<float> factors = {1.0f, 2.0f, 0.5f, 8.0f};
  ExpectAngles(RopeTable(Plain(8, 10000.0f), factors), 3,
               {-0.989992497f, 0.988771078f, 0.99820054f, 0.99999993f},
               {0.141120008f, 0.149438132f, 0.0599640065f, 0.000374999991f});
}

RopeConfig Yarn(size_t width, float factor, int64_t original_context) {
  RopeConfig config = Plain(width, 10000.0f);
  config.scaling = RopeScaling::kYarn;
  config.factor = factor;
  config.original_context = original_context;
  return config;
}

TEST(RopeTable, YarnBlendsBetweenItsCorrectionPairs) {
  // Pairs 0 to 2 keep their angle, 3 to 5 are blended, 6 and 7 interpolated.
  ExpectAngles(RopeTable(Yarn(16, 4.0f, 4096), {}), 100,
               {0.981861651f, 1.11435693f, -0.955391542f, -0.957233214f,
                0.923386479f, 1.12774977f, 1.13827363f, 1.13859385f},
               {-0.576562824f, 0.233849593f, -0.619438451f, 0.616588653f,
                0.666208978f, 0.157026928f, 0.0284627708f, 0.00900156231f});
}

TEST(RopeTable, YarnWithAttentionFactorAndFrequencyFactors) {
  RopeConfig config = Yarn(16, 4.0f, 4096);
  config.attention_factor = 0.5f;
  const std::vector<float> factors = {1, 1, 1, 1, 2, 2, 2, 4};
  ExpectAngles(RopeTable(config, factors), 100,
               {0.490930826f, 0.557178463f, -0.477695771f, -0.478616607f,
                0.541741638f, 0.567953131f, 0.569270241f, 0.569313606f},
               {-0.288281412f, 0.116924797f, -0.309719225f, 0.308294326f,
                0.175029271f, 0.0393508445f, 0.00711624865f, 0.00112520628f});
}

TEST(RopeTable, YarnOfAShortContextClampsItsPairs) {
  // Both correction pairs would lie below 1.
  ExpectAngles(RopeTable(Yarn(8, 2.0f, 16), {}), 5,
               {0.30332415f, 1.03607231f, 1.06898057f, 1.06931138f},
               {-1.02539184f, 0.264552695f, 0.0267300834f, 0.00267328401f});
}

TEST(RopeTable, MagnitudeAppliesWithoutYarnToo) {
  RopeConfig config = Plain(2, 10000.0f);
  config.attention_factor = 2.0f;
  ExpectAngles(RopeTable(config, {}), 0, {2}, {0});
}

TEST(RopeTable, NothingToRotate) {
  EXPECT_EQ(RopeTable(Plain(0, 10000.0f), {}).num_pairs(), 0);
}

TEST(RopeTableDeathTest, FactorsMustMatchThePairs) {
  const std::vector<float> factors(3, 1.0f);
  EXPECT_DEATH(RopeTable(Plain(8, 10000.0f), factors), "check failed");
}

}  // namespace
}  // namespace thermocline::model
