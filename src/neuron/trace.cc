#include "neuron/trace.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/quote.h"
#include "base/units.h"
#include "neuron/active_set.h"
#include "neuron/crc32.h"

namespace thermocline::neuron {
namespace {

constexpr std::string_view kMagic = "TC-TRACE";
constexpr uint32_t kVersion = 1;
constexpr size_t kFixedHeaderBytes = 36;  // up to the name
constexpr size_t kBlockHeadBytes = 8;
constexpr size_t kTrailerBytes = 36;
constexpr size_t kCrcBytes = 4;
// A block is written once it has so many bytes.
constexpr size_t kBlockBytes = size_t{64} << 10;

constexpr uint8_t kBegins = 1;
constexpr uint8_t kGenerated = 2;

template <typename T>
void Append(T value, std::vector<std::byte>& out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

void AppendCrc(std::vector<std::byte>& out) { Append(Crc32(out), out); }

// Requires bytes enough.
template <typename T>
T Load(std::span<const std::byte> bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<T>(bytes[at + i]) << (8 * i));
  }
  return value;
}

// Whether the last four bytes are the checksum of those before.
bool CrcIsRight(std::span<const std::byte> bytes) {
  const size_t size = bytes.size() - kCrcBytes;
  return Crc32(bytes.first(size)) == Load<uint32_t>(bytes, size);
}

std::string_view WhyBad(const TraceHeader& header) {
  if (header.num_layers < 1 || header.num_layers > kMaxTraceLayers) {
    return "its number of layers is out of range";
  }
  if (header.num_neurons < 1 || header.num_neurons > kMaxTraceNeurons) {
    return "its number of neurons is out of range";
  }
  if (header.model_name.size() > kMaxTraceName) {
    return "the model's name is too long";
  }
  return "";
}

}  // namespace

TraceWriter::TraceWriter(std::unique_ptr<os::AtomicFile> file,
                         const TraceHeader& header)
    : file_(std::move(file)), header_(header), layers_(header.num_layers) {}

Result<std::unique_ptr<TraceWriter>> TraceWriter::Create(
    const std::string& path, const TraceHeader& header) {
  if (const std::string_view why = WhyBad(header); !why.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: no trace can be written: {} ({} layers of {} neurons)",
                path, why, header.num_layers, header.num_neurons);
  }
  TC_ASSIGN_OR_RETURN(auto file, os::AtomicFile::Create(path));
  std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(file), header));
  TC_RETURN_IF_ERROR(writer->WriteHeader());
  return writer;
}

Status TraceWriter::WriteHeader() {
  std::vector<std::byte> out;
  for (const char c : kMagic) out.push_back(static_cast<std::byte>(c));
  Append(kVersion, out);
  Append(header_.num_layers, out);
  Append(header_.num_neurons, out);
  Append(static_cast<uint32_t>(header_.positions), out);
  Append(header_.model_hash, out);
  Append(static_cast<uint32_t>(header_.model_name.size()), out);
  for (const char c : header_.model_name) {
    out.push_back(static_cast<std::byte>(c));
  }
  AppendCrc(out);
  return file_->Write(out);
}

void TraceWriter::AddTokens(std::span<const TraceToken> tokens) {
  for (const TraceToken& token : tokens) {
    if (token.begins_sequence) ++totals_.num_sequences;
    TC_CHECK(totals_.num_sequences > 0);
    ++totals_.num_tokens;
    waiting_.push_back(token);
  }
}

void TraceWriter::AddSet(size_t layer_idx, std::span<const uint32_t> set) {
  Layer& layer = layers_[layer_idx];
  TC_CHECK(layer.ends.size() < waiting_.size());
  AppendActiveSet(set, header_.num_neurons, layer.bytes);
  layer.ends.push_back(layer.bytes.size());
  totals_.num_fired += set.size();
}

Status TraceWriter::Flush() {
  for (const Layer& layer : layers_) {
    TC_CHECK(layer.ends.size() == waiting_.size());
  }
  for (size_t t = 0; t < waiting_.size(); ++t) {
    const TraceToken& token = waiting_[t];
    block_.push_back(
        static_cast<std::byte>((token.begins_sequence ? kBegins : 0) |
                               (token.is_generated ? kGenerated : 0)));
    for (const Layer& layer : layers_) {
      const size_t begin = t == 0 ? 0 : layer.ends[t - 1];
      const auto set =
          std::span(layer.bytes).subspan(begin, layer.ends[t] - begin);
      block_.insert(block_.end(), set.begin(), set.end());
    }
    ++num_block_tokens_;
    if (block_.size() >= kBlockBytes) TC_RETURN_IF_ERROR(WriteBlock());
  }
  waiting_.clear();
  for (Layer& layer : layers_) {
    layer.bytes.clear();
    layer.ends.clear();
  }
  return {};
}

Status TraceWriter::WriteBlock() {
  TC_CHECK(block_.size() <= std::numeric_limits<uint32_t>::max());
  std::vector<std::byte> head;
  Append(static_cast<uint32_t>(block_.size()), head);
  Append(num_block_tokens_, head);
  std::vector<std::byte> crc;
  Append(Crc32(block_, Crc32(head)), crc);
  TC_RETURN_IF_ERROR(file_->Write(head));
  TC_RETURN_IF_ERROR(file_->Write(block_));
  TC_RETURN_IF_ERROR(file_->Write(crc));
  block_.clear();
  num_block_tokens_ = 0;
  return {};
}

Status TraceWriter::Finish() {
  TC_CHECK(waiting_.empty());
  if (!block_.empty()) TC_RETURN_IF_ERROR(WriteBlock());
  std::vector<std::byte> out;
  Append(uint64_t{0}, out);
  Append(totals_.num_tokens, out);
  Append(totals_.num_sequences, out);
  Append(totals_.num_fired, out);
  AppendCrc(out);
  TC_RETURN_IF_ERROR(file_->Write(out));
  return file_->Commit();
}

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

Status TraceReader::ReadHeader() {
  const std::span<const std::byte> bytes = blocks_;
  if (bytes.size() < kMagic.size() ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return Corrupt("is no trace: it does not begin with \"TC-TRACE\"");
  }
  if (bytes.size() < kFixedHeaderBytes) return Corrupt("the header is cut off");
  const auto version = Load<uint32_t>(bytes, 8);
  if (version != kVersion) {
    return Fail(ErrorCode::kUnsupported,
                "{}: is a trace of version {}; this program reads version {}",
                name_, version, kVersion);
  }
  const auto name_size = Load<uint32_t>(bytes, 32);
  if (name_size > kMaxTraceName) {
    return Corrupt("the header is damaged: the model's name is too long");
  }
  const size_t size = kFixedHeaderBytes + name_size + kCrcBytes;
  if (bytes.size() < size) return Corrupt("the header is cut off");
  if (!CrcIsRight(bytes.first(size))) {
    return Corrupt("the header is damaged: its checksum is wrong");
  }
  const auto positions = Load<uint32_t>(bytes, 20);
  const auto* text =
      reinterpret_cast<const char*>(bytes.data()) + kFixedHeaderBytes;
  header_ = {.num_layers = Load<uint32_t>(bytes, 12),
             .num_neurons = Load<uint32_t>(bytes, 16),
             .positions = static_cast<TracePositions>(positions),
             .model_hash = Load<uint64_t>(bytes, 24),
             .model_name = std::string(text, name_size)};
  if (const std::string_view why = WhyBad(header_); !why.empty()) {
    return Corrupt(fmt::format("the header is wrong: {}", why));
  }
  if (positions > static_cast<uint32_t>(TracePositions::kGenerated)) {
    return Corrupt("the header is wrong: which positions it has is unknown");
  }
  blocks_ = bytes.subspan(size);
  return {};
}

Status TraceReader::ReadTrailer() {
  if (blocks_.size() < kTrailerBytes) return Corrupt("the end is cut off");
  const auto bytes = blocks_.last(kTrailerBytes);
  if (Load<uint64_t>(bytes, 0) != 0 || !CrcIsRight(bytes)) {
    return Corrupt(
        "the end is cut off or damaged: no totals with a right checksum");
  }
  totals_ = {.num_tokens = Load<uint64_t>(bytes, 8),
             .num_sequences = Load<uint64_t>(bytes, 16),
             .num_fired = Load<uint64_t>(bytes, 24)};
  blocks_ = blocks_.first(blocks_.size() - kTrailerBytes);
  return {};
}

Status TraceReader::EnterBlock() {
  const auto where = [&] {
    return fmt::format("the block behind token {} ", seen_.num_tokens);
  };
  if (blocks_.size() < kBlockHeadBytes + kCrcBytes) {
    return Corrupt(where() + "is cut off");
  }
  const auto num_bytes = Load<uint32_t>(blocks_, 0);
  const auto num_tokens = Load<uint32_t>(blocks_, 4);
  if (num_bytes > blocks_.size() - kBlockHeadBytes - kCrcBytes) {
    return Corrupt(where() + "is longer than the file");
  }
  const size_t size = kBlockHeadBytes + num_bytes + kCrcBytes;
  if (!CrcIsRight(blocks_.first(size))) {
    return Corrupt(where() + "is damaged: its checksum is wrong");
  }
  if (num_tokens == 0) return Corrupt(where() + "has no tokens");
  payload_ = blocks_.subspan(kBlockHeadBytes, num_bytes);
  num_block_tokens_ = num_tokens;
  blocks_ = blocks_.subspan(size);
  return {};
}

Result<bool> TraceReader::Next(TraceToken& token,
                               std::vector<std::vector<uint32_t>>& sets) {
  if (num_block_tokens_ == 0) {
    if (blocks_.empty()) {
      if (seen_ == totals_) return false;
      return Corrupt(
          fmt::format("holds {} where its end tells of {}, or other sets",
                      Plural(seen_.num_tokens, "token"), totals_.num_tokens));
    }
    TC_RETURN_IF_ERROR(EnterBlock());
  }
  const auto wrong = [&](std::string_view what) {
    return Corrupt(fmt::format("token {}: {}", seen_.num_tokens, what));
  };
  if (payload_.empty()) return wrong("is behind the end of its block");
  const auto flags = static_cast<uint8_t>(payload_[0]);
  if (flags > (kBegins | kGenerated)) return wrong("has unknown flags");
  token = {.begins_sequence = (flags & kBegins) != 0,
           .is_generated = (flags & kGenerated) != 0};
  if (token.begins_sequence) ++seen_.num_sequences;
  if (seen_.num_sequences == 0) return wrong("begins no sequence");
  payload_ = payload_.subspan(1);
  sets.resize(header_.num_layers);
  for (uint32_t l = 0; l < header_.num_layers; ++l) {
    const auto size = ReadActiveSet(payload_, header_.num_neurons, sets[l]);
    if (!size.has_value()) {
      return wrong(fmt::format("what is there for layer {} is no set", l));
    }
    payload_ = payload_.subspan(*size);
    seen_.num_fired += sets[l].size();
  }
  ++seen_.num_tokens;
  if (--num_block_tokens_ == 0 && !payload_.empty()) {
    return wrong("has bytes behind it that belong to nothing");
  }
  return true;
}

}  // namespace thermocline::neuron
