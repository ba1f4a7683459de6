#include "training/work_folder.h"

#include <filesystem>
#include <fstream>

#include "base/remedy.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class WorkFolderTest : public ::testing::Test {
 protected:
  WorkFolderTest() {
    path_ = ::testing::TempDir() + "/work-" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(path_);
  }
  ~WorkFolderTest() override { fs::remove_all(path_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }
  std::string path_;
};

TEST_F(WorkFolderTest, NewThenResumedThenGone) {
  {
    const auto fresh = WorkFolder::Open(path_, "model: a\nseed: 1\n");
    ASSERT_TRUE(fresh) << fresh.error().message;
    EXPECT_FALSE(fresh->is_resumed());
    EXPECT_FALSE(fresh->Has("layer-0"));
    EXPECT_TRUE(fresh->IsEmpty());
    Write("layer-0.gguf", "x");
    EXPECT_FALSE(fresh->Has("layer-0"));  // it may have been killed there
    EXPECT_TRUE(fresh->IsEmpty());
    ASSERT_TRUE(fresh->Finish("layer-0"));
    EXPECT_FALSE(fresh->IsEmpty());
    EXPECT_FALSE(WorkFolder::IsEmptyAt(path_));
  }
  const auto resumed = WorkFolder::Open(path_, "model: a\nseed: 1\n");
  ASSERT_TRUE(resumed);
  EXPECT_TRUE(resumed->is_resumed());
  EXPECT_TRUE(resumed->Has("layer-0"));
  EXPECT_TRUE(resumed->Remove());
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_TRUE(WorkFolder::IsEmptyAt(path_));
}

// Whatever lies in the folder for weeks is the work that it was, or nothing.
TEST_F(WorkFolderTest, WhatWasNotWrittenIsNotRead) {
  const auto work = WorkFolder::Open(path_, "model: a\n");
  ASSERT_TRUE(work) << work.error().message;
  EXPECT_FALSE(work->FileToRead("layer-0"));
  EXPECT_FALSE(work->Finish("layer-0"));
  Write("layer-0.gguf", "GGUF of a layer");
  EXPECT_FALSE(work->FileToRead("layer-0"));
  ASSERT_TRUE(work->Finish("layer-0"));
  EXPECT_EQ(work->FileToRead("layer-0").value_or(""), work->FileOf("layer-0"));
  for (const char* damaged : {"GGUF of a lever", "GGUF of a layer.", "", "G"}) {
    Write("layer-0.gguf", damaged);
    const auto read = work->FileToRead("layer-0");
    ASSERT_FALSE(read) << damaged;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message,
                AllOf(HasSubstr("layer-0.gguf: does not hold what was written"),
                      HasSubstr("delete " + path_)));
  }
  Write("layer-0.gguf", "GGUF of a layer");
  EXPECT_TRUE(work->FileToRead("layer-0"));
  Write("layer-0.gguf.crc", "15 bytes, CRC-32 00000000\n");
  EXPECT_FALSE(work->FileToRead("layer-0"));
}

TEST_F(WorkFolderTest, AnotherModelOrOtherOptionsAreToldByTheirLine) {
  ASSERT_TRUE(WorkFolder::Open(path_, "model: a\nseed: 1\n"));
  const auto other = WorkFolder::Open(path_, "model: a\nseed: 2\n");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message,
              AllOf(HasSubstr(path_), HasSubstr("seed: 1"),
                    HasSubstr("seed: 2"), HasSubstr("delete the folder")));
  EXPECT_TRUE(fs::exists(path_));
}

// Quotations end after 80 bytes, and two models may differ behind them only.
TEST_F(WorkFolderTest, TheEndOfALongLine) {
  const std::string model = "model: " + std::string(60, 'x') + ", norms ";
  ASSERT_TRUE(WorkFolder::Open(path_, model + "0123456789, 10 bytes\n"));
  const auto other = WorkFolder::Open(path_, model + "0123456789, 20 bytes\n");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message,
              HasSubstr("with \"model: ... 10 bytes\", now \"model: ... 20 "
                        "bytes\""));
  const auto hash = WorkFolder::Open(path_, model + "0123456780, 10 bytes\n");
  ASSERT_FALSE(hash);
  EXPECT_THAT(hash.error().message,
              AllOf(HasSubstr("with \"model: ... norms 0123456789, 10 bytes\""),
                    HasSubstr("now \"model: ... norms 0123456780, ")));
}

TEST_F(WorkFolderTest, OnePreparationAtATime) {
  auto first = WorkFolder::Open(path_, "model: a\n");
  ASSERT_TRUE(first) << first.error().message;
  {
    const WorkFolder moved = *std::move(first);
    // The same work, or another one.
    for (const char* description : {"model: a\n", "model: b\n"}) {
      const auto second = WorkFolder::Open(path_, description);
      ASSERT_FALSE(second);
      EXPECT_EQ(second.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(second.error().message,
                  AllOf(HasSubstr(path_), HasSubstr("is at work there")));
    }
  }
  const auto third = WorkFolder::Open(path_, "model: a\n");
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_TRUE(third->is_resumed());
}

TEST_F(WorkFolderTest, WhatSomebodyElseDeleted) {
  const auto work = WorkFolder::Open(path_, "model: a\n");
  ASSERT_TRUE(work) << work.error().message;
  fs::remove_all(path_);
  EXPECT_TRUE(work->Remove());
}

// Others may work there by then.
TEST_F(WorkFolderTest, OnceTheNameMeansAnotherFolder) {
  const auto first = WorkFolder::Open(path_, "model: a\n");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->FileToWrite("layer-0").value_or(""),
            first->FileOf("layer-0"));
  fs::remove_all(path_);
  const auto expect_told = [&] {
    const auto refused = first->FileToWrite("layer-0");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kIo);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr(path_), HasSubstr("deleted or replaced")));
    // No damage.
    EXPECT_EQ(first->Unreadable({ErrorCode::kNotFound, "x"}).value().message,
              refused.error().message);
  };
  expect_told();
  const auto second = WorkFolder::Open(path_, "model: b\n");
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_FALSE(second->is_resumed());
  Write("layer-0.gguf", "x");
  EXPECT_TRUE(second->Finish("layer-0"));
  expect_told();
  EXPECT_FALSE(first->Finish("layer-0"));
  EXPECT_TRUE(first->Remove());
  EXPECT_TRUE(fs::exists(path_ + "/description.txt"));
  EXPECT_TRUE(second->Has("layer-0"));
  EXPECT_TRUE(second->FileToWrite("layer-1"));
  EXPECT_TRUE(second->Remove());
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(WorkFolderTest, AFolderOfSomebodyElse) {
  fs::create_directory(path_);
  Write("letter.txt", "dear");
  const auto opened = WorkFolder::Open(path_, "model: a\n");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("is no folder of"));
  EXPECT_EQ(opened.error().advice.remedy, Remedy::kOutput);
  EXPECT_TRUE(fs::exists(path_ + "/letter.txt"));
}

TEST_F(WorkFolderTest, AnEmptyFolderAndWhatIsNotOurs) {
  fs::create_directory(path_);
  const auto work = WorkFolder::Open(path_, "model: a\n");
  ASSERT_TRUE(work);
  Write("letter.txt", "dear");
  EXPECT_TRUE(work->Remove());
  EXPECT_TRUE(fs::exists(path_ + "/letter.txt"));
}

// What goes last is what says whose work it is. A folder by a stage's name
// stands for what cannot be deleted, as if the process had been killed there.
TEST_F(WorkFolderTest, ADeletionThatStopsHalfwayCanBeGoneOnFrom) {
  const auto work = WorkFolder::Open(path_, "model: a\n");
  ASSERT_TRUE(work);
  for (const char* stage : {"layer-0", "layer-1", "profile", "scan"}) {
    fs::create_directory(path_ + "/" + stage + ".gguf");
    Write(std::string(stage) + ".gguf/letter.txt", "dear");
  }
  EXPECT_FALSE(work->Remove());
  EXPECT_TRUE(fs::exists(path_ + "/description.txt"));
}

// A process may be killed between a file's two names.
TEST_F(WorkFolderTest, WhatAKilledProcessLeft) {
  fs::create_directory(path_);
  Write(".description.txt.tmp-77-0", "mod");
  {
    const auto work = WorkFolder::Open(path_, "model: a\n");
    ASSERT_TRUE(work) << work.error().message;
    EXPECT_FALSE(work->is_resumed());
    Write(".layer-0.gguf.tmp-77-1", "x");
  }
  const auto resumed = WorkFolder::Open(path_, "model: a\n");
  ASSERT_TRUE(resumed);
  EXPECT_TRUE(resumed->is_resumed());
  EXPECT_TRUE(resumed->IsEmpty());
  EXPECT_TRUE(resumed->Remove());
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(WorkFolderTest, ADescriptionThatWasCutOff) {
  ASSERT_TRUE(WorkFolder::Open(path_, "model: a\n"));
  Write("description.txt", "model:");
  const auto opened = WorkFolder::Open(path_, "model: a\n");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("damaged"));
}

TEST_F(WorkFolderTest, AFileInItsPlaceAndAFolderThatCannotBe) {
  std::ofstream(path_) << "x";
  EXPECT_FALSE(WorkFolder::Open(path_, "a\n"));
  fs::remove(path_);
  EXPECT_FALSE(WorkFolder::Open(path_ + "/deeper/still", "a\n"));
}

}  // namespace
}  // namespace thermocline::training
