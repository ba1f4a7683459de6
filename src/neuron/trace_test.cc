#include "neuron/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/random.h"
#include "neuron/crc32.h"

namespace thermocline::neuron {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Sets = std::vector<std::vector<uint32_t>>;  // [L]

struct Token {
  TraceToken token;
  Sets sets;
  bool operator==(const Token&) const = default;
};

class TraceTest : public ::testing::Test {
 protected:
  ~TraceTest() override { std::filesystem::remove(path_); }

  // Writes in batches of `batch`, as sessions do: layer by layer.
  std::string Write(const TraceHeader& header, const std::vector<Token>& tokens,
                    size_t batch) {
    std::filesystem::remove(path_);
    auto writer = TraceWriter::Create(path_, header);
    EXPECT_TRUE(writer) << writer.error().message;
    for (size_t begin = 0; begin < tokens.size(); begin += batch) {
      const size_t end = std::min(begin + batch, tokens.size());
      for (size_t t = begin; t < end; ++t) {
        (*writer)->AddTokens(std::span(&tokens[t].token, 1));
      }
      for (size_t l = 0; l < header.num_layers; ++l) {
        for (size_t t = begin; t < end; ++t) {
          (*writer)->AddSet(l, tokens[t].sets[l]);
        }
      }
      EXPECT_TRUE((*writer)->Flush());
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_TRUE((*writer)->Finish());
    auto bytes = os::ReadFile(path_);
    EXPECT_TRUE(bytes);
    return *bytes;
  }

  std::string path_ = fmt::format(
      "{}trace_{}_{}", ::testing::TempDir(), getpid(),
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

std::vector<Token> RandomTokens(const TraceHeader& header, size_t count,
                                double density) {
  Random random(11);
  std::vector<Token> tokens(count);
  for (size_t t = 0; t < count; ++t) {
    tokens[t].token = {.begins_sequence = t % 5 == 0,
                       .is_generated = t % 5 > 2};
    for (uint32_t l = 0; l < header.num_layers; ++l) {
      auto& set = tokens[t].sets.emplace_back();
      for (uint32_t i = 0; i < header.num_neurons; ++i) {
        if (random.Uniform() < density) set.push_back(i);
      }
    }
  }
  return tokens;
}

// The error, or "" if all of it can be read. From a copy of exactly that size,
// so that a sanitizer sees reads behind the end.
std::string Read(const std::string& bytes, std::vector<Token>* tokens = nullptr,
                 TraceHeader* header = nullptr) {
  const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  auto reader = TraceReader::Parse({copy.get(), bytes.size()}, "test.trace");
  if (!reader.has_value()) return reader.error().message;
  if (header != nullptr) *header = reader->header();
  Token token;
  while (true) {
    const auto more = reader->Next(token.token, token.sets);
    if (!more.has_value()) return more.error().message;
    if (!*more) return "";
    if (tokens != nullptr) tokens->push_back(token);
  }
}

TEST_F(TraceTest, RoundTripAtOddSizes) {
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
        std::vector<Token> got;
        TraceHeader got_header;
        EXPECT_EQ(Read(first, &got, &got_header), "");
        EXPECT_EQ(got, tokens);
        EXPECT_EQ(got_header, header);
      }
    }
  }
}

// More than a block, so that tokens come from several.
TEST_F(TraceTest, ManyBlocks) {
  const TraceHeader header = {.num_layers = 2, .num_neurons = 5000};
  const auto tokens = RandomTokens(header, 200, 0.2);
  const std::string bytes = Write(header, tokens, 7);
  EXPECT_GT(bytes.size(), size_t{3} << 16);
  EXPECT_LT(bytes.size(), 200u * 2u * (5000u / 8u + 8u));
  std::vector<Token> got;
  EXPECT_EQ(Read(bytes, &got), "");
  EXPECT_EQ(got, tokens);
}

TEST_F(TraceTest, FromAFileWithItsTotals) {
  const TraceHeader header = {.num_layers = 1, .num_neurons = 9};
  const std::vector<Token> tokens = {{{.begins_sequence = true}, {{0, 8}}},
                                     {{.is_generated = true}, {{}}},
                                     {{.begins_sequence = true}, {{5}}}};
  Write(header, tokens, 2);
  auto reader = TraceReader::Open(path_);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->totals(),
            (TraceTotals{.num_tokens = 3, .num_sequences = 2, .num_fired = 3}));
  TraceReader moved = *std::move(reader);
  Token token;
  for (const Token& want : tokens) {
    const auto more = moved.Next(token.token, token.sets);
    ASSERT_TRUE(more.has_value() && *more);
    EXPECT_EQ(token, want);
  }
  EXPECT_FALSE(moved.Next(token.token, token.sets).value());
}

TEST_F(TraceTest, WithoutTokens) {
  EXPECT_EQ(Read(Write({.num_layers = 2, .num_neurons = 3}, {}, 1)), "");
}

TEST_F(TraceTest, EveryTruncationAndEveryByte) {
  const TraceHeader header = {
      .num_layers = 2, .num_neurons = 40, .model_name = "m"};
  const std::string bytes = Write(header, RandomTokens(header, 6, 0.3), 4);
  ASSERT_EQ(Read(bytes), "");
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THAT(Read(bytes.substr(0, n)), StartsWith("test.trace: ")) << n;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {1, 16, 128}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ bit);
      EXPECT_THAT(Read(damaged), StartsWith("test.trace: ")) << i;
    }
  }
  EXPECT_THAT(Read(bytes + '\0'), HasSubstr("the end is cut off or damaged"));
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

// One token of two layers and eight neurons: its header takes 40 bytes, its
// block 8 + 5 + 4, its end 36.
class TraceFieldTest : public TraceTest {
 protected:
  void SetUp() override {
    bytes_ = Write({.num_layers = 2, .num_neurons = 8},
                   {{{.begins_sequence = true}, {{3}, {7}}}}, 1);
    ASSERT_EQ(bytes_.size(), 40u + 17u + 36u);
  }

  template <typename T>
  std::string With(size_t at, T value) {
    std::string bytes = bytes_;
    Put(bytes, at, value);
    PutCrc(bytes, 0, 40);
    PutCrc(bytes, 40, 57);
    PutCrc(bytes, 57, 93);
    return Read(bytes);
  }

  std::string bytes_;
};

TEST_F(TraceFieldTest, Headers) {
  EXPECT_EQ(With(12, uint32_t{2}), "");
  EXPECT_THAT(With(0, 'X'), HasSubstr("is no trace"));
  EXPECT_THAT(With(8, uint32_t{2}), HasSubstr("of version 2"));
  for (const uint32_t bad : {0u, 65537u, 0xffffffffu}) {
    EXPECT_THAT(With(12, bad), HasSubstr("number of layers is out of range"));
  }
  for (const uint32_t bad : {0u, 0x80000001u, 0xffffffffu}) {
    EXPECT_THAT(With(16, bad), HasSubstr("number of neurons is out of range"));
  }
  EXPECT_THAT(With(20, uint32_t{2}), HasSubstr("which positions"));
  EXPECT_THAT(With(32, uint32_t{1025}), HasSubstr("name is too long"));
  EXPECT_THAT(With(32, uint32_t{60}), HasSubstr("the header is cut off"));
  EXPECT_THAT(With(32, uint32_t{1}), HasSubstr("checksum is wrong"));
}

TEST_F(TraceFieldTest, Blocks) {
  EXPECT_THAT(With(40, uint32_t{6}), HasSubstr("longer than the file"));
  EXPECT_THAT(With(40, 0xffffffffu), HasSubstr("longer than the file"));
  EXPECT_THAT(With(44, uint32_t{0}), HasSubstr("has no tokens"));
  EXPECT_THAT(With(44, uint32_t{2}),
              HasSubstr("token 1: is behind the end of its block"));
  EXPECT_THAT(With(48, uint8_t{4}), HasSubstr("unknown flags"));
  EXPECT_THAT(With(48, uint8_t{0}), HasSubstr("begins no sequence"));
  EXPECT_THAT(With(52, uint8_t{8}), HasSubstr("for layer 1 is no set"));
  EXPECT_THAT(With(51, uint8_t{0}), HasSubstr("belong to nothing"));
}

TEST_F(TraceFieldTest, Ends) {
  EXPECT_THAT(With(57, uint64_t{1}), HasSubstr("no totals"));
  EXPECT_THAT(With(65, uint64_t{2}), HasSubstr("1 token where its end tells"));
  EXPECT_THAT(With(73, uint64_t{2}), HasSubstr("or other sets"));
  EXPECT_THAT(With(81, uint64_t{3}), HasSubstr("or other sets"));
}

TEST_F(TraceTest, RefusesHeadersToWrite) {
  for (const TraceHeader& header :
       {TraceHeader{.num_layers = 0, .num_neurons = 8},
        TraceHeader{.num_layers = kMaxTraceLayers + 1, .num_neurons = 8},
        TraceHeader{.num_layers = 2, .num_neurons = 0},
        TraceHeader{.num_layers = 2, .num_neurons = kMaxTraceNeurons + 1},
        TraceHeader{.num_layers = 2,
                    .num_neurons = 8,
                    .model_name = std::string(kMaxTraceName + 1, 'a')}}) {
    const auto writer = TraceWriter::Create(path_, header);
    ASSERT_FALSE(writer);
    EXPECT_EQ(writer.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(writer.error().message, HasSubstr("no trace can be written"));
  }
}

TEST_F(TraceTest, NamesAMissingFile) {
  const auto reader = TraceReader::Open("no/such.trace");
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(reader.error().message, HasSubstr("no/such.trace"));
}

}  // namespace
}  // namespace thermocline::neuron
