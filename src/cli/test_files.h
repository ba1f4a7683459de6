// Files of the repository that tests of commands read.
#ifndef THERMOCLINE_CLI_TEST_FILES_H_
#define THERMOCLINE_CLI_TEST_FILES_H_

#include <string>

namespace thermocline::cli {

inline std::string InTestData(const std::string& name) {
  return std::string(TC_TEST_DATA) + "/" + name;
}

inline const std::string kStories = InTestData("models/stories260K.gguf");
inline const std::string kLlamaF16 = InTestData("golden/llama-gqa-f16.gguf");
inline const std::string kLlamaQ4_0 = InTestData("golden/llama-gqa-Q4_0.gguf");
inline const std::string kLlamaQ8_0 = InTestData("golden/llama-gqa-Q8_0.gguf");
inline const std::string kPowerInferLlama =
    InTestData("golden-powerinfer/llama-f16.powerinfer.gguf");
inline const std::string kBamboo =
    InTestData("golden-powerinfer/bamboo-f16.powerinfer.gguf");
inline const std::string kArcee = InTestData("golden-2026/arcee-f16.gguf");
inline const std::string kValidText = InTestData("demo/valid.txt");
inline const std::string kDemoModel =
    std::string(TC_SOURCE_DIR) + "/models/demo/thermocline-demo-8.8m-f16.gguf";

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TEST_FILES_H_
