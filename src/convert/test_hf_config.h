// For tests: config.json read from JSON, and what must be refused with a
// message that names the file.
#ifndef THERMOCLINE_CONVERT_TEST_HF_CONFIG_H_
#define THERMOCLINE_CONVERT_TEST_HF_CONFIG_H_

#include <gtest/gtest.h>

#include <string>

#include "convert/hf_config.h"
#include "convert/hf_test_folder.h"

namespace thermocline::convert {

inline Result<HfConfig> Parse(const Json& json) {
  return ParseHfConfig(json.dump(), "config.json");
}

inline void ExpectBad(const Json& json, ErrorCode code,
                      const std::string& part) {
  const auto config = Parse(json);
  ASSERT_FALSE(config.has_value()) << part;
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_NE(config.error().message.find("config.json"), std::string::npos);
  EXPECT_NE(config.error().message.find(part), std::string::npos)
      << config.error().message;
}

}  // namespace thermocline::convert

#endif  // THERMOCLINE_CONVERT_TEST_HF_CONFIG_H_
