#include "npu/chunk_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thermocline::npu {
namespace {

using Extents = std::vector<int64_t>;

TEST(ChunkPlanTest, TakesTheMostRowsThenTheFewestThatHoldTheRest) {
  const StaticShapes shapes = {.rows = {1, 8, 128}, .contexts = {512, 1024}};
  struct Case {
    int64_t position;
    int64_t num_rows;
    std::vector<Chunk> chunks;
  };
  const Case cases[] = {
      {0, 0, {}},
      {0, 1, {{0, 1, 1, 512}}},
      {0, 2, {{0, 2, 8, 512}}},
      {0, 8, {{0, 8, 8, 512}}},
      {0, 9, {{0, 9, 128, 512}}},
      {0, 128, {{0, 128, 128, 512}}},
      {0, 129, {{0, 128, 128, 512}, {128, 1, 1, 512}}},
      {0, 260, {{0, 128, 128, 512}, {128, 128, 128, 512}, {256, 4, 8, 512}}},
      // S = context - T holds what is there.
      {384, 9, {{0, 9, 128, 512}}},
      {385, 9, {{0, 9, 128, 1024}}},
      {504, 8, {{0, 8, 8, 512}}},
      // 128 would reach beyond all contexts; 8 and 1 do not.
      {1014, 10, {{0, 8, 8, 1024}, {8, 1, 1, 1024}, {9, 1, 1, 1024}}},
      {1023, 1, {{0, 1, 1, 1024}}},
  };
  for (const Case& c : cases) {
    const auto chunks = PlanChunks(shapes, c.position, c.num_rows);
    ASSERT_TRUE(chunks.has_value()) << c.position << " " << c.num_rows;
    EXPECT_EQ(*chunks, c.chunks) << c.position << " " << c.num_rows;
  }
}

TEST(ChunkPlanTest, RefusesWhatNoContextHolds) {
  const auto chunks = PlanChunks({{8}, {64}}, 40, 30);
  ASSERT_FALSE(chunks.has_value());
  EXPECT_EQ(chunks.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(chunks.error().message,
            "static graphs have no room for 30 rows at position 40: their "
            "largest context is 64");
}

TEST(ChunkPlanTest, ContextsHoldEveryPosition) {
  struct Case {
    int64_t context;
    Extents rows;
    Extents contexts;
  };
  const Case cases[] = {
      {64, {128}, {192}},
      {1, {1}, {64}},
      {512, {128}, {512, 640}},
      {4096, {8, 128}, {512, 1024, 2048, 4096, 4224}},
      {2048, {1024}, {2048, 3072}},
  };
  for (const Case& c : cases) {
    const Extents contexts = ContextsFor(c.context, c.rows);
    EXPECT_EQ(contexts, c.contexts) << c.context;
    EXPECT_TRUE(CheckShapes({c.rows, contexts}).has_value());
    EXPECT_TRUE(PlanChunks({c.rows, contexts}, c.context - 1, 1).has_value());
  }
}

TEST(ChunkPlanTest, RefusesShapesThatDoNotGoTogether) {
  struct Case {
    StaticShapes shapes;
    const char* message;
  };
  const Case cases[] = {
      {{{}, {64}}, "static graphs of  rows: there is at least one number"},
      {{{0, 8}, {64}}, "static graphs of 0, 8 rows"},
      {{{8, 8}, {64}}, "static graphs of 8, 8 rows"},
      {{{8}, {}}, "static graphs of contexts : there is at least one"},
      {{{8}, {128, 64}}, "static graphs of contexts 128, 64"},
      {{{8}, {100}}, "ascending multiples of 64"},
      {{{64}, {64}}, "static graphs of 64 rows: the largest context, 64, has "},
  };
  for (const Case& c : cases) {
    const Status status = CheckShapes(c.shapes);
    ASSERT_FALSE(status.has_value()) << c.message;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find(c.message), std::string::npos)
        << status.error().message;
  }
}

}  // namespace
}  // namespace thermocline::npu
