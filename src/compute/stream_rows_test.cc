#include "compute/stream_rows.h"

#include <gtest/gtest.h>

namespace thermocline::compute {
namespace {

// 1152 bytes: a row of 2048 weights in Q4_0.
TEST(WithStreamsApartTest, KeepsStreamsThatBeginApart) {
  EXPECT_EQ(WithStreamsApart(352, 1152, 8), 352u);  // 88 rows: 24 pages 3072
}

TEST(WithStreamsApartTest, AddsRowsUntilStreamsBeginApart) {
  EXPECT_EQ(WithStreamsApart(128, 1152, 16), 144u);  // 32 rows are 9 pages
  EXPECT_EQ(WithStreamsApart(192, 2304, 8), 200u);   // 48 rows are 27 pages
  EXPECT_EQ(WithStreamsApart(128, 2048, 4), 132u);   // 33 rows are 16.5
}

TEST(WithStreamsApartTest, KeepsRowsThatNoNumberHelps) {
  EXPECT_EQ(WithStreamsApart(128, 4096, 16), 128u);
  EXPECT_EQ(WithStreamsApart(96, 8192, 8), 96u);
  EXPECT_EQ(WithStreamsApart(128, 2048, 8), 128u);  // an even number of rows
}

TEST(WithStreamsApartTest, KeepsFewRows) {
  EXPECT_EQ(WithStreamsApart(3, 1152, 16), 3u);
}

}  // namespace
}  // namespace thermocline::compute
