#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "neuron/crc32.h"
#include "neuron/test_trace.h"

namespace thermocline::neuron {
namespace {

using ::testing::HasSubstr;
using testing::LastOf;
using testing::RandomTokens;
using testing::ReadTrace;
using ::testing::StartsWith;
using testing::TracedToken;

class TraceReaderTest : public testing::TraceTest {};

TEST_F(TraceReaderTest, FromAFileWithItsTotals) {
  const TraceHeader header = {
      .num_layers = 1, .num_neurons = 9, .num_experts = 3};
  const std::vector<TracedToken> tokens = {
      {{.begins_sequence = true}, {{0, 8}}, {}, {{0, 2}}, {}, 0, "a:1"},
      {{.is_generated = true}, {{}}, {}, {{1}}, {}, 0, "a:1"},
      {{.begins_sequence = true}, {{5}}, {}, {{1}}, {}, 1, "a:2"}};
  Write(header, tokens, 2);
  auto reader = TraceReader::Open(path_);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->totals(),
            (TraceTotals{.num_tokens = 3, .num_sequences = 2, .num_fired = 3}));
  TraceReader moved = *std::move(reader);
  TraceToken token;
  TraceSets fired;
  for (const TracedToken& want : tokens) {
    const auto more = moved.Next(token, fired);
    ASSERT_TRUE(more.has_value() && *more);
    EXPECT_EQ(LastOf(moved, token, fired), want);
  }
  EXPECT_FALSE(moved.Next(token, fired).value());
}

// Of every kind of set.
TEST_F(TraceReaderTest, EveryTruncationAndEveryByte) {
  const TraceHeader header = {
      .num_layers = 2,
      .num_neurons = 20,
      .model_name = "m",
      .num_experts = 4,
      .has_candidates = true,
      .lookaheads = 0b11,
      .unit_bytes = {640, 64},
      .run = TraceRun{.by_experts = true,
                      .slots = {3, 4},
                      .shares = {2, std::vector<float>(4, 0.5f)}}};
  const std::string bytes = Write(header, RandomTokens(header, 6, 0.3), 4);
  ASSERT_EQ(ReadTrace(bytes), "");
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THAT(ReadTrace(bytes.substr(0, n)), StartsWith("test.trace: ")) << n;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {1, 16, 128}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ bit);
      EXPECT_THAT(ReadTrace(damaged), StartsWith("test.trace: ")) << i;
    }
  }
  EXPECT_THAT(ReadTrace(bytes + '\0'),
              HasSubstr("the end is cut off or damaged"));
}

template <typename T>
void Put(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

// Makes the checksum at the end of [begin, end) right.
void PutCrc(std::string& bytes, size_t begin, size_t end) {
  const auto part =
      std::as_bytes(std::span(bytes)).subspan(begin, end - 4 - begin);
  Put(bytes, end - 4, Crc32(part));
}

// One token of two layers and eight neurons, of a section "s": its header takes
// 68 bytes, its block 8 + 8 + 4, its end 36.
class TraceFieldTest : public testing::TraceTest {
 protected:
  void SetUp() override {
    TracedToken token = {.token = {.begins_sequence = true},
                         .fired = {{3}, {7}}};
    token.section = "s";
    bytes_ = Write({.num_layers = 2, .num_neurons = 8, .unit_bytes = {64, 64}},
                   {token}, 1);
    ASSERT_EQ(bytes_.size(), 68u + 20u + 36u);
  }

  template <typename T>
  std::string With(size_t at, T value) {
    std::string bytes = bytes_;
    Put(bytes, at, value);
    PutCrc(bytes, 0, 68);
    PutCrc(bytes, 68, 88);
    PutCrc(bytes, 88, 124);
    return ReadTrace(bytes);
  }

  std::string bytes_;
};

TEST_F(TraceFieldTest, Headers) {
  EXPECT_EQ(With(12, uint32_t{2}), "");
  EXPECT_THAT(With(0, 'X'), HasSubstr("is no trace"));
  EXPECT_THAT(With(8, uint32_t{3}), HasSubstr("of version 3"));
  EXPECT_THAT(With(8, uint32_t{0}), HasSubstr("reads versions 1 and 2"));
  for (const uint32_t bad : {0u, 3u, 65537u, 0xffffffffu}) {
    EXPECT_THAT(With(12, bad), HasSubstr("the header is")) << bad;
  }
  for (const uint32_t bad : {0u, 0x80000001u, 0xffffffffu}) {
    EXPECT_THAT(With(16, bad), HasSubstr("number of neurons is out of range"));
  }
  EXPECT_THAT(With(20, uint32_t{2}), HasSubstr("which positions"));
  EXPECT_THAT(With(32, uint32_t{1025}), HasSubstr("name is too long"));
  EXPECT_THAT(With(32, uint32_t{60}), HasSubstr("the header is cut off"));
  EXPECT_THAT(With(32, uint32_t{1}), HasSubstr("checksum is wrong"));
  EXPECT_THAT(With(36, uint32_t{10}), HasSubstr("unknown flags"));
  EXPECT_THAT(With(36, uint32_t{6}), HasSubstr("the header is"));
  EXPECT_THAT(With(40, uint32_t{3}), HasSubstr("do not divide its neurons"));
  EXPECT_THAT(With(40, uint32_t{16}), HasSubstr("do not divide its neurons"));
  EXPECT_THAT(With(44, uint32_t{16}), HasSubstr("lookaheads are out of range"));
  for (const uint64_t bad : {uint64_t{0}, uint64_t{1} << 60, ~uint64_t{0}}) {
    EXPECT_THAT(With(56, bad), HasSubstr("bytes of its units are out of"));
  }
}

// The run's part of two layers of eight neurons, at 48, takes 12 + 8 + 64, and
// the checksum 4; the block of one token is behind it.
TEST_F(TraceFieldTest, Runs) {
  TracedToken token = {.token = {.begins_sequence = true}, .fired = {{3}, {7}}};
  const TraceHeader header = {
      .num_layers = 2,
      .num_neurons = 8,
      .run = TraceRun{.slots = {8, 8}, .shares = {2, std::vector<float>(8)}}};
  const std::string good = Write(header, {token, {.fired = {{}, {1}}}}, 1);
  const auto with = [&](size_t at, auto value) {
    std::string bytes = good;
    Put(bytes, at, value);
    PutCrc(bytes, 0, 136);
    PutCrc(bytes, 136, bytes.size() - 36);
    return ReadTrace(bytes);
  };
  EXPECT_EQ(with(48, uint32_t{0}), "");
  EXPECT_THAT(with(48, uint32_t{1}), HasSubstr("the header is"));
  for (const auto& [at, value] :
       {std::pair<size_t, uint32_t>{48, 2}, {52, 3}, {56, 2}, {60, 9}}) {
    EXPECT_THAT(with(at, value), HasSubstr("the header is")) << at;
  }
  for (const float bad : {-1.0f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THAT(with(132 - 4, bad), HasSubstr("of its run is out of range"));
  }
  EXPECT_THAT(with(16, 0xffffffffu), HasSubstr("the header is cut off"));
  EXPECT_THAT(with(136 + 8, uint8_t{5}), HasSubstr("of another prompt"));
  EXPECT_THAT(with(136 + 8, uint8_t{8}), HasSubstr("unknown flags"));
}

TEST_F(TraceFieldTest, LayersWithoutUnits) {
  bytes_ = Write({.num_layers = 2, .num_neurons = 8}, {}, 1);
  for (const uint32_t bad : {0u, 65537u, 0xffffffffu}) {
    std::string bytes = bytes_;
    Put(bytes, 12, bad);
    PutCrc(bytes, 0, 52);
    EXPECT_THAT(ReadTrace(bytes),
                HasSubstr("number of layers is out of range"));
  }
}

TEST_F(TraceFieldTest, Blocks) {
  EXPECT_THAT(With(68, uint32_t{9}), HasSubstr("longer than the file"));
  EXPECT_THAT(With(68, 0xffffffffu), HasSubstr("longer than the file"));
  EXPECT_THAT(With(72, uint32_t{0}), HasSubstr("has no tokens"));
  EXPECT_THAT(With(72, uint32_t{2}),
              HasSubstr("token 1: is behind the end of its block"));
  EXPECT_THAT(With(76, uint8_t{4}), HasSubstr("unknown flags"));
  EXPECT_THAT(With(76, uint8_t{8}), HasSubstr("unknown flags"));
  EXPECT_THAT(With(76, uint8_t{0}), HasSubstr("begins no sequence"));
  EXPECT_THAT(With(77, uint16_t{6}), HasSubstr("section's name is cut off"));
  EXPECT_THAT(With(77, uint16_t{513}), HasSubstr("section's name is too long"));
  EXPECT_THAT(With(83, uint8_t{8}), HasSubstr("for layer 1 is no set"));
  EXPECT_THAT(With(82, uint8_t{0}), HasSubstr("belong to nothing"));
}

TEST_F(TraceFieldTest, Ends) {
  EXPECT_THAT(With(88, uint64_t{1}), HasSubstr("no totals"));
  EXPECT_THAT(With(96, uint64_t{2}), HasSubstr("1 token where its end tells"));
  EXPECT_THAT(With(104, uint64_t{2}), HasSubstr("or other sets"));
  EXPECT_THAT(With(112, uint64_t{3}), HasSubstr("or other sets"));
}

// Who sizes something by the totals is given nothing that they do not count.
TEST_F(TraceFieldTest, NothingComesBeyondTheTotals) {
  for (const auto& [at, value] :
       {std::pair<size_t, uint64_t>{96, 0}, {104, 0}, {112, 1}}) {
    EXPECT_THAT(With(at, value),
                HasSubstr("token 0: is more than the file's end"));
  }
}

// Two tokens of two layers and eight neurons, as programs of before wrote them.
std::string OldTrace() {
  std::string bytes("TC-TRACE\1\0\0\0\2\0\0\0\10\0\0\0", 20);
  bytes += std::string("\1\0\0\0abcdefgh\2\0\0\0mm____", 22);
  PutCrc(bytes, 0, 42);
  bytes += std::string("\12\0\0\0\2\0\0\0", 8);
  bytes += std::string("\1\2\3\2\7\2\0\4\0\6____", 14);
  PutCrc(bytes, 42, 64);
  bytes += std::string(8, '\0') + std::string("\2\0\0\0\0\0\0\0", 8);
  bytes += std::string("\1\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0____", 20);
  PutCrc(bytes, 64, 100);
  return bytes;
}

TEST_F(TraceReaderTest, TheVersionBefore) {
  const std::string bytes = OldTrace();
  std::vector<TracedToken> tokens;
  TraceHeader header;
  EXPECT_EQ(ReadTrace(bytes, &tokens, &header), "");
  EXPECT_EQ(header, (TraceHeader{.num_layers = 2,
                                 .num_neurons = 8,
                                 .positions = TracePositions::kGenerated,
                                 .model_hash = 0x6867666564636261,
                                 .model_name = "mm"}));
  const std::vector<TracedToken> want = {
      {.token = {.begins_sequence = true}, .fired = {{3}, {7}}},
      {.token = {.is_generated = true}, .fired = {{}, {0, 7}}}};
  EXPECT_EQ(tokens, want);
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THAT(ReadTrace(bytes.substr(0, n)), StartsWith("test.trace: ")) << n;
  }
}

TEST_F(TraceReaderTest, NamesAMissingFile) {
  const auto reader = TraceReader::Open("no/such.trace");
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(reader.error().message, HasSubstr("no/such.trace"));
}

}  // namespace
}  // namespace thermocline::neuron
