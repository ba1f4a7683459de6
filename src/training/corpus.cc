#include "training/corpus.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "base/check.h"

namespace thermocline::training {
namespace {

constexpr int64_t kDefaultChunk = 256;

std::optional<text::TokenId> BosThatIsAdded(const text::Tokenizer& tokenizer) {
  const text::Vocab& vocab = tokenizer.vocab();
  return vocab.add_bos ? vocab.bos : std::nullopt;
}

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

}  // namespace

Result<Corpus> Corpus::Create(const model::Model& model,
                              const std::string& text, const std::string& name,
                              const CorpusOptions& options) {
  if (model.tokenizer() == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: has no vocabulary, so a text cannot become tokens",
                model.file().path());
  }
  const int64_t wanted = options.chunk > 0 ? options.chunk : kDefaultChunk;
  const auto chunk =
      static_cast<size_t>(std::min(wanted, model.config().context_length));
  TC_ASSIGN_OR_RETURN(const auto tokens,
                      model.tokenizer()->Encode(
                          text, {.add_special = false, .parse_special = true}));
  const size_t num_chunks = tokens.size() / chunk;
  if (num_chunks < kMinChunks) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: {} tokens are too few to learn from; at least {} are "
                "needed ({} chunks of {})",
                name, tokens.size(), kMinChunks * chunk, kMinChunks, chunk);
  }
  const size_t num_picked = std::clamp(
      static_cast<size_t>(options.max_tokens / chunk), kMinChunks, num_chunks);
  return Corpus(chunk, PickChunks(tokens, chunk, num_picked,
                                  BosThatIsAdded(*model.tokenizer())));
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
        session->Decode(corpus.chunk(chunk_idx), engine::LogitsOf::kNone, {});
    if (!status.has_value()) {
      return Annotate(fmt::format("chunk {}", chunk_idx + 1), status.error());
    }
    if (after_chunk) TC_RETURN_IF_ERROR(after_chunk(chunk_idx));
  }
  ReportProgress(progress, what, corpus.num_chunks(), corpus.num_chunks());
  return {};
}

}  // namespace thermocline::training
