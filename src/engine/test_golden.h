// For tests. Golden files: a list of models in manifest.json, and the logits
// that another engine computed for each.
#ifndef THERMOCLINE_ENGINE_TEST_GOLDEN_H_
#define THERMOCLINE_ENGINE_TEST_GOLDEN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "text/vocab.h"

namespace thermocline {

// Logits closer than this may change places.
inline constexpr float kClearLead = 0.1f;

struct Golden {
  std::string model;  // a file of the folder
  std::vector<text::TokenId> tokens;
  size_t vocab_size = 0;
  std::vector<float> logits;  // [T, V]
};

inline std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

// All of a folder's; none when it cannot be read.
inline std::vector<Golden> ReadGoldens(const std::string& folder) {
  std::ifstream file(folder + "/manifest.json");
  std::vector<Golden> goldens;
  for (const auto& entry :
       nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false)) {
    goldens.push_back(
        {entry["model"].get<std::string>(),
         entry["tokens"].get<std::vector<text::TokenId>>(),
         entry["shape"][1].get<size_t>(),
         ReadFloats(folder + "/" + entry["logits"].get<std::string>())});
  }
  return goldens;
}

// sum (a - b)^2 / sum b^2; infinity when the sizes differ.
inline double Nmse(std::span<const float> got,
                   std::span<const float> expected) {
  if (got.size() != expected.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double error = 0.0;
  double power = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - expected[i];
    error += difference * difference;
    power += static_cast<double>(expected[i]) * expected[i];
  }
  return error / power;
}

// The largest of one position's logits is the same, if it leads clearly.
inline void ExpectSameChoice(std::span<const float> got,
                             std::span<const float> expected, size_t position) {
  const auto best = std::ranges::max_element(expected);
  const auto index = best - expected.begin();
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool is_best = static_cast<ptrdiff_t>(i) == index;
    if (!is_best && *best - expected[i] <= kClearLead) return;
  }
  EXPECT_EQ(std::ranges::max_element(got) - got.begin(), index)
      << "position " << position;
}

}  // namespace thermocline

#endif  // THERMOCLINE_ENGINE_TEST_GOLDEN_H_
