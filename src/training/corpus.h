// A text as training reads it: chunks of tokens, each from an empty context,
// spread evenly over the text, every eighth kept away from training.
#ifndef THERMOCLINE_TRAINING_CORPUS_H_
#define THERMOCLINE_TRAINING_CORPUS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/session.h"
#include "model/model.h"

namespace thermocline::training {

struct CorpusOptions {
  // Tokens, at most the model's context, which 0 stands for; absent: 256, or
  // that context if it is less.
  std::optional<int64_t> chunk;
  // The most that are read: of a longer text, chunks at even distances. Absent:
  // default_max_tokens, or kMinChunks chunks where those are more.
  std::optional<uint64_t> max_tokens;
  uint64_t default_max_tokens = uint64_t{1} << 17;
  uint64_t max_whole_bytes = uint64_t{32} << 20;
};

// At least that many chunks, so that several are held out.
inline constexpr size_t kMinChunks = 16;

class Corpus {
 public:
  // `name` is the text's, for messages. kInvalidArgument: less than kMinChunks
  // chunks, of the text or of a max_tokens that is given; both numbers are
  // told. A chunk that the model's context makes shorter than was asked for is
  // a notice. kUnsupported: the model has no vocabulary. Tokenizer::Encode's
  // errors. A text of more than max_whole_bytes, and of more than 16 bytes for
  // each token that is read at most, becomes tokens only where a chunk is
  // taken: memory and time are those of what is used.
  static Result<Corpus> Create(const model::Model& model, std::string_view text,
                               const std::string& name,
                               const CorpusOptions& options);

  size_t num_chunks() const { return tokens_.size() / chunk_; }
  size_t chunk_tokens() const { return chunk_; }
  size_t num_tokens() const { return tokens_.size(); }
  size_t num_held_out_tokens() const;
  // With BOS in the first place, where the vocabulary adds one.
  std::span<const text::TokenId> chunk(size_t chunk_idx) const {
    return std::span(tokens_).subspan(chunk_idx * chunk_, chunk_);
  }
  static bool IsHeldOut(size_t chunk_idx) {
    return chunk_idx % kHeldOutStep == kHeldOutStep - 1;
  }
  // How many chunks of its kind, held out or not, lie before it.
  static size_t RankOf(size_t chunk_idx) {
    const size_t num_held_out = chunk_idx / kHeldOutStep;
    return IsHeldOut(chunk_idx) ? num_held_out : chunk_idx - num_held_out;
  }

 private:
  static constexpr size_t kHeldOutStep = 8;  // the last of so many chunks is

  Corpus(size_t chunk, std::vector<text::TokenId> tokens)
      : chunk_(chunk), tokens_(std::move(tokens)) {}

  size_t chunk_;
  std::vector<text::TokenId> tokens_;  // whole chunks
};

// Tokens of a chunk, of a model of that context: as CorpusOptions::chunk asks.
size_t ChunkTokens(const std::optional<int64_t>& asked, int64_t context_length);

// One token in one layer, and the number of its chunk.
using CorpusFn =
    std::function<void(size_t chunk_idx, const engine::FfnObservation& seen)>;

// Decodes every chunk with a session of `options`, whose context, observer and
// progress are this function's own. The session's errors, with the chunk; an
// error of `after_chunk`, which may be empty, ends the run as it is.
Status RunCorpus(
    const std::shared_ptr<const model::Model>& model, const Corpus& corpus,
    engine::SessionOptions options, std::string_view what,
    const ProgressFn& progress, const CorpusFn& visit,
    const std::function<Status(size_t chunk_idx)>& after_chunk = {});

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_CORPUS_H_
