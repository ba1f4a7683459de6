// For tests: config.json read from JSON, and what must be refused with a
// message that names the file.
#ifndef THERMOCLINE_IMPORT_TEST_HF_CONFIG_H_
#define THERMOCLINE_IMPORT_TEST_HF_CONFIG_H_

#include <gtest/gtest.h>

#include <string>

#include "import/hf_config.h"
#include "import/hf_test_folder.h"

namespace thermocline::importer {

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

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_TEST_HF_CONFIG_H_
