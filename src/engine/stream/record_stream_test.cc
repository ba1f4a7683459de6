#include "engine/stream/record_stream.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gguf/test_file.h"
#include "model/profile_file.h"
#include "model/test_prepared.h"
#include "residency/policy.h"

namespace thermocline::engine {
namespace {

TEST(RecordStreamTest, ThereIsABestPolicy) {
  const auto policies = residency::Policies();
  EXPECT_NE(
      std::ranges::find(policies, PolicyOf(""), &residency::PolicyInfo::name),
      policies.end());
  EXPECT_EQ(PolicyOf("lru"), "lru");
}

TEST(RecordStreamTest, RefusesWhatIsNotThere) {
  const std::string bytes = model::TestPreparedModel().Bytes();
  const auto model = model::Model::FromFile(
      gguf::File::Parse(std::as_bytes(std::span(bytes)), "no file").value());
  ASSERT_TRUE(model) << model.error().message;
  StreamOptions options = {.arena = PlanArena((*model)->config(), 0).value()};
  const auto no_file = RecordStream::Create(**model, options);
  ASSERT_FALSE(no_file);
  EXPECT_EQ(no_file.error().code, ErrorCode::kNotFound);
  options.policy = "no policy";
  const auto no_policy = RecordStream::Create(**model, options);
  ASSERT_FALSE(no_policy);
  EXPECT_EQ(no_policy.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace thermocline::engine
