#include "base/keyed_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <unordered_map>

namespace thermocline {
namespace {

// Key bytes 00..0f, messages of n bytes 00, 01, ...: from a transcription of
// the paper in another language, which gives the paper's own vector for
// SipHash-2-4.
TEST(KeyedHashTest, KnownAnswers) {
  const HashKey key = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  std::string message;
  for (char i = 0; i < 15; ++i) message.push_back(i);
  EXPECT_EQ(SipHash13(key, ""), 0xabac0158050fc4dcu);
  EXPECT_EQ(SipHash13(key, message.substr(0, 1)), 0xc9f49bf37d57ca93u);
  EXPECT_EQ(SipHash13(key, message.substr(0, 8)), 0x369095118d299a8eu);
  EXPECT_EQ(SipHash13(key, message), 0xd320d86d2a519956u);
}

TEST(KeyedHashTest, TheKeyMatters) {
  EXPECT_NE(SipHash13({1, 2}, "a"), SipHash13({1, 3}, "a"));
  EXPECT_NE(SipHash13({1, 2}, "a"), SipHash13({2, 2}, "a"));
}

TEST(KeyedHashTest, ServesMaps) {
  std::unordered_map<std::string, int, KeyedHash, std::equal_to<>> by_name;
  by_name["a"] = 1;
  EXPECT_NE(by_name.find(std::string_view("a")), by_name.end());
  EXPECT_EQ(by_name.find(std::string_view("b")), by_name.end());
  std::unordered_map<uint64_t, int, KeyedHash, std::equal_to<>> by_number;
  by_number[7] = 2;
  EXPECT_EQ(by_number.at(7), 2);
}

}  // namespace
}  // namespace thermocline
