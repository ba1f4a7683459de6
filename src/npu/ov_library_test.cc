#include "npu/ov_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "npu/test_openvino.h"
#include "os/test_folder.h"

namespace thermocline::npu {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(OvLibraryTest, AFolderGivesItsNewestLibrary) {
  const os::TestFolder folder;
  EXPECT_EQ(LibraryIn(folder.path()).error().code, ErrorCode::kNotFound);
  folder.Write("openvino/libs/libopenvino_c.so.2541", "");
  const std::string below = folder / "openvino/libs/libopenvino_c.so.2541";
  EXPECT_EQ(*LibraryIn(folder.path()), below);
  EXPECT_EQ(*LibraryIn(below), below);
  for (const char* other : {"libopenvino.so.2641", "libopenvino_c.so.old",
                            "libopenvino_c.so.", "openvino_c.so.2641"}) {
    folder.Write(other, "");
  }
  EXPECT_EQ(*LibraryIn(folder.path()), below);
  folder.Write("libopenvino_c.so.2610", "");
  folder.Write("libopenvino_c.so.2641", "");
  folder.Write("libopenvino_c.so.2532", "");
  EXPECT_EQ(*LibraryIn(folder.path()), folder / "libopenvino_c.so.2641");
  folder.Write("libopenvino_c.so", "");
  EXPECT_EQ(*LibraryIn(folder.path()), folder / "libopenvino_c.so");
}

TEST(OvLibraryTest, AWorkingFolderThatIsGoneIsAnError) {
  const os::TestFolder folder;
  folder.Write("libopenvino_c.so", "");
  const os::GoneWorkingFolder gone(folder / "gone");
  EXPECT_EQ(LibraryIn("libopenvino_c.so").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(LibraryIn(folder.path()).has_value());
}

TEST(OvLibraryTest, TheSystemIsAskedForEveryVersion) {
  const std::vector<std::string> names = LibraryNames();
  EXPECT_EQ(names[0], "libopenvino_c.so");
  EXPECT_THAT(names, Contains("libopenvino_c.so.2641"));
  EXPECT_THAT(names, Contains("libopenvino_c.so.2320"));
}

TEST(OvLibraryTest, WhatIsNotThereIsSaidToBeFetchable) {
  const os::TestFolder folder;
  const TestEnvironment none({{"THERMOCLINE_OPENVINO", ""}});
  const auto nowhere = OpenLibrary("");
  // A machine may have one.
  if (!nowhere.has_value()) {
    EXPECT_EQ(nowhere.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(nowhere.error().message,
                AllOf(HasSubstr("$THERMOCLINE_OPENVINO is not set"),
                      HasSubstr("libopenvino_c.so.2300 to "),
                      HasSubstr("tools/fetch_openvino.sh")));
  }
  const auto named = OpenLibrary(folder / "none");
  EXPECT_EQ(named.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(named.error().message, AllOf(HasSubstr(folder / "none"),
                                           HasSubstr("fetch_openvino.sh")));
}

// It would be another than the one that was asked for.
TEST(OvLibraryTest, WhatIsNamedIsTheOnlyPlace) {
  const os::TestFolder folder;
  const TestEnvironment is_named({{"THERMOCLINE_OPENVINO", TC_FAKE_OPENVINO}});
  EXPECT_TRUE(OpenLibrary("").has_value());
  EXPECT_EQ(OpenLibrary(folder.path()).error().code, ErrorCode::kNotFound);
  const TestEnvironment is_wrong({{"THERMOCLINE_OPENVINO", folder.path()}});
  const auto opened = OpenLibrary("");
  EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(opened.error().message, HasSubstr("$THERMOCLINE_OPENVINO"));
}

TEST(OvLibraryTest, AFileThatDoesNotLoadIsNamedWithTheReason) {
  const os::TestFolder folder;
  const auto opened = OpenLibrary(folder.Write("libopenvino_c.so", "no ELF"));
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(opened.error().message, HasSubstr("does not load"));
}

}  // namespace
}  // namespace thermocline::npu
