#include "device/device.h"

#include <gtest/gtest.h>

namespace thermocline::device {
namespace {

// What a Buffer does with its device is in test_contract.h, for every device.
TEST(Buffer, ThatHoldsNothingFreesNothing) {
  Buffer buffer;
  EXPECT_FALSE(buffer);
  EXPECT_EQ(buffer.size(), 0u);
  Buffer other = std::move(buffer);
  buffer = std::move(other);
  EXPECT_FALSE(buffer);
}

}  // namespace
}  // namespace thermocline::device
