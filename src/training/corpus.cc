#include "training/corpus.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/remedy.h"
#include "base/units.h"

namespace thermocline::training {
namespace {

constexpr int64_t kDefaultChunk = 256;
// Of texts that are long for what is taken of them: several times what any
// language needs.
constexpr size_t kBytesPerToken = 16;

// `num_picked` of the text's chunks at even distances.
std::vector<text::TokenId> PickChunks(std::span<const text::TokenId> tokens,
                                      size_t chunk, size_t num_picked,
                                      std::optional<text::TokenId> bos) {
  const size_t num_chunks = tokens.size() / chunk;
  std::vector<text::TokenId> out;
  out.reserve(num_picked * chunk);
  for (size_t i = 0; i < num_picked; ++i) {
    const auto from =
        tokens.subspan(i * num_chunks / num_picked * chunk, chunk);
    out.insert(out.end(), from.begin(), from.end());
    if (bos.has_value()) out[i * chunk] = *bos;
  }
  return out;
}

// Behind the first end of a line, or else of a word, in the first half of
// `text`, so that what follows begins as texts do; 0 if there is none.
size_t FirstStart(std::string_view text) {
  for (const char separator : {'\n', ' '}) {
    const size_t at = text.substr(0, text.size() / 2).find(separator);
    if (at != std::string_view::npos) return at + 1;
  }
  return 0;
}

Result<std::vector<text::TokenId>> Encode(const text::Tokenizer& tokenizer,
                                          std::string_view text) {
  return tokenizer.Encode(text, {.add_special = false, .parse_special = true});
}

// The first `chunk` tokens of a stretch of a long text; fewer if it has fewer.
// Where the stretch is cut, its last token may be another than in the text.
Result<std::vector<text::TokenId>> FirstTokens(const text::Tokenizer& tokenizer,
                                               std::string_view stretch,
                                               size_t chunk) {
  std::vector<text::TokenId> tokens;
  for (size_t num_bytes = kBytesPerToken * chunk;; num_bytes *= 2) {
    TC_ASSIGN_OR_RETURN(tokens,
                        Encode(tokenizer, stretch.substr(0, num_bytes)));
    if (tokens.size() > chunk || num_bytes >= stretch.size()) break;
  }
  tokens.resize(std::min(tokens.size(), chunk));
  return tokens;
}

// Chunks from the beginnings of stretches of equal length. A stretch without
// enough tokens gives none.
Result<std::vector<text::TokenId>> PickStretches(
    const text::Tokenizer& tokenizer, std::string_view text, size_t chunk,
    size_t num_picked) {
  const std::optional<text::TokenId> bos = tokenizer.vocab().added_bos();
  const size_t stretch_bytes = text.size() / num_picked;
  std::vector<text::TokenId> out;
  out.reserve(num_picked * chunk);
  for (size_t i = 0; i < num_picked; ++i) {
    std::string_view stretch = text.substr(i * stretch_bytes, stretch_bytes);
    if (i > 0) stretch.remove_prefix(FirstStart(stretch));
    TC_ASSIGN_OR_RETURN(auto tokens, FirstTokens(tokenizer, stretch, chunk));
    if (tokens.size() < chunk) continue;
    if (bos.has_value()) tokens.front() = *bos;
    out.insert(out.end(), tokens.begin(), tokens.end());
  }
  return out;
}

Status CheckLength(const std::string& name, size_t num_tokens, size_t chunk,
                   Advice advice = {}) {
  if (num_tokens >= kMinChunks * chunk) return {};
  return Fail(ErrorCode::kInvalidArgument, advice,
              "{}: {}, too few to learn from; at least {} are "
              "needed ({} chunks of {})",
              name, Plural(num_tokens, "token"), kMinChunks * chunk, kMinChunks,
              chunk);
}

// Tokens of a chunk.
size_t ChunkLength(const std::optional<int64_t>& asked,
                   int64_t context_length) {
  if (asked.has_value() && *asked > context_length) {
    LogInfo("chunks of {} instead of {}: the model's context",
            Plural(context_length, "token"), *asked);
  }
  return ChunkTokens(asked, context_length);
}

// Chunks that are read at most.
Result<size_t> MostChunks(const CorpusOptions& options, size_t chunk) {
  if (!options.max_tokens.has_value()) {
    return std::max(kMinChunks, options.default_max_tokens / chunk);
  }
  TC_RETURN_IF_ERROR(CheckLength("the most tokens to read", *options.max_tokens,
                                 chunk, Advice{Remedy::kMaxTokens}));
  return *options.max_tokens / chunk;
}

}  // namespace

size_t ChunkTokens(const std::optional<int64_t>& asked,
                   int64_t context_length) {
  if (asked == 0) return static_cast<size_t>(context_length);
  return static_cast<size_t>(
      std::min(asked.value_or(kDefaultChunk), context_length));
}

Result<Corpus> Corpus::Create(const model::Model& model, std::string_view text,
                              const std::string& name,
                              const CorpusOptions& options) {
  if (model.tokenizer() == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: has no vocabulary, so a text cannot become tokens",
                model.file().path());
  }
  const text::Tokenizer& tokenizer = *model.tokenizer();
  const size_t chunk =
      ChunkLength(options.chunk, model.config().context_length);
  TC_ASSIGN_OR_RETURN(const size_t most_chunks, MostChunks(options, chunk));
  const bool is_long = text.size() > options.max_whole_bytes &&
                       text.size() / kBytesPerToken > most_chunks * chunk;
  if (is_long) {
    TC_ASSIGN_OR_RETURN(auto tokens,
                        PickStretches(tokenizer, text, chunk, most_chunks));
    TC_RETURN_IF_ERROR(CheckLength(name, tokens.size(), chunk));
    return Corpus(chunk, std::move(tokens));
  }
  TC_ASSIGN_OR_RETURN(const auto tokens, Encode(tokenizer, text));
  TC_RETURN_IF_ERROR(CheckLength(name, tokens.size(), chunk));
  const size_t num_picked = std::min(most_chunks, tokens.size() / chunk);
  return Corpus(chunk, PickChunks(tokens, chunk, num_picked,
                                  tokenizer.vocab().added_bos()));
}

size_t Corpus::num_held_out_tokens() const {
  size_t num_held_out = 0;
  for (size_t i = 0; i < num_chunks(); ++i)
    num_held_out += IsHeldOut(i) ? 1 : 0;
  return num_held_out * chunk_;
}

Status RunCorpus(const std::shared_ptr<const model::Model>& model,
                 const Corpus& corpus, engine::SessionOptions options,
                 std::string_view what, const ProgressFn& progress,
                 const CorpusFn& visit,
                 const std::function<Status(size_t chunk_idx)>& after_chunk) {
  size_t chunk_idx = 0;
  options.context = static_cast<int64_t>(corpus.chunk_tokens());
  options.progress = {};
  options.observer = [&](const engine::FfnObservation& seen) {
    visit(chunk_idx, seen);
  };
  TC_ASSIGN_OR_RETURN(const auto session,
                      engine::Session::Create(model, options));
  for (; chunk_idx < corpus.num_chunks(); ++chunk_idx) {
    ReportProgress(progress, what, chunk_idx, corpus.num_chunks());
    session->Truncate(0);
    const Status status =
        session->Prompt(corpus.chunk(chunk_idx), engine::LogitsOf::kNone, {});
    if (!status.has_value()) {
      return Annotate(fmt::format("chunk {}", chunk_idx + 1), status.error());
    }
    if (after_chunk) TC_RETURN_IF_ERROR(after_chunk(chunk_idx));
  }
  ReportProgress(progress, what, corpus.num_chunks(), corpus.num_chunks());
  return {};
}

}  // namespace thermocline::training
