#include "decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/remedy.h"

namespace thermocline::decode {
namespace {

using text::TokenId;

constexpr uint32_t kRandomSeed = 0xffffffffu;
constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Candidate {
  TokenId id;
  float logit;  // never NaN
};

// Best first; equal ones by id, so that the order is the same everywhere.
bool IsBetter(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// How often each token occurs among the last `window` ones.
class RecentTokens {
 public:
  // window -1: all tokens.
  RecentTokens(int window, size_t vocab_size)
      : window_(window),
        counts_(vocab_size, 0),
        ring_(window > 0 ? static_cast<size_t>(window) : 0) {}

  void Push(TokenId token) {
    if (window_ == 0) return;
    if (window_ > 0) {
      if (num_pushed_ >= ring_.size()) --counts_[IndexOf(ring_[next_])];
      ring_[next_] = token;
      next_ = (next_ + 1) % ring_.size();
      ++num_pushed_;
    }
    ++counts_[IndexOf(token)];
  }

  uint32_t CountOf(size_t token) const { return counts_[token]; }

 private:
  static size_t IndexOf(TokenId token) { return static_cast<size_t>(token); }

  int window_;
  std::vector<uint32_t> counts_;
  std::vector<TokenId> ring_;  // empty when unlimited
  size_t next_ = 0;
  size_t num_pushed_ = 0;
};

class SamplerImpl final : public Sampler {
 public:
  SamplerImpl(const SamplerOptions& options, size_t vocab_size, uint32_t seed)
      : options_(options),
        seed_(seed),
        generator_(seed),
        recent_(options.repeat_last_n, vocab_size),
        vocab_size_(vocab_size),
        candidates_(vocab_size),
        weights_(vocab_size) {}

  TokenId Sample(std::span<const float> logits) override {
    TC_CHECK(logits.size() == vocab_size_);
    Fill(logits);
    if (options_.temperature <= 0.0f) return Best().id;
    KeepTopK();
    KeepTopP();
    KeepMinP();
    return Draw();
  }

  void Accept(TokenId token) override {
    TC_CHECK(token >= 0 && static_cast<size_t>(token) < vocab_size_);
    recent_.Push(token);
  }

  uint32_t seed() const override { return seed_; }

 private:
  // All candidates, penalised, unsorted.
  void Fill(std::span<const float> logits) {
    num_kept_ = vocab_size_;
    num_sorted_ = 0;
    for (size_t i = 0; i < vocab_size_; ++i) {
      const float logit = std::isnan(logits[i]) ? kNever : logits[i];
      candidates_[i] = {static_cast<TokenId>(i),
                        Penalised(logit, recent_.CountOf(i))};
    }
  }

  float Penalised(float logit, uint32_t count) const {
    if (count == 0 || !std::isfinite(logit)) return logit;
    logit = logit > 0.0f ? logit / options_.repeat_penalty
                         : logit * options_.repeat_penalty;
    logit -= static_cast<float>(count) * options_.frequency_penalty +
             options_.presence_penalty;
    // Of penalties so large that both sides overflowed.
    return std::isnan(logit) ? kNever : logit;
  }

  Candidate Best() const {
    if (num_sorted_ > 0) return candidates_[0];
    return *std::min_element(
        candidates_.begin(),
        candidates_.begin() + static_cast<ptrdiff_t>(num_kept_), IsBetter);
  }

  // Makes the first `count` candidates the best ones, in order.
  void SortFirst(size_t count) {
    count = std::min(count, num_kept_);
    if (count <= num_sorted_) return;
    const auto begin =
        candidates_.begin() + static_cast<ptrdiff_t>(num_sorted_);
    const auto end = candidates_.begin() + static_cast<ptrdiff_t>(num_kept_);
    const auto middle = candidates_.begin() + static_cast<ptrdiff_t>(count);
    if (middle != end) std::nth_element(begin, middle, end, IsBetter);
    std::sort(begin, middle, IsBetter);
    num_sorted_ = count;
  }

  void KeepTopK() {
    if (options_.top_k <= 0) return;
    SortFirst(static_cast<size_t>(options_.top_k));
    num_kept_ = std::min(num_kept_, static_cast<size_t>(options_.top_k));
  }

  // The fewest best ones whose probabilities reach top_p, at least one.
  void KeepTopP() {
    if (options_.top_p >= 1.0f) return;
    const float best = Best().logit;
    double total = 0.0;
    for (size_t i = 0; i < num_kept_; ++i) {
      total += WeightOf(candidates_[i].logit, best);
    }
    const double wanted = static_cast<double>(options_.top_p) * total;
    double sum = 0.0;
    for (size_t i = 0; i < num_kept_; ++i) {
      // The answer is mostly short: sort no more than is looked at.
      if (i == num_sorted_) SortFirst(std::max<size_t>(64, 2 * num_sorted_));
      sum += WeightOf(candidates_[i].logit, best);
      if (sum >= wanted) {
        num_kept_ = i + 1;
        return;
      }
    }
  }

  // Those at least min_p times as likely as the best one, which stays.
  void KeepMinP() {
    if (options_.min_p <= 0.0f) return;
    const Candidate best = Best();
    const float least = best.logit + std::log(options_.min_p);
    size_t num_left = 0;
    for (size_t i = 0; i < num_kept_; ++i) {
      const Candidate candidate = candidates_[i];
      if (candidate.logit >= least || candidate.id == best.id) {
        candidates_[num_left++] = candidate;
      }
    }
    num_kept_ = num_left;
    num_sorted_ = std::min(num_sorted_, num_left);
  }

  // Of the kept ones, at the temperature: the first whose cumulative weight
  // passes a uniform number.
  TokenId Draw() {
    const Candidate best = Best();
    double total = 0.0;
    for (size_t i = 0; i < num_kept_; ++i) {
      const float difference = candidates_[i].logit == best.logit
                                   ? 0.0f
                                   : candidates_[i].logit - best.logit;
      weights_[i] = std::exp(static_cast<double>(difference) /
                             static_cast<double>(options_.temperature));
      total += weights_[i];
    }
    double left = Uniform() * total;
    for (size_t i = 0; i < num_kept_; ++i) {
      left -= weights_[i];
      if (left < 0.0) return candidates_[i].id;
    }
    return best.id;  // rounding used the last bit of `left`
  }

  // Relative to the best one; equal infinities weigh the same.
  static double WeightOf(float logit, float best) {
    return logit == best ? 1.0
                         : std::exp(static_cast<double>(logit) -
                                    static_cast<double>(best));
  }

  // In [0, 1), 53 bits. Not std::uniform_real_distribution, whose numbers
  // differ between standard libraries; the generator's do not.
  double Uniform() {
    const uint64_t high = generator_() >> 5;
    const uint64_t low = generator_() >> 6;
    return static_cast<double>((high << 26) | low) * 0x1.0p-53;
  }

  SamplerOptions options_;
  uint32_t seed_;
  std::mt19937 generator_;
  RecentTokens recent_;
  size_t vocab_size_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
  size_t num_kept_ = 0;    // candidates still in the running
  size_t num_sorted_ = 0;  // of them in order, from the first on
};

Status CheckFinite(Remedy remedy, std::string_view name, float value) {
  if (std::isfinite(value)) return {};
  return Fail(ErrorCode::kInvalidArgument, Advice{remedy},
              "{} {}: not a number to sample with", name, value);
}

Status CheckOptions(const SamplerOptions& options) {
  TC_RETURN_IF_ERROR(
      CheckFinite(Remedy::kTemperature, "temperature", options.temperature));
  TC_RETURN_IF_ERROR(CheckFinite(Remedy::kTopP, "top-p", options.top_p));
  TC_RETURN_IF_ERROR(CheckFinite(Remedy::kMinP, "min-p", options.min_p));
  TC_RETURN_IF_ERROR(CheckFinite(Remedy::kRepeatPenalty, "repeat penalty",
                                 options.repeat_penalty));
  TC_RETURN_IF_ERROR(CheckFinite(Remedy::kPresencePenalty, "presence penalty",
                                 options.presence_penalty));
  TC_RETURN_IF_ERROR(CheckFinite(Remedy::kFrequencyPenalty, "frequency penalty",
                                 options.frequency_penalty));
  if (options.repeat_penalty <= 0.0f) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kRepeatPenalty},
                "repeat penalty {}: must be above 0 (1 is off)",
                options.repeat_penalty);
  }
  if (options.repeat_last_n < -1 || options.repeat_last_n > kMaxRepeatLastN) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kRepeatLastN},
                "a repeat penalty over the last {} tokens: must be 0 (none), "
                "-1 (all), or a number "
                "of tokens up to {}",
                options.repeat_last_n, kMaxRepeatLastN);
  }
  return {};
}

Result<uint32_t> SeedOf(const SamplerOptions& options) {
  if (options.seed != kRandomSeed) return options.seed;
  try {
    return std::random_device()();
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kIo, Advice{Remedy::kSeed},
                "the system gives no random seed ({})", error.what());
  }
}

}  // namespace

Result<std::unique_ptr<Sampler>> Sampler::Create(const SamplerOptions& options,
                                                 size_t vocab_size) {
  TC_CHECK(vocab_size > 0);
  TC_RETURN_IF_ERROR(CheckOptions(options));
  TC_ASSIGN_OR_RETURN(const uint32_t seed, SeedOf(options));
  return std::make_unique<SamplerImpl>(options, vocab_size, seed);
}

}  // namespace thermocline::decode
