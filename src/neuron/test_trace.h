// Small traces, for tests of what writes and reads them.
#ifndef THERMOCLINE_NEURON_TEST_TRACE_H_
#define THERMOCLINE_NEURON_TEST_TRACE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "neuron/trace.h"

namespace thermocline::neuron::testing {

struct TracedToken {
  TraceToken token;
  TraceSets fired;
  TraceSets candidates;
  TraceSets experts;
  std::array<TraceSets, kMaxTraceLookahead + 1> named;
  uint64_t section_idx = 0;
  std::string section;
  bool operator==(const TracedToken&) const = default;
};

inline std::vector<uint32_t> RandomSet(Random& random, uint32_t num_members,
                                       double density) {
  std::vector<uint32_t> set;
  for (uint32_t i = 0; i < num_members; ++i) {
    if (random.Uniform() < density) set.push_back(i);
  }
  return set;
}

// With all that the header promises; a section begins at each fifth, whose
// first three are of the prompt, and with a run together.
inline std::vector<TracedToken> RandomTokens(const TraceHeader& header,
                                             size_t count, double density) {
  Random random(11);
  std::vector<TracedToken> tokens(count);
  const auto sets = [&](size_t first_layer, uint32_t num_members) {
    TraceSets all(first_layer);
    while (all.size() < header.num_layers) {
      all.push_back(RandomSet(random, num_members, density));
    }
    all.resize(header.num_layers);
    return all;
  };
  for (size_t t = 0; t < count; ++t) {
    TracedToken& token = tokens[t];
    token.token = {.begins_sequence = t % 5 == 0,
                   .is_generated = t % 5 > 2,
                   .is_together = header.run && (t % 5 == 1 || t % 5 == 2)};
    token.section_idx = t / 5;
    token.section = std::string(t / 5, 's');
    token.fired = sets(0, header.num_neurons);
    if (header.has_candidates) token.candidates = sets(0, header.num_neurons);
    if (header.num_experts > 0) token.experts = sets(0, header.num_experts);
    for (uint32_t k = 0; k <= kMaxTraceLookahead; ++k) {
      if (header.HasLookahead(k)) token.named[k] = sets(k, header.num_neurons);
    }
  }
  return tokens;
}

// Adds what a token has in a layer.
inline void AddLayer(TraceWriter& writer, const TraceHeader& header,
                     const TracedToken& token, size_t l) {
  writer.AddSet(l, token.fired[l]);
  if (header.has_candidates) writer.AddCandidates(l, token.candidates[l]);
  if (header.num_experts > 0) writer.AddExperts(l, token.experts[l]);
  for (uint32_t k = 0; k <= kMaxTraceLookahead; ++k) {
    if (header.HasLookahead(k) && l >= k) {
      writer.AddNamed(k, l, token.named[k][l]);
    }
  }
}

// Of a file that is gone afterwards.
class TraceTest : public ::testing::Test {
 public:
  ~TraceTest() override { std::filesystem::remove(path_); }

 protected:
  // Writes in batches of `batch`, as sessions do: layer by layer.
  std::string Write(const TraceHeader& header,
                    const std::vector<TracedToken>& tokens, size_t batch) {
    std::filesystem::remove(path_);
    auto writer = TraceWriter::Create(path_, header);
    EXPECT_TRUE(writer) << writer.error().message;
    for (size_t begin = 0; begin < tokens.size(); begin += batch) {
      const size_t end = std::min(begin + batch, tokens.size());
      for (size_t t = begin; t < end; ++t) {
        if (tokens[t].token.begins_sequence) {
          (*writer)->NameSection(tokens[t].section);
        }
        (*writer)->AddTokens(std::span(&tokens[t].token, 1));
      }
      for (size_t l = 0; l < header.num_layers; ++l) {
        for (size_t t = begin; t < end; ++t) {
          AddLayer(**writer, header, tokens[t], l);
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

// What Next gave.
inline TracedToken LastOf(const TraceReader& reader, TraceToken token,
                          TraceSets fired) {
  TracedToken last = {.token = token, .fired = std::move(fired)};
  last.candidates = reader.candidates();
  last.experts = reader.experts();
  for (uint32_t k = 0; k <= kMaxTraceLookahead; ++k) {
    last.named[k] = reader.named(k);
  }
  last.section_idx = reader.section_idx();
  last.section = reader.section_name();
  return last;
}

// The error, or "" if all of it can be read. From a copy of exactly that size,
// so that a sanitizer sees reads behind the end.
inline std::string ReadTrace(const std::string& bytes,
                             std::vector<TracedToken>* tokens = nullptr,
                             TraceHeader* header = nullptr) {
  const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  auto reader = TraceReader::Parse({copy.get(), bytes.size()}, "test.trace");
  if (!reader.has_value()) return reader.error().message;
  if (header != nullptr) *header = reader->header();
  TraceToken token;
  TraceSets fired;
  while (true) {
    const auto more = reader->Next(token, fired);
    if (!more.has_value()) return more.error().message;
    if (!*more) return "";
    if (tokens != nullptr) tokens->push_back(LastOf(*reader, token, fired));
  }
}

}  // namespace thermocline::neuron::testing

#endif  // THERMOCLINE_NEURON_TEST_TRACE_H_
