#include <gtest/gtest.h>

#include "npu/ir.h"
#include "npu/test_graph.h"
#include "os/test_folder.h"

namespace thermocline::npu {
namespace {

TEST(IrFilesTest, WrittenAndReadBack) {
  const os::TestFolder folder;
  Graph graph;
  graph.Output(Numbers(graph, {Element::kF16, {3}}, {1, 2, 3}), "y");
  ASSERT_TRUE(WriteIrFiles(graph, folder / "0").has_value());
  EXPECT_EQ(folder.num_entries(), 2);
  const auto again = ReadIrFiles(folder / "0.xml");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(WriteIr(*again), WriteIr(graph));
  EXPECT_TRUE(std::ranges::equal(again->data(), graph.data()));
}

TEST(IrFilesTest, FilesThatAreNotThereOrWrong) {
  const os::TestFolder folder;
  Graph graph;
  graph.Output(Numbers(graph, {Element::kF16, {3}}, {1, 2, 3}), "y");
  EXPECT_FALSE(WriteIrFiles(graph, folder / "absent/0").has_value());
  ASSERT_TRUE(WriteIrFiles(graph, folder / "0").has_value());
  EXPECT_EQ(ReadIrFiles(folder / "0.bin").error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ReadIrFiles(folder / "1.xml").error().code, ErrorCode::kNotFound);
  folder.Write("0.bin", "12345");
  const auto shorter = ReadIrFiles(folder / "0.xml");
  EXPECT_EQ(shorter.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(shorter.error().message.starts_with(folder / "0.xml: line 4"))
      << shorter.error().message;
  std::filesystem::remove(folder / "0.bin");
  EXPECT_EQ(ReadIrFiles(folder / "0.xml").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace thermocline::npu
