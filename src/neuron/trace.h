// Traces: which neurons fired, token by token and layer by layer. What policies
// for residency are judged on. Byte by byte: docs/formats/trace.md.
#ifndef THERMOCLINE_NEURON_TRACE_H_
#define THERMOCLINE_NEURON_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/file.h"

namespace thermocline::neuron {

inline constexpr uint32_t kMaxTraceLayers = uint32_t{1} << 16;
inline constexpr uint32_t kMaxTraceNeurons = uint32_t{1} << 31;
inline constexpr size_t kMaxTraceName = 1024;    // bytes, of a model's
inline constexpr size_t kMaxTraceSection = 512;  // likewise, of a section's
inline constexpr uint32_t kMaxTraceLookahead = 3;

// Which positions of a sequence are in a trace.
enum class TracePositions : uint32_t { kAll = 0, kGenerated = 1 };

// What the prompts of a run tell its policy.
enum class TraceLessons : uint32_t {
  kNone = 0,
  kRows = 1,    // whom each of the last kTraceLessonRows rows of a pass fires
  kPasses = 2,  // what all rows of a pass use together, as of any pass
};
inline constexpr size_t kTraceLessonRows = 64;

// The run that wrote a trace, of a model of which a part stayed in its file:
// what its policy began with.
struct TraceRun {
  bool by_experts = false;  // came and went; else neurons
  TraceLessons lessons = TraceLessons::kNone;
  std::vector<uint32_t> slots;  // [L] of units that may stay, at most of all
  // [L][units] how often each is used, by the model's profile: finite, >= 0. Or
  // none.
  std::vector<std::vector<float>> shares;

  bool operator==(const TraceRun&) const = default;
};

struct TraceHeader {
  uint32_t num_layers = 0;   // L, 1 to kMaxTraceLayers
  uint32_t num_neurons = 0;  // F, 1 to kMaxTraceNeurons; of mixtures F * E
  TracePositions positions = TracePositions::kAll;
  uint64_t model_hash = 0;  // model::ModelFingerprint; 0: unknown
  std::string model_name;   // for people; at most kMaxTraceName bytes
  // E, each of num_neurons / E neurons; 0: no mixture. Then tokens have sets of
  // the experts that they use.
  uint32_t num_experts = 0;
  // Tokens have sets of candidates: whom the layer's predictor names from what
  // it was made for.
  bool has_candidates = false;
  // Bit k: tokens have sets of whom a layer's predictor named k layers early,
  // k <= kMaxTraceLookahead.
  uint32_t lookaheads = 0;
  // [L] of what is moved at once: of an expert, or of a neuron without experts.
  // Empty: unknown. All units together are fewer than 2^63 bytes.
  std::vector<uint64_t> unit_bytes;
  // Nothing where no run wrote it that could not hold its model. With it tokens
  // say which were computed together; candidates are those that it read.
  std::optional<TraceRun> run;

  // Of a layer.
  uint32_t num_units() const {
    return num_experts > 0 ? num_experts : num_neurons;
  }
  uint32_t num_units(const TraceRun& of) const {
    return of.by_experts ? num_experts : num_neurons;
  }
  bool HasLookahead(uint32_t k) const { return (lookaheads >> k & 1) != 0; }

  bool operator==(const TraceHeader&) const = default;
};

struct TraceToken {
  // The one before it in the file is of another prompt: a section begins.
  bool begins_sequence = false;
  // The model chose it, so it was computed alone; else it is of the prompt.
  bool is_generated = false;
  // In one pass with the one before it, of the same prompt; only where the
  // header has a run.
  bool is_together = false;

  bool operator==(const TraceToken&) const = default;
};

struct TraceTotals {
  uint64_t num_tokens = 0;
  uint64_t num_sequences = 0;
  uint64_t num_fired = 0;  // members of all sets of those that fired

  bool operator==(const TraceTotals&) const = default;
};

// A set for each layer, ascending.
using TraceSets = std::vector<std::vector<uint32_t>>;

// Writes a trace as it comes, in the memory of what is announced and some
// 64 KiB. The file appears under its name at Finish (os::AtomicFile).
// Usage: for each batch AddTokens, for all of its tokens in all layers AddSet
// and what else the header promises, Flush; then Finish.
// Threads  one caller at a time.
class TraceWriter {
 public:
  // kInvalidArgument: a header out of its ranges; os::AtomicFile's errors.
  static Result<std::unique_ptr<TraceWriter>> Create(const std::string& path,
                                                     const TraceHeader& header);

  // What the sequence is called that the next token begins: what people know
  // the text by. At most kMaxTraceSection bytes (CHECKed). Without it the
  // section has no name.
  void NameSection(std::string_view name);

  // Announces the next tokens. The first of all begins a sequence, none is
  // together with one before it if it begins one, or without a run (CHECKed).
  void AddTokens(std::span<const TraceToken> tokens);

  // The neurons that fired, ascending and < F (CHECKed). In each layer the
  // tokens come in the order in which they were announced; layers come in any.
  void AddSet(size_t layer_idx, std::span<const uint32_t> set);
  // Likewise, where the header has them (CHECKed): candidates, experts that the
  // token uses (< E), and whom a predictor named `lookahead` layers early, of
  // layers from that on.
  void AddCandidates(size_t layer_idx, std::span<const uint32_t> set);
  void AddExperts(size_t layer_idx, std::span<const uint32_t> set);
  void AddNamed(uint32_t lookahead, size_t layer_idx,
                std::span<const uint32_t> set);

  // Requires that all sets of all announced tokens are there (CHECKed). kIo.
  Status Flush();

  // kIo. At most once, after Flush.
  Status Finish();

  const TraceTotals& totals() const { return totals_; }

 private:
  struct Waiting {
    TraceToken token;
    std::string section;  // if it begins one
  };
  // Encoded sets of one kind and layer, those of waiting tokens.
  struct Row {
    std::vector<std::byte> bytes;
    std::vector<size_t> ends;  // of each set in `bytes`
  };

  TraceWriter(std::unique_ptr<os::AtomicFile> file, const TraceHeader& header);
  Status WriteHeader();
  Status WriteBlock();
  void AddTo(Row& row, std::span<const uint32_t> set, uint32_t num_members);

  std::unique_ptr<os::AtomicFile> file_;
  TraceHeader header_;
  std::string section_;  // of the next token
  std::vector<Waiting> waiting_;
  // In the order of the file.
  std::vector<Row> fired_;                                      // [L]
  std::vector<Row> candidates_;                                 // [L] or none
  std::vector<Row> experts_;                                    // [L] or none
  std::array<std::vector<Row>, kMaxTraceLookahead + 1> named_;  // of layer k on
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
  // As the file's end has them. Next compares, and gives no token beyond them:
  // what is sized by them holds all that comes.
  const TraceTotals& totals() const { return totals_; }

  // The next token and whom it fires [L]. false: there is none behind the last
  // one. kCorrupt: a checksum or the content is wrong; the token is named.
  Result<bool> Next(TraceToken& token, TraceSets& fired);

  // Of the token that Next gave last. [L]; empty without (header()). Named: the
  // first `lookahead` layers have nobody before them who could be asked, and
  // empty sets.
  const TraceSets& candidates() const { return candidates_; }
  const TraceSets& experts() const { return experts_; }
  const TraceSets& named(uint32_t lookahead) const { return named_[lookahead]; }
  // The section that it is of: the how manyth, from 0, and its name, for
  // people: any bytes; empty in files of version 1, which have none.
  uint64_t section_idx() const { return seen_.num_sequences - 1; }
  const std::string& section_name() const { return section_; }

 private:
  TraceReader() = default;
  Status ReadHeader();
  Status ReadFields(std::span<const std::byte> bytes);
  Result<size_t> RunBytes(std::span<const std::byte> bytes, uint32_t flags,
                          size_t at) const;
  void ReadRun(std::span<const std::byte> bytes);
  Status CheckFields(uint32_t flags) const;
  Status ReadTrailer();
  Status EnterBlock();
  Status ReadToken(TraceToken& token, TraceSets& fired);
  Status ReadFlags(TraceToken& token);
  Status ReadSection();
  Status ReadSets(size_t first_layer, uint32_t num_members, TraceSets& sets);
  tl::unexpected<Error> Corrupt(std::string_view what) const;
  tl::unexpected<Error> WrongToken(std::string_view what) const;

  os::MappedFile mapping_;  // empty if the bytes are somebody else's
  std::string name_;
  TraceHeader header_;
  bool has_sections_ = false;
  TraceTotals totals_;
  std::span<const std::byte> blocks_;   // those to come
  std::span<const std::byte> payload_;  // of this block, tokens to come
  uint32_t num_block_tokens_ = 0;       // to come
  TraceTotals seen_;
  std::string section_;
  TraceSets candidates_;
  TraceSets experts_;
  std::array<TraceSets, kMaxTraceLookahead + 1> named_;
};

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_TRACE_H_
