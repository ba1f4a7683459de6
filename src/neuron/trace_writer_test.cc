#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "neuron/test_trace.h"

namespace thermocline::neuron {
namespace {

using ::testing::HasSubstr;
using testing::RandomTokens;
using testing::ReadTrace;
using testing::TracedToken;

class TraceWriterTest : public testing::TraceTest {};

TEST_F(TraceWriterTest, RoundTripAtOddSizes) {
  for (const uint32_t num_layers : {1u, 3u}) {
    for (const uint32_t num_neurons : {1u, 7u, 65u, 1001u}) {
      for (const double density : {0.0, 0.03, 0.6, 1.0}) {
        const TraceHeader header = {.num_layers = num_layers,
                                    .num_neurons = num_neurons,
                                    .positions = TracePositions::kGenerated,
                                    .model_hash = 0xfedcba9876543210,
                                    .model_name = "a name"};
        const auto tokens = RandomTokens(header, 13, density);
        std::string first;
        for (const size_t batch : {1u, 4u, 13u}) {
          const std::string bytes = Write(header, tokens, batch);
          if (first.empty()) first = bytes;
          EXPECT_EQ(bytes, first);  // whatever was computed together
        }
        std::vector<TracedToken> got;
        TraceHeader got_header;
        EXPECT_EQ(ReadTrace(first, &got, &got_header), "");
        EXPECT_EQ(got, tokens);
        EXPECT_EQ(got_header, header);
      }
    }
  }
}

// Each kind of set, and all together; more layers ahead than there are, too.
// Runs of neurons and of experts, with shares and without.
TEST_F(TraceWriterTest, SetsBesideThoseThatFired) {
  const TraceHeader plain = {.num_layers = 3, .num_neurons = 35};
  std::vector<TraceHeader> headers(11, plain);
  headers[1].has_candidates = true;
  headers[2].num_experts = 5;
  headers[3].unit_bytes = {1, uint64_t{1} << 40, 4096};
  headers[4].lookaheads = 0b0001;
  headers[5].lookaheads = 0b1000;
  headers[6].lookaheads = 0b0110;
  headers[7] = {.num_layers = 2,
                .num_neurons = 21,
                .model_name = "m",
                .num_experts = 7,
                .has_candidates = true,
                .lookaheads = 0b1111,
                .unit_bytes = {64, 128}};
  headers[8] = headers[7];
  headers[8].run = {.by_experts = true,
                    .lessons = TraceLessons::kPasses,
                    .slots = {7, 0},
                    .shares = {{0.0f, 1.0f, 0.5f, 1e-9f, 2.0f, 3.0f, 4.0f},
                               std::vector<float>(7)}};
  headers[9] = headers[7];
  headers[9].run = {.slots = {21, 1}};
  headers[10].run = {.lessons = TraceLessons::kRows,
                     .slots = {1, 2, 3},
                     .shares = {3, std::vector<float>(35, 0.25f)}};
  for (const TraceHeader& header : headers) {
    const auto tokens = RandomTokens(header, 12, 0.3);
    const std::string bytes = Write(header, tokens, 5);
    EXPECT_EQ(Write(header, tokens, 1), bytes);
    std::vector<TracedToken> got;
    TraceHeader got_header;
    EXPECT_EQ(ReadTrace(bytes, &got, &got_header), "");
    EXPECT_EQ(got, tokens);
    EXPECT_EQ(got_header, header);
  }
}

// More than a block, so that tokens come from several.
TEST_F(TraceWriterTest, ManyBlocks) {
  const TraceHeader header = {.num_layers = 2, .num_neurons = 5000};
  const auto tokens = RandomTokens(header, 200, 0.2);
  const std::string bytes = Write(header, tokens, 7);
  EXPECT_GT(bytes.size(), size_t{3} << 16);
  EXPECT_LT(bytes.size(), 200u * 2u * (5000u / 8u + 8u) + 200u * 40u);
  std::vector<TracedToken> got;
  EXPECT_EQ(ReadTrace(bytes, &got), "");
  EXPECT_EQ(got, tokens);
}

TEST_F(TraceWriterTest, WithoutTokens) {
  EXPECT_EQ(ReadTrace(Write({.num_layers = 2, .num_neurons = 3}, {}, 1)), "");
}

TEST_F(TraceWriterTest, RefusesHeadersToWrite) {
  const TraceHeader good = {.num_layers = 2, .num_neurons = 8};
  std::vector<TraceHeader> bad(17, good);
  bad[0].num_layers = 0;
  bad[1].num_layers = kMaxTraceLayers + 1;
  bad[2].num_neurons = 0;
  bad[3].num_neurons = kMaxTraceNeurons + 1;
  bad[4].model_name = std::string(kMaxTraceName + 1, 'a');
  bad[5].num_experts = 3;
  bad[6].lookaheads = 16;
  bad[7].unit_bytes = {64};
  bad[8].unit_bytes = {64, 0};
  bad[9].unit_bytes = {uint64_t{1} << 59, uint64_t{1} << 59};
  bad[10].run = {.by_experts = true, .slots = {0, 0}};
  bad[11].run = {.slots = {8}};
  bad[12].run = {.slots = {8, 9}};
  bad[13].run = {.lessons = TraceLessons{3}, .slots = {8, 8}};
  bad[14].run = {.slots = {8, 8}, .shares = {std::vector<float>(8)}};
  bad[15].run = {.slots = {8, 8}, .shares = {2, std::vector<float>(7)}};
  bad[16].run = {.slots = {8, 8}, .shares = {2, std::vector<float>(8, -1.0f)}};
  for (const TraceHeader& header : bad) {
    const auto writer = TraceWriter::Create(path_, header);
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(writer.error().message, HasSubstr("no trace can be written"));
  }
}

}  // namespace
}  // namespace thermocline::neuron
