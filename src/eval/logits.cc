#include "eval/logits.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/units.h"

namespace thermocline::eval {

static_assert(std::endian::native == std::endian::little,
              "logits are written as they lie in memory");

namespace {

using Sequences = std::span<const std::vector<text::TokenId>>;

size_t NumTokens(Sequences sequences) {
  size_t num_tokens = 0;
  for (const auto& tokens : sequences) num_tokens += tokens.size();
  return num_tokens;
}

size_t RowsInBuffer(size_t vocab_size) {
  return std::max<size_t>(kLogitsBufferBytes / (vocab_size * sizeof(float)), 1);
}

// Several sequences, pass by pass.
class Together {
 public:
  Together(engine::Runtime& runtime, Sequences sequences)
      : runtime_(runtime),
        tokens_(sequences),
        vocab_size_(runtime.engine().model().config().vocab_size),
        max_rows_(static_cast<size_t>(runtime.plan().engine.max_rows)) {
    for (size_t i = 0; i < sequences.size(); ++i) {
      sequences_.push_back(runtime.NewSequence());
    }
  }

  // As many rows a pass as there may be, of one sequence after the other: they
  // come in the order in which they are written.
  Status Prompts(const BytesFn& write) {
    const size_t most = std::min(max_rows_, RowsInBuffer(vocab_size_));
    for (size_t i = 0; i < tokens_.size();) {
      std::vector<engine::BatchRun> runs;
      size_t room = most;
      while (i < tokens_.size() && room > 0) {
        const size_t done = Done(i) + TakenOf(runs, i);
        const size_t count = std::min(room, tokens_[i].size() - done);
        runs.push_back(RunOf(i, done, count, engine::Phase::kPrompt));
        room -= count;
        if (done + count == tokens_[i].size()) ++i;
      }
      TC_RETURN_IF_ERROR(Pass(runs));
      TC_RETURN_IF_ERROR(write(std::as_bytes(std::span(logits_))));
    }
    return {};
  }

  Status OneByOne(const BytesFn& write) {
    std::vector<std::vector<float>> rows(tokens_.size());
    for (size_t step = 0; AnyLonger(step); ++step) {
      for (size_t first = 0; first < tokens_.size(); first += max_rows_) {
        TC_RETURN_IF_ERROR(Step(step, first, rows));
      }
    }
    for (const std::vector<float>& row : rows) {
      TC_RETURN_IF_ERROR(write(std::as_bytes(std::span(row))));
    }
    return {};
  }

 private:
  size_t Done(size_t i) const {
    return static_cast<size_t>(sequences_[i].length());
  }
  // Of sequence i in the runs of a pass. A sequence is in one of them at most.
  size_t TakenOf(const std::vector<engine::BatchRun>& runs, size_t i) const {
    return !runs.empty() && runs.back().sequence == &sequences_[i]
               ? runs.back().tokens.size()
               : 0;
  }
  engine::BatchRun RunOf(size_t i, size_t first, size_t count,
                         engine::Phase phase) {
    return {.sequence = &sequences_[i],
            .tokens = std::span(tokens_[i]).subspan(first, count),
            .phase = phase,
            .logits = engine::LogitsOf::kAll};
  }
  bool AnyLonger(size_t length) const {
    return std::ranges::any_of(
        tokens_, [&](const auto& tokens) { return tokens.size() > length; });
  }

  // Token `step` of the sequences from `first` on that have it.
  Status Step(size_t step, size_t first,
              std::vector<std::vector<float>>& rows) {
    std::vector<engine::BatchRun> runs;
    std::vector<size_t> whose;
    const size_t end = std::min(first + max_rows_, tokens_.size());
    for (size_t i = first; i < end; ++i) {
      if (step >= tokens_[i].size()) continue;
      runs.push_back(RunOf(i, step, 1, engine::Phase::kGenerate));
      whose.push_back(i);
    }
    if (runs.empty()) return {};
    TC_RETURN_IF_ERROR(Pass(runs));
    for (size_t r = 0; r < runs.size(); ++r) {
      const auto row = std::span(logits_).subspan(r * vocab_size_, vocab_size_);
      rows[whose[r]].insert(rows[whose[r]].end(), row.begin(), row.end());
    }
    return {};
  }

  // Leaves the rows' logits in logits_.
  Status Pass(const std::vector<engine::BatchRun>& runs) {
    const engine::Batch batch = {runs};
    logits_.resize(batch.num_logit_rows() * vocab_size_);
    return runtime_.engine().Run(batch, logits_);
  }

  engine::Runtime& runtime_;
  Sequences tokens_;
  size_t vocab_size_;
  size_t max_rows_;
  std::vector<engine::KvSequence> sequences_;
  std::vector<float> logits_;
};

Status CheckTogether(const engine::Runtime& runtime, Sequences sequences) {
  if (sequences.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "logits of no sequences: give ids");
  }
  const int64_t context = runtime.plan().engine.context;
  uint64_t num_pages = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto length = static_cast<int64_t>(sequences[i].size());
    if (length == 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "sequence {} has no tokens: give ids", i + 1);
    }
    if (length > context) {
      return Fail(ErrorCode::kResourceExhausted,
                  "sequence {} has {}, more than the context of {}", i + 1,
                  Plural(length, "token"), context);
    }
    num_pages += engine::KvPagesFor(length);
  }
  const size_t num_free = runtime.kv().num_free();
  if (num_pages <= num_free) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "{} need {} of the KV cache, which has {}",
              Plural(sequences.size(), "sequence"), Plural(num_pages, "page"),
              num_free);
}

}  // namespace

Status WriteLogits(engine::Session& session,
                   std::span<const text::TokenId> tokens, bool one_by_one,
                   const BytesFn& write) {
  if (tokens.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "logits of no tokens: give ids");
  }
  const int64_t room = session.context() - session.position();
  if (static_cast<int64_t>(tokens.size()) > room) {
    return Fail(ErrorCode::kResourceExhausted,
                "no room for {} in the context, but for {}",
                Plural(tokens.size(), "token"), room);
  }
  const size_t vocab_size = session.model().config().vocab_size;
  const size_t step =
      one_by_one ? 1 : std::min(tokens.size(), RowsInBuffer(vocab_size));

  std::vector<float> logits(step * vocab_size);
  for (size_t begin = 0; begin < tokens.size(); begin += step) {
    const auto batch =
        tokens.subspan(begin, std::min(step, tokens.size() - begin));
    const std::span<float> rows =
        std::span(logits).first(batch.size() * vocab_size);
    TC_RETURN_IF_ERROR(session.Decode(
        batch, one_by_one ? engine::Phase::kGenerate : engine::Phase::kPrompt,
        engine::LogitsOf::kAll, rows));
    TC_RETURN_IF_ERROR(write(std::as_bytes(rows)));
  }
  return {};
}

Status WriteLogitsTogether(
    engine::Runtime& runtime,
    std::span<const std::vector<text::TokenId>> sequences, bool one_by_one,
    const BytesFn& write) {
  TC_RETURN_IF_ERROR(CheckTogether(runtime, sequences));
  Together together(runtime, sequences);
  return one_by_one ? together.OneByOne(write) : together.Prompts(write);
}

uint64_t TogetherBytes(std::span<const std::vector<text::TokenId>> sequences,
                       size_t vocab_size, bool one_by_one) {
  const size_t width = vocab_size;
  const size_t num_rows =
      one_by_one ? NumTokens(sequences)
                 : std::min(NumTokens(sequences), RowsInBuffer(width));
  return uint64_t{num_rows} * width * sizeof(float);
}

}  // namespace thermocline::eval
