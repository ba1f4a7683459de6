#include "eval/predictions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/remedy.h"
#include "base/units.h"

namespace thermocline::eval {
namespace {

using text::TokenId;

// Positions whose logits are held at once: bounds memory for large
// vocabularies, and is enough rows for the head's matrix product.
constexpr int64_t kMaxLogitRows = 128;

Status CheckTokens(std::span<engine::Session* const> sessions,
                   std::span<const TokenId> tokens, int64_t chunk) {
  const size_t vocab_size = sessions.front()->model().config().vocab_size;
  for (const engine::Session* session : sessions) {
    TC_CHECK(session->model().config().vocab_size == vocab_size);
    if (chunk > session->context()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "chunks of {} tokens do not fit the session's context of {}",
                  chunk, session->context());
    }
  }
  TC_RETURN_IF_ERROR(CheckChunks(static_cast<int64_t>(tokens.size()), chunk));
  const auto bad = std::ranges::find_if(tokens, [&](TokenId id) {
    return id < 0 || std::cmp_greater_equal(id, vocab_size);
  });
  if (bad == tokens.end()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "token id {} is outside the vocabulary of {}", *bad, vocab_size);
}

// Of one session.
size_t NumLogits(size_t vocab_size, int64_t chunk) {
  return static_cast<size_t>(std::min(kMaxLogitRows, chunk)) * vocab_size;
}

// Runs chunks through all sessions, with the memory for their logits.
class ChunkRunner {
 public:
  ChunkRunner(std::span<engine::Session* const> sessions, int64_t chunk)
      : sessions_(sessions),
        vocab_size_(sessions.front()->model().config().vocab_size),
        logits_(sessions.size()),
        rows_(sessions.size()) {
    for (std::vector<float>& logits : logits_) {
      logits.resize(
          NumLogits(sessions.front()->model().config().vocab_size, chunk));
    }
  }

  // `targets` are `chunk` before BOS took the first place.
  Status Run(std::span<const TokenId> chunk, std::span<const TokenId> targets,
             const PredictionFn& visit) {
    const size_t first = chunk.size() / 2;
    for (engine::Session* session : sessions_) {
      session->Truncate(0);
      TC_RETURN_IF_ERROR(
          Decode(*session, chunk.first(first), engine::LogitsOf::kNone, {}));
    }
    // The last token has no successor in the chunk: nothing to predict.
    for (size_t begin = first; begin + 1 < chunk.size();) {
      const size_t num_rows =
          std::min<size_t>(kMaxLogitRows, chunk.size() - 1 - begin);
      TC_RETURN_IF_ERROR(DecodeRows(chunk.subspan(begin, num_rows)));
      TC_RETURN_IF_ERROR(
          VisitRows(targets.subspan(begin + 1, num_rows), visit));
      begin += num_rows;
    }
    return {};
  }

 private:
  // Of several sessions an error says whose it is.
  Status Decode(engine::Session& session, std::span<const TokenId> tokens,
                engine::LogitsOf which, std::span<float> logits) {
    Status status = session.Prompt(tokens, which, logits);
    if (status.has_value() || sessions_.size() == 1) return status;
    return Annotate(fmt::format("{} ({})", session.model().file().path(),
                                engine::NameOf(session.ffn())),
                    status.error());
  }

  Status DecodeRows(std::span<const TokenId> tokens) {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      TC_RETURN_IF_ERROR(
          Decode(*sessions_[i], tokens, engine::LogitsOf::kAll,
                 std::span(logits_[i]).first(tokens.size() * vocab_size_)));
    }
    return {};
  }

  Status VisitRows(std::span<const TokenId> targets,
                   const PredictionFn& visit) {
    for (size_t row = 0; row < targets.size(); ++row) {
      for (size_t i = 0; i < rows_.size(); ++i) {
        rows_[i] =
            std::span(logits_[i]).subspan(row * vocab_size_, vocab_size_);
      }
      TC_RETURN_IF_ERROR(visit(rows_, targets[row]));
    }
    return {};
  }

  std::span<engine::Session* const> sessions_;
  size_t vocab_size_;
  std::vector<std::vector<float>> logits_;    // [session][rows * V]
  std::vector<std::span<const float>> rows_;  // [session][V]
};

}  // namespace

int64_t Chunks::CountIn(std::span<const TokenId> tokens) const {
  return std::min(static_cast<int64_t>(tokens.size()) / size, max_count);
}

Status CheckChunks(int64_t num_tokens, int64_t chunk) {
  if (chunk < kMinChunk) {
    return Fail(ErrorCode::kInvalidArgument,
                "chunks of {} are too short, at least {}",
                Plural(chunk, "token"), kMinChunk);
  }
  if (num_tokens / 2 < chunk) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kSmallerContext},
                "the text has {}, but at least two chunks of {} are needed; a "
                "longer text or shorter chunks would do",
                Plural(num_tokens, "token"), chunk);
  }
  return {};
}

uint64_t PredictionBytes(size_t vocab_size, int64_t chunk) {
  return NumLogits(vocab_size, chunk) * sizeof(float);
}

std::optional<TokenId> BosThatIsAdded(const model::Model& model) {
  if (model.tokenizer() == nullptr) return std::nullopt;
  return model.tokenizer()->vocab().added_bos();
}

Status ForEachPrediction(std::span<engine::Session* const> sessions,
                         std::span<const TokenId> tokens, const Chunks& chunks,
                         const ProgressFn& progress,
                         const PredictionFn& visit) {
  TC_CHECK(!sessions.empty() && chunks.max_count >= 1);
  TC_RETURN_IF_ERROR(CheckTokens(sessions, tokens, chunks.size));
  const std::optional<TokenId> bos = BosThatIsAdded(sessions.front()->model());
  const auto num_chunks = static_cast<uint64_t>(chunks.CountIn(tokens));
  ChunkRunner runner(sessions, chunks.size);
  std::vector<TokenId> with_bos(static_cast<size_t>(chunks.size));
  for (uint64_t idx = 0; idx < num_chunks; ++idx) {
    ReportProgress(progress, "chunks", idx, num_chunks);
    const auto source = tokens.subspan(idx * with_bos.size(), with_bos.size());
    std::ranges::copy(source, with_bos.begin());
    if (bos.has_value()) with_bos.front() = *bos;
    const Status status = runner.Run(with_bos, source, visit);
    if (!status.has_value()) {
      return Annotate(fmt::format("chunk {}", idx + 1), status.error());
    }
  }
  ReportProgress(progress, "chunks", num_chunks, num_chunks);
  for (engine::Session* session : sessions) session->Truncate(0);
  return {};
}

}  // namespace thermocline::eval
