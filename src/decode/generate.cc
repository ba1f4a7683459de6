#include "decode/generate.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/remedy.h"
#include "base/units.h"
#include "decode/stop_matcher.h"

namespace thermocline::decode {
namespace {

using text::TokenId;

// Tokens in, whole characters out to the receiver, stop strings cut off.
class TextOutput {
 public:
  TextOutput(const text::Tokenizer& tokenizer, const GenerateOptions& options,
             const TextFn& on_text)
      : tokenizer_(tokenizer),
        shown_tokens_(options.shown_tokens),
        stops_(options.stop_strings),
        on_text_(on_text) {}

  // Returns why to stop, if so.
  std::optional<StopReason> Push(TokenId token) {
    // A model may have more rows in its head than its vocabulary has tokens.
    if (token >= tokenizer_.num_tokens()) {
      token_ends_.push_back(num_bytes_);
      return std::nullopt;
    }
    std::string_view piece = tokenizer_.Piece(token, /*show_special=*/false);
    bool is_hidden = piece.empty();
    if (is_hidden) {
      piece = tokenizer_.Piece(token, /*show_special=*/true);
      is_hidden = !std::ranges::binary_search(shown_tokens_, token);
    }
    const bool wants_more = Send(decoder_.Push(stops_.Push(piece, is_hidden)));
    num_bytes_ += piece.size();
    token_ends_.push_back(num_bytes_);
    if (stops_.matched()) return StopReason::kStopString;
    if (!wants_more) return StopReason::kReceiver;
    return std::nullopt;
  }

  // How many tokens lie before a stop string; all if there was none.
  size_t NumWhole() const {
    if (!stops_.matched()) return token_ends_.size();
    const auto end =
        std::ranges::upper_bound(token_ends_, stops_.match_begin());
    return static_cast<size_t>(end - token_ends_.begin());
  }

  // Sends what was held back in case more came.
  void Finish() {
    std::string rest = decoder_.Push(stops_.Flush());
    rest += decoder_.Flush();
    Send(rest);
  }

 private:
  bool Send(std::string_view text) { return text.empty() || on_text_(text); }

  const text::Tokenizer& tokenizer_;
  std::span<const TokenId> shown_tokens_;
  StopMatcher stops_;
  text::StreamDecoder decoder_;
  const TextFn& on_text_;
  uint64_t num_bytes_ = 0;            // pushed, hidden ones too
  std::vector<uint64_t> token_ends_;  // by token, in these bytes
};

class Generation {
 public:
  Generation(engine::Session& session, const GenerateOptions& options,
             std::unique_ptr<Sampler> sampler, const TextFn& on_text)
      : session_(session),
        tokenizer_(*session.model().tokenizer()),
        options_(options),
        sampler_(std::move(sampler)),
        output_(tokenizer_, options, on_text),
        logits_(session.model().config().vocab_size) {
    report_.seed = sampler_->seed();
    for (TokenId id = 0; id < tokenizer_.num_tokens(); ++id) {
      if (options.ignore_eos && IsEnd(id)) {
        never_chosen_.push_back(static_cast<size_t>(id));
      }
    }
  }

  Result<GenerateReport> Run(std::span<const TokenId> prompt) {
    Stopwatch prompt_watch;
    Status status = session_.Prompt(prompt, engine::LogitsOf::kLast, logits_);
    report_.prompt_seconds = prompt_watch.Seconds();
    if (status.has_value()) {
      report_.num_prompt_tokens = static_cast<int64_t>(prompt.size());
      for (const TokenId token : options_.past) sampler_->Accept(token);
      for (const TokenId token : prompt) sampler_->Accept(token);
      Stopwatch generate_watch;
      status = Loop();
      report_.generate_seconds = generate_watch.Seconds();
    }
    if (!status.has_value()) {
      if (status.error().code != ErrorCode::kCancelled) {
        return tl::unexpected(std::move(status).error());
      }
      report_.reason = StopReason::kCancelled;
    }
    if (report_.reason != StopReason::kReceiver) output_.Finish();
    report_.num_text_tokens = output_.NumWhole();
    return report_;
  }

 private:
  // Sets the reason unless it fails.
  Status Loop() {
    while (true) {
      if (options_.cancel != nullptr && options_.cancel->load()) {
        return Stop(StopReason::kCancelled);
      }
      if (HasAllTokens()) {
        return Stop(StopReason::kMaxTokens);
      }
      const TokenId token = Next();
      if (IsEnd(token)) {
        return Stop(StopReason::kEndOfGeneration);
      }
      if (const std::optional<StopReason> reason = output_.Push(token)) {
        return Stop(*reason);
      }
      // Not decoded when nothing would be chosen from its logits.
      if (HasAllTokens()) continue;
      if (session_.position() == session_.context()) {
        return Stop(StopReason::kContextFull);
      }
      TC_RETURN_IF_ERROR(session_.Generate(std::span(&token, 1),
                                           engine::LogitsOf::kLast, logits_));
      ++report_.num_decodes;
    }
  }

  Status Stop(StopReason reason) {
    report_.reason = reason;
    return {};
  }

  TokenId Next() {
    for (const size_t id : never_chosen_) {
      if (id < logits_.size()) {
        logits_[id] = -std::numeric_limits<float>::infinity();
      }
    }
    const TokenId token = sampler_->Sample(logits_);
    sampler_->Accept(token);
    report_.tokens.push_back(token);
    return token;
  }

  bool IsEnd(TokenId token) const {
    return tokenizer_.IsEndOfGeneration(token) ||
           std::ranges::binary_search(options_.end_tokens, token);
  }

  bool HasAllTokens() const {
    return std::cmp_equal(report_.tokens.size(), options_.max_tokens);
  }

  engine::Session& session_;
  const text::Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  std::unique_ptr<Sampler> sampler_;
  TextOutput output_;
  std::vector<size_t> never_chosen_;
  std::vector<float> logits_;
  GenerateReport report_ = {};
};

Status CheckRequest(const engine::Session& session,
                    std::span<const TokenId> prompt,
                    const GenerateOptions& options) {
  if (prompt.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the prompt has no tokens: there is nothing to continue");
  }
  const int64_t num_left = session.context() - session.position();
  if (prompt.size() > static_cast<uint64_t>(num_left)) {
    return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kContextOrPrompt},
                "the prompt has {}, but the context of {} "
                "has {} left",
                Plural(prompt.size(), "token"),
                Plural(session.context(), "position"), num_left);
  }
  if (options.max_tokens < -1) {
    return Fail(ErrorCode::kInvalidArgument, Advice{Remedy::kMaxTokens},
                "{} tokens to generate: must be a number of tokens, or -1 for "
                "as many as the context holds",
                options.max_tokens);
  }
  if (session.model().tokenizer() == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: the file has no vocabulary, so its tokens have no text",
                session.model().file().path());
  }
  return {};
}

}  // namespace

Result<GenerateReport> Generate(engine::Session& session,
                                std::span<const TokenId> prompt,
                                const GenerateOptions& options,
                                const TextFn& on_text) {
  TC_RETURN_IF_ERROR(CheckRequest(session, prompt, options));
  TC_ASSIGN_OR_RETURN(
      auto sampler,
      Sampler::Create(options.sampler, session.model().config().vocab_size));
  return Generation(session, options, std::move(sampler), on_text).Run(prompt);
}

}  // namespace thermocline::decode
