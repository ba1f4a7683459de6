#include "bench/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SubjectTest, NamesTheModelAndHowItRuns) {
  const auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                        "/golden/"
                                        "llama-gqa-Q4_0.gguf");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  engine::SessionOptions options;
  options.batch = 7;
  options.v_type = DType::kQ8_0;
  Subject subject = SubjectOf(**model, options);
  EXPECT_THAT(subject.model_name, StartsWith("llama "));
  EXPECT_THAT(subject.model_path, HasSubstr("llama-gqa-Q4_0.gguf"));
  EXPECT_GT(subject.num_params, 0u);
  EXPECT_EQ(subject.num_layers, 2);
  subject.model_name = "a|b,c";
  subject.cpu = "A CPU";

  const nlohmann::ordered_json json = SubjectJson(subject, 3);
  EXPECT_EQ(json["n_batch"], 7);
  EXPECT_EQ(json["n_threads"], 3);
  EXPECT_EQ(json["type_v"], "Q8_0");
  const std::string csv = SubjectCsv(subject, 3);
  EXPECT_THAT(csv, HasSubstr("\"a|b,c\","));
  EXPECT_THAT(csv, ::testing::EndsWith(",7,3,F16,Q8_0,"));
  EXPECT_EQ(std::ranges::count(csv, ','),
            1 + std::ranges::count(kSubjectCsvNames, ','));  // the name's
  // A bar in a name ends no cell, and lines are as wide as each other.
  EXPECT_THAT(SubjectCells(subject, 3), StartsWith("| a\\|b,c "));
  EXPECT_EQ(SubjectCells(subject, 3).size(), SubjectHeader().size());
  EXPECT_EQ(SubjectRule().size(), SubjectHeader().size());
}

}  // namespace
}  // namespace thermocline::bench
