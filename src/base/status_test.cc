#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/remedy.h"

namespace thermocline {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Fail(ErrorCode::kInvalidArgument, "{} is odd", n);
  return n / 2;
}

Result<int> Quarter(int n) {
  TC_ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

Status RequireEven(int n) {
  TC_RETURN_IF_ERROR(Half(n));
  return {};
}

TEST(StatusTest, DefaultIsSuccess) { EXPECT_TRUE(Status().has_value()); }

TEST(StatusTest, ValuesAndErrorsTravel) {
  EXPECT_EQ(Quarter(12).value(), 3);
  const Result<int> failed = Quarter(6);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "3 is odd");
  EXPECT_FALSE(RequireEven(5).has_value());
  EXPECT_TRUE(RequireEven(4).has_value());
}

TEST(StatusTest, AnnotateKeepsTheCode) {
  const Status status = Annotate("row 7", Half(3).error());
  EXPECT_EQ(status.error().message, "row 7: 3 is odd");
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
}

TEST(StatusTest, AdviceTravels) {
  EXPECT_EQ(Half(3).error().advice.remedy, Remedy::kNone);
  const Status status = Fail(ErrorCode::kInvalidArgument,
                             Advice{Remedy::kContext, 9}, "{} of {}", 3, 4);
  const Status annotated = Annotate("row 7", status.error());
  EXPECT_EQ(annotated.error().message, "row 7: 3 of 4");
  EXPECT_EQ(annotated.error().advice.remedy, Remedy::kContext);
  EXPECT_EQ(annotated.error().advice.value, 9);
}

TEST(StatusTest, MoveOnlyValuesWork) {
  auto make = []() -> Result<std::unique_ptr<int>> {
    return std::make_unique<int>(4);
  };
  auto pass = [&]() -> Result<std::unique_ptr<int>> {
    TC_ASSIGN_OR_RETURN(auto p, make());
    return p;
  };
  EXPECT_EQ(*pass().value(), 4);
}

}  // namespace
}  // namespace thermocline
