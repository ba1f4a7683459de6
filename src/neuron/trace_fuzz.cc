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

void ReadAll(std::span<const std::byte> bytes) {
  auto reader = TraceReader::Parse(bytes, "fuzz");
  if (!reader.has_value()) return;
  TraceTotals totals;
  TraceToken token;
  std::vector<std::vector<uint32_t>> sets;
  while (true) {
    const auto more = reader->Next(token, sets);
    if (!more.has_value()) return;
    if (!*more) break;
    TC_CHECK(sets.size() == reader->header().num_layers);
    ++totals.num_tokens;
    totals.num_sequences += token.begins_sequence ? 1 : 0;
    for (const std::vector<uint32_t>& set : sets) {
      totals.num_fired += set.size();
      TC_CHECK(set.empty() || set.back() < reader->header().num_neurons);
      for (size_t i = 1; i < set.size(); ++i) TC_CHECK(set[i - 1] < set[i]);
    }
  }
  TC_CHECK(totals == reader->totals());
}

void PutCrc(std::span<std::byte> bytes) {
  const uint32_t crc = Crc32(bytes.first(bytes.size() - 4));
  std::memcpy(bytes.data() + bytes.size() - 4, &crc, sizeof(crc));
}

// A trace of two layers of eight neurons whose one block has `payload`, of as
// many tokens as its first byte says.
std::vector<std::byte> Wrapped(std::span<const std::byte> payload) {
  std::vector<std::byte> out(40);
  std::memcpy(out.data(), "TC-TRACE\1\0\0\0\2\0\0\0\10\0\0\0", 20);
  PutCrc(out);
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
  if (size >= 2 && size < 65000) ReadAll(Wrapped(bytes));
  return 0;
}
