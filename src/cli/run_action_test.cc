#include "cli/run_action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The exit code, and what it printed on stderr.
std::pair<int, std::string> RunIt(const Action& action) {
  ::testing::internal::CaptureStderr();
  const int exit_code = RunAction("thermocline quantize", action);
  return {exit_code, ::testing::internal::GetCapturedStderr()};
}

TEST(RunActionTest, ErrorsArePrintedAndWhatWasStoppedIsNot) {
  EXPECT_EQ(RunIt([] { return Status(); }), std::pair(0, std::string()));
  EXPECT_EQ(RunIt([]() -> Status { return Fail(ErrorCode::kIo, "a: broken"); }),
            std::pair(1, std::string("thermocline: error: a: broken\n")));
  EXPECT_EQ(RunIt([]() -> Status { return Fail(ErrorCode::kCancelled, "x"); }),
            std::pair(0, std::string()));
}

TEST(RunActionTest, MemoryThatIsNotToBeHadNamesTheCommand) {
  const auto [code, text] = RunIt([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, StartsWith("thermocline: error: thermocline quantize: out "
                               "of memory"));
  EXPECT_THAT(text, HasSubstr("(ulimit -v)\n"));
}

TEST(RunActionTest, OtherExceptionsAreToldAsTheyAre) {
  const auto [code, text] =
      RunIt([]() -> Status { throw std::runtime_error("odd"); });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(text, "thermocline: error: unexpected failure: odd\n");
}

}  // namespace
}  // namespace thermocline::cli
