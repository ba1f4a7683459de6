#include "neuron/active_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "base/random.h"

namespace thermocline::neuron {
namespace {

using ::testing::ElementsAre;

std::vector<std::byte> Encoded(const std::vector<uint32_t>& set,
                               uint32_t num_neurons) {
  std::vector<std::byte> bytes;
  AppendActiveSet(set, num_neurons, bytes);
  return bytes;
}

// From a copy of exactly that size, so that a sanitizer sees reads behind it.
std::optional<size_t> Read(std::span<const std::byte> bytes,
                           uint32_t num_neurons, std::vector<uint32_t>& set) {
  const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  return ReadActiveSet({copy.get(), bytes.size()}, num_neurons, set);
}

std::vector<int> Numbers(const std::vector<std::byte>& bytes) {
  std::vector<int> numbers;
  for (const std::byte byte : bytes) numbers.push_back(static_cast<int>(byte));
  return numbers;
}

TEST(ActiveSetTest, BytesAsDocumented) {
  EXPECT_THAT(Numbers(Encoded({}, 100)), ElementsAre(0));
  EXPECT_THAT(Numbers(Encoded({3, 5, 6}, 1000)), ElementsAre(6, 3, 1, 0));
  EXPECT_THAT(Numbers(Encoded({200}, 1000)), ElementsAre(2, 0xc8, 1));
  EXPECT_THAT(Numbers(Encoded({0, 2, 4, 9}, 10)),
              ElementsAre(9, 0b10101, 0b10));
}

TEST(ActiveSetTest, RoundTripAtOddSizes) {
  Random random(5);
  for (const uint32_t num_neurons :
       {1u, 7u, 8u, 9u, 63u, 64u, 65u, 1000u, 16385u}) {
    for (const double density : {0.0, 0.001, 0.1, 0.125, 0.5, 1.0}) {
      std::vector<uint32_t> set;
      for (uint32_t i = 0; i < num_neurons; ++i) {
        if (random.Uniform() < density) set.push_back(i);
      }
      const std::vector<std::byte> bytes = Encoded(set, num_neurons);
      // A head of at most three bytes, and no more than all neurons' bits.
      EXPECT_LE(bytes.size(), 3 + (num_neurons + 7) / 8);
      std::vector<uint32_t> got = {99};
      EXPECT_EQ(Read(bytes, num_neurons, got), bytes.size());
      EXPECT_EQ(got, set);
      for (size_t n = 0; n < bytes.size(); ++n) {
        EXPECT_FALSE(Read(std::span(bytes).first(n), num_neurons, got));
      }
    }
  }
}

TEST(ActiveSetTest, TheLargestNumbers) {
  constexpr uint32_t kMost = uint32_t{1} << 31;
  const std::vector<uint32_t> set = {0, kMost / 2, kMost - 1};
  const std::vector<std::byte> bytes = Encoded(set, kMost);
  std::vector<uint32_t> got;
  EXPECT_EQ(Read(bytes, kMost, got), bytes.size());
  EXPECT_EQ(got, set);
  EXPECT_FALSE(Read(bytes, kMost - 1, got));
}

TEST(ActiveSetTest, RefusesWhatIsNoSet) {
  const auto refused = [](const std::vector<int>& numbers,
                          uint32_t num_neurons) {
    std::vector<std::byte> bytes;
    for (const int n : numbers) bytes.push_back(static_cast<std::byte>(n));
    std::vector<uint32_t> set;
    return !Read(bytes, num_neurons, set).has_value();
  };
  EXPECT_FALSE(refused({2, 7}, 8));
  EXPECT_TRUE(refused({2, 8}, 8));         // a neuron too far
  EXPECT_TRUE(refused({4, 7, 0}, 8));      // and by a second gap
  EXPECT_TRUE(refused({18, 0, 0, 0}, 8));  // more than there are
  EXPECT_TRUE(refused({0x80, 0}, 8));      // a number too long
  EXPECT_TRUE(refused({2, 0x87, 0}, 8));   // likewise
  EXPECT_TRUE(refused({2, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 8));
  EXPECT_FALSE(refused({5, 0b11}, 8));
  EXPECT_TRUE(refused({5, 0b1}, 8));        // fewer bits than it says
  EXPECT_TRUE(refused({5, 0b111}, 8));      // more
  EXPECT_TRUE(refused({3, 0, 0b100}, 10));  // a bit behind the last
  EXPECT_TRUE(refused({}, 8));
}

// Whatever form they would take, and though the last member is in range.
TEST(ActiveSetDeathTest, SetsAscendAndStayInside) {
  std::vector<std::byte> bytes;
  const auto append = [&](const std::vector<uint32_t>& set,
                          uint32_t num_neurons) {
    AppendActiveSet(set, num_neurons, bytes);
  };
  EXPECT_DEATH(append({7, 1}, 8), "check failed");
  EXPECT_DEATH(append({1, 1}, 8), "check failed");
  EXPECT_DEATH(append({999, 1}, 1000), "check failed");
  EXPECT_DEATH(append({8}, 8), "check failed");
  EXPECT_DEATH(append({4'000'000'000, 0}, 8), "check failed");
  EXPECT_DEATH(append({~uint32_t{0}, 0}, 8), "check failed");
}

}  // namespace
}  // namespace thermocline::neuron
