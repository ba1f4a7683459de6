#include "neuron/crc32.h"

#include <gtest/gtest.h>

#include <string_view>

namespace thermocline::neuron {
namespace {

uint32_t CrcOf(std::string_view text, uint32_t crc = 0) {
  return Crc32(std::as_bytes(std::span(text)), crc);
}

// The check value that every description of CRC-32 has.
TEST(Crc32Test, KnownValues) {
  EXPECT_EQ(CrcOf("123456789"), 0xcbf43926u);
  EXPECT_EQ(CrcOf(""), 0u);
  EXPECT_EQ(CrcOf("The quick brown fox jumps over the lazy dog"), 0x414fa339u);
}

TEST(Crc32Test, GoesOn) {
  EXPECT_EQ(CrcOf("6789", CrcOf("12345")), CrcOf("123456789"));
}

}  // namespace
}  // namespace thermocline::neuron
