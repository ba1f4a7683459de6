#include "eval/mc_score.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "eval/log_softmax.h"

namespace thermocline::eval {
namespace {

// Positions whose logits are held at once.
constexpr size_t kMaxScoredRows = 64;

class Scorer {
 public:
  explicit Scorer(engine::Session& session)
      : session_(session),
        vocab_size_(session.model().config().vocab_size),
        first_row_(vocab_size_) {
    session_.Truncate(0);
  }

  Result<McScores> Score(const McTokens& item) {
    McScores scores;
    for (size_t i = 0; i < item.continuations.size(); ++i) {
      TC_RETURN_IF_ERROR(MoveBehind(item.context(i)));
      TC_ASSIGN_OR_RETURN(const double score,
                          ScoreContinuation(item.continuations[i]));
      scores.push_back(score);
    }
    return scores;
  }

 private:
  // Leaves the session right behind `context`, and what it predicts there in
  // first_row_.
  Status MoveBehind(const Tokens& context) {
    if (context != context_) {
      const auto shared = std::ranges::mismatch(context, context_).in1;
      // The last token is decoded anew for its logits, if for nothing else.
      const size_t num_kept = std::min(
          static_cast<size_t>(shared - context.begin()), context.size() - 1);
      session_.Truncate(static_cast<int64_t>(num_kept));
      context_.resize(num_kept);
      TC_RETURN_IF_ERROR(session_.Prompt(std::span(context).subspan(num_kept),
                                         engine::LogitsOf::kLast, first_row_));
      context_ = context;
    }
    session_.Truncate(static_cast<int64_t>(context_.size()));
    return {};
  }

  Result<double> ScoreContinuation(const Tokens& tokens) {
    TC_ASSIGN_OR_RETURN(
        double sum,
        LogProbability(first_row_, static_cast<size_t>(tokens.front())));
    // Each token predicts the next one; the last has none.
    for (size_t begin = 0; begin + 1 < tokens.size();) {
      const size_t num_rows =
          std::min(kMaxScoredRows, tokens.size() - 1 - begin);
      rows_.resize(std::max(rows_.size(), num_rows * vocab_size_));
      TC_RETURN_IF_ERROR(session_.Prompt(
          std::span(tokens).subspan(begin, num_rows), engine::LogitsOf::kAll,
          std::span(rows_).first(num_rows * vocab_size_)));
      for (size_t row = 0; row < num_rows; ++row) {
        TC_ASSIGN_OR_RETURN(
            const double log_probability,
            LogProbability(
                std::span(rows_).subspan(row * vocab_size_, vocab_size_),
                static_cast<size_t>(tokens[begin + row + 1])));
        sum += log_probability;
      }
      begin += num_rows;
    }
    return sum;
  }

  engine::Session& session_;
  size_t vocab_size_;
  Tokens context_;                // what the session holds at least
  std::vector<float> first_row_;  // [V], behind context_
  std::vector<float> rows_;       // [rows, V]
};

}  // namespace

uint64_t ScoringBytes(size_t vocab_size) {
  return (kMaxScoredRows + 1) * vocab_size * sizeof(float);
}

Result<std::vector<McScores>> ScoreMcItems(engine::Session& session,
                                           std::span<const McTokens> items,
                                           std::string_view what,
                                           const ProgressFn& progress) {
  for (const McTokens& item : items) {
    TC_CHECK(item.num_positions() <= session.context());
  }
  Scorer scorer(session);
  std::vector<McScores> scores;
  for (size_t i = 0; i < items.size(); ++i) {
    ReportProgress(progress, what, i, items.size());
    auto item_scores = scorer.Score(items[i]);
    if (!item_scores.has_value()) {
      return Annotate(fmt::format("item {}", i + 1), item_scores.error());
    }
    scores.push_back(*std::move(item_scores));
  }
  ReportProgress(progress, what, items.size(), items.size());
  session.Truncate(0);
  return scores;
}

}  // namespace thermocline::eval
