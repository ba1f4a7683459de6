// A trace that is small enough to be counted by hand, for tests.
#ifndef THERMOCLINE_CLI_TEST_TRACE_FILE_H_
#define THERMOCLINE_CLI_TEST_TRACE_FILE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "neuron/trace.h"

namespace thermocline::cli {

// Of one layer.
struct TestToken {
  bool begins = false;
  std::vector<uint32_t> fired;
  std::vector<uint32_t> candidates;
  std::vector<uint32_t> experts;
  std::vector<uint32_t> named;  // no layers early
};

// Writes one layer's tokens; sections are "a:1", "a:2", ...
inline void WriteTestTrace(const std::string& path,
                           const neuron::TraceHeader& header,
                           const std::vector<TestToken>& tokens) {
  auto writer = neuron::TraceWriter::Create(path, header);
  ASSERT_TRUE(writer) << writer.error().message;
  size_t num_sections = 0;
  for (const TestToken& token : tokens) {
    if (token.begins) {
      (*writer)->NameSection("a:" + std::to_string(++num_sections));
    }
    const neuron::TraceToken announced = {.begins_sequence = token.begins};
    (*writer)->AddTokens({&announced, 1});
    (*writer)->AddSet(0, token.fired);
    if (header.has_candidates) (*writer)->AddCandidates(0, token.candidates);
    if (header.num_experts > 0) (*writer)->AddExperts(0, token.experts);
    if (header.HasLookahead(0)) (*writer)->AddNamed(0, 0, token.named);
    ASSERT_TRUE((*writer)->Flush());
  }
  ASSERT_TRUE((*writer)->Finish());
}

// Five neurons, of which 0 is hot; two texts, too short to be compared.
//   {0, 1} {0} {0, 1, 2} | {} {0}
// Candidates {0, 1} {0, 3} {0, 1} | {} {0}: 6 of 7 that fired, of 7 named.
inline void WriteTinyTrace(const std::string& path) {
  WriteTestTrace(path,
                 {.num_layers = 1,
                  .num_neurons = 5,
                  .model_name = "a <name>",
                  .has_candidates = true},
                 {{true, {0, 1}, {0, 1}},
                  {false, {0}, {0, 3}},
                  {false, {0, 1, 2}, {0, 1}},
                  {true, {}, {}},
                  {false, {0}, {0}}});
}

// Four experts of two neurons: 0 and 1 are used by turns, 3 always. Of two
// texts of nine tokens each.
inline void WriteMixtureTrace(const std::string& path) {
  std::vector<TestToken> tokens;
  for (uint32_t t = 0; t < 18; ++t) {
    tokens.push_back({.begins = t % 9 == 0,
                      .fired = {2 * (t % 2), 7},
                      .experts = {t % 2, 3},
                      .named = {7}});
  }
  WriteTestTrace(path,
                 {.num_layers = 1,
                  .num_neurons = 8,
                  .num_experts = 4,
                  .lookaheads = 1,
                  .unit_bytes = {128}},
                 tokens);
}

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_TEST_TRACE_FILE_H_
