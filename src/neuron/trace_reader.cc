#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "neuron/active_set.h"
#include "neuron/trace.h"
#include "neuron/trace_layout.h"

namespace thermocline::neuron {

using trace_layout::Load;

Result<TraceReader> TraceReader::Open(const std::string& path) {
  TC_ASSIGN_OR_RETURN(auto mapping, os::MappedFile::Open(path));
  TC_ASSIGN_OR_RETURN(auto reader, Parse(mapping.bytes(), path));
  reader.mapping_ = std::move(mapping);
  return reader;
}

Result<TraceReader> TraceReader::Parse(std::span<const std::byte> bytes,
                                       const std::string& name) {
  TraceReader reader;
  reader.name_ = name;
  reader.blocks_ = bytes;
  TC_RETURN_IF_ERROR(reader.ReadHeader());
  TC_RETURN_IF_ERROR(reader.ReadTrailer());
  return reader;
}

tl::unexpected<Error> TraceReader::Corrupt(std::string_view what) const {
  return Fail(ErrorCode::kCorrupt, "{}: {}", name_, what);
}

tl::unexpected<Error> TraceReader::WrongToken(std::string_view what) const {
  return Corrupt(fmt::format("token {}: {}", seen_.num_tokens, what));
}

Status TraceReader::ReadHeader() {
  const std::span<const std::byte> bytes = blocks_;
  const std::string_view magic = trace_layout::kMagic;
  if (bytes.size() < magic.size() ||
      std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) {
    return Corrupt("is no trace: it does not begin with \"TC-TRACE\"");
  }
  if (bytes.size() < trace_layout::kOldFixedHeaderBytes) {
    return Corrupt("the header is cut off");
  }
  const auto version = Load<uint32_t>(bytes, 8);
  if (version != trace_layout::kVersion &&
      version != trace_layout::kOldVersion) {
    return Fail(ErrorCode::kUnsupported,
                "{}: is a trace of version {}; this program reads versions {} "
                "and {}",
                name_, version, trace_layout::kOldVersion,
                trace_layout::kVersion);
  }
  has_sections_ = version > trace_layout::kOldVersion;
  return ReadFields(bytes);
}

Status TraceReader::ReadFields(std::span<const std::byte> bytes) {
  const bool is_old = !has_sections_;
  const size_t fixed_size = is_old ? trace_layout::kOldFixedHeaderBytes
                                   : trace_layout::kFixedHeaderBytes;
  if (bytes.size() < fixed_size) return Corrupt("the header is cut off");
  const auto name_size = Load<uint32_t>(bytes, 32);
  const uint32_t flags = is_old ? 0 : Load<uint32_t>(bytes, 36);
  header_.num_layers = Load<uint32_t>(bytes, 12);
  if (name_size > kMaxTraceName || header_.num_layers > kMaxTraceLayers) {
    return Corrupt(
        "the header is wrong: the model's name is too long, or the number of "
        "layers is out of range");
  }
  const bool has_bytes = (flags & trace_layout::kHasUnitBytes) != 0;
  const size_t at = fixed_size + name_size;
  const size_t run_at =
      at + (has_bytes ? size_t{header_.num_layers} * sizeof(uint64_t) : 0);
  header_.num_neurons = Load<uint32_t>(bytes, 16);
  header_.num_experts = is_old ? 0 : Load<uint32_t>(bytes, 40);
  TC_ASSIGN_OR_RETURN(const size_t run_bytes, RunBytes(bytes, flags, run_at));
  const size_t end = run_at + run_bytes;
  if (bytes.size() < end + trace_layout::kCrcBytes) {
    return Corrupt("the header is cut off");
  }
  if (!trace_layout::CrcIsRight(bytes.first(end + trace_layout::kCrcBytes))) {
    return Corrupt("the header is damaged: its checksum is wrong");
  }
  header_.positions = static_cast<TracePositions>(Load<uint32_t>(bytes, 20));
  header_.model_hash = Load<uint64_t>(bytes, 24);
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + fixed_size;
  header_.model_name.assign(text, name_size);
  header_.has_candidates = (flags & trace_layout::kHasCandidates) != 0;
  header_.lookaheads = is_old ? 0 : Load<uint32_t>(bytes, 44);
  for (size_t i = at; i < run_at; i += sizeof(uint64_t)) {
    header_.unit_bytes.push_back(Load<uint64_t>(bytes, i));
  }
  if (run_bytes > 0) ReadRun(bytes.subspan(run_at, run_bytes));
  blocks_ = bytes.subspan(end + trace_layout::kCrcBytes);
  return CheckFields(flags);
}

// What a run's part at this place takes, all of which is there; 0 without one.
Result<size_t> TraceReader::RunBytes(std::span<const std::byte> bytes,
                                     uint32_t flags, size_t at) const {
  if ((flags & trace_layout::kHasRun) == 0) return 0;
  constexpr size_t kHead = trace_layout::kRunHeadBytes;
  if (bytes.size() < kHead || at > bytes.size() - kHead) {
    return Corrupt("the header is cut off");
  }
  const TraceRun run = {.by_experts = Load<uint32_t>(bytes, at) != 0};
  const bool has_shares = Load<uint32_t>(bytes, at + 8) != 0;
  // Fewer than 2^64.
  const uint64_t num_shares =
      has_shares ? uint64_t{header_.num_layers} * header_.num_units(run) : 0;
  if (num_shares > bytes.size() / sizeof(uint32_t) ||
      header_.num_layers > bytes.size() / sizeof(uint32_t)) {
    return Corrupt("the header is cut off");
  }
  return kHead + (header_.num_layers + num_shares) * sizeof(uint32_t);
}

// Of exactly these bytes. Values are checked later.
void TraceReader::ReadRun(std::span<const std::byte> bytes) {
  const auto units = Load<uint32_t>(bytes, 0);
  const auto lessons = static_cast<TraceLessons>(Load<uint32_t>(bytes, 4));
  const auto has_shares = Load<uint32_t>(bytes, 8);
  TraceRun& run = header_.run.emplace();
  run.by_experts = units == 1;
  // Of no known kind where something else is none.
  run.lessons =
      units > 1 || has_shares > 1 ? TraceLessons{UINT32_MAX} : lessons;
  size_t at = trace_layout::kRunHeadBytes;
  const auto next = [&] {
    at += sizeof(uint32_t);
    return Load<uint32_t>(bytes, at - sizeof(uint32_t));
  };
  for (uint32_t l = 0; l < header_.num_layers; ++l) run.slots.push_back(next());
  if (has_shares == 0 || header_.num_layers == 0) return;
  const uint64_t num_units =
      (bytes.size() - at) / sizeof(uint32_t) / header_.num_layers;
  for (uint32_t l = 0; l < header_.num_layers; ++l) {
    std::vector<float>& layer = run.shares.emplace_back();
    for (uint64_t i = 0; i < num_units; ++i) {
      layer.push_back(std::bit_cast<float>(next()));
    }
  }
}

Status TraceReader::CheckFields(uint32_t flags) const {
  if (const auto why = trace_layout::WhyBad(header_); !why.empty()) {
    return Corrupt(fmt::format("the header is wrong: {}", why));
  }
  if (header_.positions > TracePositions::kGenerated) {
    return Corrupt("the header is wrong: which positions it has is unknown");
  }
  if (flags > (trace_layout::kHasCandidates | trace_layout::kHasUnitBytes |
               trace_layout::kHasRun)) {
    return Corrupt("the header is wrong: it has unknown flags");
  }
  return {};
}

Status TraceReader::ReadTrailer() {
  if (blocks_.size() < trace_layout::kTrailerBytes) {
    return Corrupt("the end is cut off");
  }
  const auto bytes = blocks_.last(trace_layout::kTrailerBytes);
  if (Load<uint64_t>(bytes, 0) != 0 || !trace_layout::CrcIsRight(bytes)) {
    return Corrupt(
        "the end is cut off or damaged: no totals with a right checksum");
  }
  totals_ = {.num_tokens = Load<uint64_t>(bytes, 8),
             .num_sequences = Load<uint64_t>(bytes, 16),
             .num_fired = Load<uint64_t>(bytes, 24)};
  blocks_ = blocks_.first(blocks_.size() - trace_layout::kTrailerBytes);
  return {};
}

Status TraceReader::EnterBlock() {
  const auto where = [&] {
    return fmt::format("the block behind token {} ", seen_.num_tokens);
  };
  constexpr size_t kFrame =
      trace_layout::kBlockHeadBytes + trace_layout::kCrcBytes;
  if (blocks_.size() < kFrame) return Corrupt(where() + "is cut off");
  const auto num_bytes = Load<uint32_t>(blocks_, 0);
  const auto num_tokens = Load<uint32_t>(blocks_, 4);
  if (num_bytes > blocks_.size() - kFrame) {
    return Corrupt(where() + "is longer than the file");
  }
  if (!trace_layout::CrcIsRight(blocks_.first(kFrame + num_bytes))) {
    return Corrupt(where() + "is damaged: its checksum is wrong");
  }
  if (num_tokens == 0) return Corrupt(where() + "has no tokens");
  payload_ = blocks_.subspan(trace_layout::kBlockHeadBytes, num_bytes);
  num_block_tokens_ = num_tokens;
  blocks_ = blocks_.subspan(kFrame + num_bytes);
  return {};
}

Result<bool> TraceReader::Next(TraceToken& token, TraceSets& fired) {
  if (num_block_tokens_ == 0) {
    if (blocks_.empty()) {
      if (seen_ == totals_) return false;
      return Corrupt(
          fmt::format("holds {} where its end tells of {}, or other sets",
                      Plural(seen_.num_tokens, "token"), totals_.num_tokens));
    }
    TC_RETURN_IF_ERROR(EnterBlock());
  }
  TC_RETURN_IF_ERROR(ReadToken(token, fired));
  if (--num_block_tokens_ == 0 && !payload_.empty()) {
    return WrongToken("has bytes behind it that belong to nothing");
  }
  if (seen_.num_tokens >= totals_.num_tokens ||
      seen_.num_sequences > totals_.num_sequences ||
      seen_.num_fired > totals_.num_fired) {
    return WrongToken("is more than the file's end tells of");
  }
  ++seen_.num_tokens;
  return true;
}

Status TraceReader::ReadToken(TraceToken& token, TraceSets& fired) {
  TC_RETURN_IF_ERROR(ReadFlags(token));
  TC_RETURN_IF_ERROR(ReadSets(0, header_.num_neurons, fired));
  for (const std::vector<uint32_t>& set : fired) seen_.num_fired += set.size();
  if (header_.has_candidates) {
    TC_RETURN_IF_ERROR(ReadSets(0, header_.num_neurons, candidates_));
  }
  if (header_.num_experts > 0) {
    TC_RETURN_IF_ERROR(ReadSets(0, header_.num_experts, experts_));
  }
  for (uint32_t k = 0; k <= kMaxTraceLookahead; ++k) {
    if (!header_.HasLookahead(k)) continue;
    TC_RETURN_IF_ERROR(ReadSets(k, header_.num_neurons, named_[k]));
  }
  return {};
}

Status TraceReader::ReadFlags(TraceToken& token) {
  if (payload_.empty()) return WrongToken("is behind the end of its block");
  const auto flags = static_cast<uint8_t>(payload_[0]);
  const uint8_t most = trace_layout::kBegins | trace_layout::kGenerated |
                       (header_.run ? trace_layout::kTogether : 0);
  if (flags > most) return WrongToken("has unknown flags");
  token = {.begins_sequence = (flags & trace_layout::kBegins) != 0,
           .is_generated = (flags & trace_layout::kGenerated) != 0,
           .is_together = (flags & trace_layout::kTogether) != 0};
  if (token.is_together && (token.begins_sequence || token.is_generated)) {
    return WrongToken("is together with one of another prompt, or generated");
  }
  payload_ = payload_.subspan(1);
  if (token.begins_sequence) {
    ++seen_.num_sequences;
    if (has_sections_) TC_RETURN_IF_ERROR(ReadSection());
  }
  if (seen_.num_sequences == 0) return WrongToken("begins no sequence");
  return {};
}

Status TraceReader::ReadSection() {
  if (payload_.size() < sizeof(uint16_t)) {
    return WrongToken("its section's name is cut off");
  }
  const size_t size = Load<uint16_t>(payload_, 0);
  payload_ = payload_.subspan(sizeof(uint16_t));
  if (size > kMaxTraceSection) {
    return WrongToken("its section's name is too long");
  }
  if (size > payload_.size()) {
    return WrongToken("its section's name is cut off");
  }
  section_.assign(reinterpret_cast<const char*>(payload_.data()), size);
  payload_ = payload_.subspan(size);
  return {};
}

// Of layers [first_layer, L); those before have none.
Status TraceReader::ReadSets(size_t first_layer, uint32_t num_members,
                             TraceSets& sets) {
  sets.resize(header_.num_layers);
  for (size_t l = first_layer; l < sets.size(); ++l) {
    const auto size = ReadActiveSet(payload_, num_members, sets[l]);
    if (!size.has_value()) {
      return WrongToken(fmt::format("what is there for layer {} is no set", l));
    }
    payload_ = payload_.subspan(*size);
  }
  return {};
}

}  // namespace thermocline::neuron
