#include "eval/divergence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/quote.h"
#include "base/units.h"
#include "eval/log_softmax.h"
#include "neuron/json_values.h"

namespace thermocline::eval {
namespace {

using OrderedJson = nlohmann::ordered_json;
using text::TokenId;

Spread SpreadOf(std::vector<double> values) {
  std::ranges::sort(values);
  return {.min = values.front(),
          .median = Quantile(values, 0.5),
          .p90 = Quantile(values, 0.9),
          .p95 = Quantile(values, 0.95),
          .p99 = Quantile(values, 0.99),
          .p999 = Quantile(values, 0.999),
          .max = values.back()};
}

// KL(P || Q). Rounding can leave a sum slightly below 0, which no divergence
// is.
double KlOf(std::span<const float> base, double base_log_sum,
            std::span<const float> logits, double log_sum) {
  double kl = 0.0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double base_log_p = static_cast<double>(base[i]) - base_log_sum;
    const double log_p = static_cast<double>(logits[i]) - log_sum;
    kl += std::exp(base_log_p) * (base_log_p - log_p);
  }
  return std::max(kl, 0.0);
}

class Totals {
 public:
  Status Add(std::span<const float> logits, std::span<const float> base,
             TokenId target) {
    TC_ASSIGN_OR_RETURN(const double log_sum, LogSumExp(logits));
    auto base_log_sum = LogSumExp(base);
    if (!base_log_sum.has_value()) {
      return Annotate("base", base_log_sum.error());
    }
    const auto token = static_cast<size_t>(target);
    const double log_p = static_cast<double>(logits[token]) - log_sum;
    const double base_log_p = static_cast<double>(base[token]) - *base_log_sum;
    nll_.Add(-log_p);
    base_nll_.Add(-base_log_p);
    log_ratio_.Add(base_log_p - log_p);
    kls_.push_back(KlOf(base, *base_log_sum, logits, log_sum));
    kl_.Add(kls_.back());
    delta_p_.Add(std::exp(log_p) - std::exp(base_log_p));
    if (std::ranges::max_element(logits) - logits.begin() ==
        std::ranges::max_element(base) - base.begin()) {
      ++num_same_top_;
    }
    return {};
  }

  Divergence Summarise(int64_t chunk, int64_t num_chunks) && {
    return {.chunk = chunk,
            .num_chunks = num_chunks,
            .num_predictions = nll_.count(),
            .perplexity = ExpOf(nll_),
            .base_perplexity = ExpOf(base_nll_),
            .log_ratio = MeanOf(log_ratio_),
            .ratio = ExpOf(log_ratio_),
            .kl = MeanOf(kl_),
            .kl_spread = SpreadOf(std::move(kls_)),
            .delta_p = MeanOf(delta_p_),
            .delta_p_rms = std::sqrt(delta_p_.mean_square()),
            .same_top = MakeShare(num_same_top_, nll_.count())};
  }

 private:
  Moments nll_, base_nll_, log_ratio_, kl_, delta_p_;
  std::vector<double> kls_;
  int64_t num_same_top_ = 0;
};

Status CheckSameTokens(const model::Model& model, const model::Model& base) {
  const auto& tokens = model.tokenizer()->vocab().tokens;
  const auto& base_tokens = base.tokenizer()->vocab().tokens;
  const auto [token, base_token] = std::ranges::mismatch(tokens, base_tokens);
  if (token == tokens.end() && base_token == base_tokens.end()) return {};
  const auto text = [](const auto& list, const auto& place) {
    return place == list.end() ? "nothing" : Quote(*place);
  };
  return Fail(ErrorCode::kInvalidArgument,
              "{} and {} have different vocabularies: token {} is {} in the "
              "one and {} in the other",
              model.file().path(), base.file().path(), token - tokens.begin(),
              text(tokens, token), text(base_tokens, base_token));
}

// The base's chunks begin with the model's BOS.
Status CheckSameBos(const model::Model& model, const model::Model& base) {
  const auto bos = BosThatIsAdded(model);
  const auto base_bos = BosThatIsAdded(base);
  if (bos == base_bos) return {};
  const auto text = [](const std::optional<TokenId>& id) {
    return id.has_value() ? fmt::format("BOS {}", *id) : "no BOS";
  };
  return Fail(ErrorCode::kInvalidArgument,
              "{} and {} cannot be compared on one text: the one begins it "
              "with {}, the other with {}",
              model.file().path(), base.file().path(), text(bos),
              text(base_bos));
}

}  // namespace

Status CheckSameVocabulary(const model::Model& model,
                           const model::Model& base) {
  const size_t size = model.config().vocab_size;
  const size_t base_size = base.config().vocab_size;
  if (size != base_size) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} and {} have different vocabularies: {} and {} tokens",
                model.file().path(), base.file().path(), size, base_size);
  }
  const bool has_texts = model.tokenizer() != nullptr;
  if (has_texts != (base.tokenizer() != nullptr)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} has no vocabulary, so that its token ids cannot be "
                "compared with those of {}",
                (has_texts ? base : model).file().path(),
                (has_texts ? model : base).file().path());
  }
  if (!has_texts) return {};
  TC_RETURN_IF_ERROR(CheckSameTokens(model, base));
  return CheckSameBos(model, base);
}

Result<Divergence> MeasureDivergence(engine::Session& model,
                                     engine::Session& base,
                                     std::span<const TokenId> tokens,
                                     const Chunks& chunks,
                                     const ProgressFn& progress) {
  TC_CHECK(&model != &base);
  TC_RETURN_IF_ERROR(CheckSameVocabulary(model.model(), base.model()));
  Totals totals;
  const std::array<engine::Session*, 2> sessions = {&model, &base};
  TC_RETURN_IF_ERROR(ForEachPrediction(
      sessions, tokens, chunks, progress, [&](auto logits, TokenId target) {
        return totals.Add(logits[0], logits[1], target);
      }));
  return std::move(totals).Summarise(chunks.size, chunks.CountIn(tokens));
}

std::string FormatDivergence(const Divergence& d) {
  const Spread& kl = d.kl_spread;
  std::string out = fmt::format(
      "perplexity:      {:.4f} +/- {}\n"
      "base perplexity: {:.4f} +/- {}\n"
      "ratio:           {:.6f} +/- {}\n"
      "ln ratio:        {:.6f} +/- {}\n",
      d.perplexity.value, FormatError(d.perplexity.error, "{:.4f}"),
      d.base_perplexity.value, FormatError(d.base_perplexity.error, "{:.4f}"),
      d.ratio.value, FormatError(d.ratio.error, "{:.6f}"), d.log_ratio.value,
      FormatError(d.log_ratio.error, "{:.6f}"));
  out += fmt::format(
      "mean KLD:        {:.6g} +/- {}\n"
      "KLD quantiles:   median {:.6g}, 90 % {:.6g}, 95 % {:.6g}, 99 % {:.6g}, "
      "99.9 % {:.6g}, max {:.6g}\n",
      d.kl.value, FormatError(d.kl.error, "{:.6g}"), kl.median, kl.p90, kl.p95,
      kl.p99, kl.p999, kl.max);
  std::optional<double> delta_p_percent = d.delta_p.error;
  if (delta_p_percent.has_value()) *delta_p_percent *= 100;
  out += fmt::format(
      "mean delta p:    {:.4f} +/- {} %, RMS {:.4f} %\n"
      "same top token:  {:.3f} +/- {:.3f} %\n"
      "predictions:     {} ({} of {})",
      100 * d.delta_p.value, FormatError(delta_p_percent, "{:.4f}"),
      100 * d.delta_p_rms, 100 * d.same_top.value, 100 * d.same_top.error,
      d.num_predictions, Plural(d.num_chunks, "chunk"), d.chunk);
  return out;
}

std::string FormatDivergenceJson(const Divergence& d) {
  const Spread& kl = d.kl_spread;
  const OrderedJson json = {
      {"chunk", d.chunk},
      {"chunks", d.num_chunks},
      {"predictions", d.num_predictions},
      {"perplexity", d.perplexity.value},
      {"perplexity_error", OrNull(d.perplexity.error)},
      {"base_perplexity", d.base_perplexity.value},
      {"base_perplexity_error", OrNull(d.base_perplexity.error)},
      {"ratio", d.ratio.value},
      {"ratio_error", OrNull(d.ratio.error)},
      {"log_ratio", d.log_ratio.value},
      {"log_ratio_error", OrNull(d.log_ratio.error)},
      {"kl", d.kl.value},
      {"kl_error", OrNull(d.kl.error)},
      {"kl_min", kl.min},
      {"kl_median", kl.median},
      {"kl_p90", kl.p90},
      {"kl_p95", kl.p95},
      {"kl_p99", kl.p99},
      {"kl_p999", kl.p999},
      {"kl_max", kl.max},
      {"delta_p", d.delta_p.value},
      {"delta_p_error", OrNull(d.delta_p.error)},
      {"delta_p_rms", d.delta_p_rms},
      {"same_top", d.same_top.value},
      {"same_top_error", d.same_top.error},
      {"same_top_count", d.same_top.count}};
  return json.dump();
}

}  // namespace thermocline::eval
