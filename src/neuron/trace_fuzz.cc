// Any bytes as a trace: refused, or its sets are what trace.h promises and its
// totals are theirs. Then the same bytes as the tokens of a trace with right
// checksums, so that what lies behind those is reached.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "neuron/crc32.h"
#include "neuron/trace.h"

namespace thermocline::neuron {
namespace {

// Each ascends and has members below num_members; the first num_empty ones are
// empty. None at all without `are_there`.
void CheckSets(const TraceSets& sets, const TraceHeader& header, bool are_there,
               uint32_t num_members, size_t num_empty = 0) {
  TC_CHECK(sets.size() == (are_there ? header.num_layers : 0));
  for (size_t l = 0; l < sets.size(); ++l) {
    const std::vector<uint32_t>& set = sets[l];
    TC_CHECK(set.empty() || (l >= num_empty && set.back() < num_members));
    for (size_t i = 1; i < set.size(); ++i) TC_CHECK(set[i - 1] < set[i]);
  }
}

void CheckToken(const TraceReader& reader, const TraceSets& fired) {
  const TraceHeader& header = reader.header();
  CheckSets(fired, header, true, header.num_neurons);
  CheckSets(reader.candidates(), header, header.has_candidates,
            header.num_neurons);
  CheckSets(reader.experts(), header, header.num_experts > 0,
            header.num_experts);
  for (uint32_t k = 0; k <= kMaxTraceLookahead; ++k) {
    CheckSets(reader.named(k), header, header.HasLookahead(k),
              header.num_neurons, k);
  }
  TC_CHECK(reader.section_name().size() <= kMaxTraceSection);
}

void ReadAll(std::span<const std::byte> bytes) {
  auto reader = TraceReader::Parse(bytes, "fuzz");
  if (!reader.has_value()) return;
  TraceTotals totals;
  TraceToken token;
  TraceSets fired;
  while (true) {
    const auto more = reader->Next(token, fired);
    if (!more.has_value()) return;
    if (!*more) break;
    CheckToken(*reader, fired);
    ++totals.num_tokens;
    totals.num_sequences += token.begins_sequence ? 1 : 0;
    TC_CHECK(reader->section_idx() + 1 == totals.num_sequences);
    for (const auto& set : fired) totals.num_fired += set.size();
  }
  TC_CHECK(totals == reader->totals());
}

void PutCrc(std::span<std::byte> bytes) {
  const uint32_t crc = Crc32(bytes.first(bytes.size() - 4));
  std::memcpy(bytes.data() + bytes.size() - 4, &crc, sizeof(crc));
}

// The headers of two layers of eight neurons: as version 1 has them, and of a
// mixture with every kind of set, and the run that wrote it.
std::vector<std::byte> OldHeader() {
  std::vector<std::byte> out(40);
  std::memcpy(out.data(), "TC-TRACE\1\0\0\0\2\0\0\0\10\0\0\0", 20);
  PutCrc(out);
  return out;
}
std::vector<std::byte> FullHeader() {
  // Behind its head the run has slots and shares, of four experts each.
  std::vector<std::byte> out(48 + 12 + 2 * 4 + 2 * 4 * 4 + 4);
  std::memcpy(out.data(), "TC-TRACE\2\0\0\0\2\0\0\0\10\0\0\0", 20);
  std::memcpy(out.data() + 36, "\5\0\0\0\4\0\0\0\3\0\0\0", 12);
  std::memcpy(out.data() + 48, "\1\0\0\0\2\0\0\0\1\0\0\0", 12);
  PutCrc(out);
  return out;
}

// A trace with that header whose one block has `payload`, of as many tokens as
// its first byte says.
std::vector<std::byte> Wrapped(std::vector<std::byte> out,
                               std::span<const std::byte> payload) {
  std::vector<std::byte> block(8 + payload.size() - 1 + 4);
  block[0] = static_cast<std::byte>(payload.size() - 1);
  block[1] = static_cast<std::byte>((payload.size() - 1) >> 8);
  block[4] = payload[0];
  std::memcpy(block.data() + 8, payload.data() + 1, payload.size() - 1);
  PutCrc(block);
  out.insert(out.end(), block.begin(), block.end());
  std::vector<std::byte> trailer(36);
  trailer[8] = payload[0];
  trailer[16] = std::byte{1};
  trailer[24] = payload[payload.size() - 1];
  PutCrc(trailer);
  out.insert(out.end(), trailer.begin(), trailer.end());
  return out;
}

}  // namespace
}  // namespace thermocline::neuron

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline::neuron;
  const auto bytes = std::as_bytes(std::span(data, size));
  ReadAll(bytes);
  if (size >= 2 && size < 65000) {
    ReadAll(Wrapped(OldHeader(), bytes));
    ReadAll(Wrapped(FullHeader(), bytes));
  }
  return 0;
}
