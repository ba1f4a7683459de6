// Traces: which neurons fired, token by token and layer by layer. What policies
// for residency are judged on. Byte by byte: docs/formats/trace.md.
#ifndef THERMOCLINE_NEURON_TRACE_H_
#define THERMOCLINE_NEURON_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/file.h"

namespace thermocline::neuron {

inline constexpr uint32_t kMaxTraceLayers = uint32_t{1} << 16;
inline constexpr uint32_t kMaxTraceNeurons = uint32_t{1} << 31;
inline constexpr size_t kMaxTraceName = 1024;

// Which positions of a sequence are in a trace.
enum class TracePositions : uint32_t { kAll = 0, kGenerated = 1 };

struct TraceHeader {
  uint32_t num_layers = 0;   // L, 1 to kMaxTraceLayers
  uint32_t num_neurons = 0;  // F, 1 to kMaxTraceNeurons; of mixtures F * E
  TracePositions positions = TracePositions::kAll;
  uint64_t model_hash = 0;  // model::ModelFingerprint; 0: unknown
  std::string model_name;   // for people; at most kMaxTraceName bytes

  bool operator==(const TraceHeader&) const = default;
};

struct TraceToken {
  // The one before it in the file is of another prompt.
  bool begins_sequence = false;
  // The model chose it, so it was computed alone; else it is of the prompt.
  bool is_generated = false;

  bool operator==(const TraceToken&) const = default;
};

struct TraceTotals {
  uint64_t num_tokens = 0;
  uint64_t num_sequences = 0;
  uint64_t num_fired = 0;  // members of all sets

  bool operator==(const TraceTotals&) const = default;
};

// Writes a trace as it comes, in the memory of what is announced and some
// 64 KiB. The file appears under its name at Finish (os::AtomicFile).
// Usage: for each batch AddTokens, AddSet for all of its tokens in all layers,
// Flush; then Finish.
// Threads  one caller at a time.
class TraceWriter {
 public:
  // kInvalidArgument: a header out of its ranges; os::AtomicFile's errors.
  static Result<std::unique_ptr<TraceWriter>> Create(const std::string& path,
                                                     const TraceHeader& header);

  // Announces the next tokens. The first of all begins a sequence (CHECKed).
  void AddTokens(std::span<const TraceToken> tokens);

  // The neurons that fired, ascending and < F (CHECKed). In each layer the
  // tokens come in the order in which they were announced; layers come in any.
  void AddSet(size_t layer_idx, std::span<const uint32_t> set);

  // Requires that all sets of all announced tokens are there (CHECKed). kIo.
  Status Flush();

  // kIo. At most once, after Flush.
  Status Finish();

  const TraceTotals& totals() const { return totals_; }

 private:
  // Encoded sets of one layer, those of waiting tokens.
  struct Layer {
    std::vector<std::byte> bytes;
    std::vector<size_t> ends;  // of each set in `bytes`
  };

  TraceWriter(std::unique_ptr<os::AtomicFile> file, const TraceHeader& header);
  Status WriteHeader();
  Status WriteBlock();

  std::unique_ptr<os::AtomicFile> file_;
  TraceHeader header_;
  std::vector<TraceToken> waiting_;
  std::vector<Layer> layers_;     // [L]
  std::vector<std::byte> block_;  // whole tokens, not yet written
  uint32_t num_block_tokens_ = 0;
  TraceTotals totals_;
};

// Reads a trace, untrusted, in the memory of one token's sets.
class TraceReader {
 public:
  // os::MappedFile's errors; kCorrupt: no trace, a damaged one, or one that was
  // cut;
  // kUnsupported: of a version to come. Messages name the file.
  static Result<TraceReader> Open(const std::string& path);
  // From bytes that outlive the reader.
  static Result<TraceReader> Parse(std::span<const std::byte> bytes,
                                   const std::string& name);

  const std::string& name() const { return name_; }
  const TraceHeader& header() const { return header_; }
  // As the file's end has them; Next compares.
  const TraceTotals& totals() const { return totals_; }

  // The next token and its sets [L]. false: there is none behind the last one.
  // kCorrupt: a checksum or the content is wrong; the token is named.
  Result<bool> Next(TraceToken& token,
                    std::vector<std::vector<uint32_t>>& sets);

 private:
  TraceReader() = default;
  Status ReadHeader();
  Status ReadTrailer();
  Status EnterBlock();
  tl::unexpected<Error> Corrupt(std::string_view what) const;

  os::MappedFile mapping_;  // empty if the bytes are somebody else's
  std::string name_;
  TraceHeader header_;
  TraceTotals totals_;
  std::span<const std::byte> blocks_;   // those to come
  std::span<const std::byte> payload_;  // of this block, tokens to come
  uint32_t num_block_tokens_ = 0;       // to come
  TraceTotals seen_;
};

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_TRACE_H_
