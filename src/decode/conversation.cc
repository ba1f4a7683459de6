#include "decode/conversation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/remedy.h"
#include "text/utf8.h"

namespace thermocline::decode {
namespace {

using text::TokenId;

// Whether there is no answer, so that nothing has been said.
bool IsTakenBack(const Result<GenerateReport>& report) {
  return !report.has_value() ||
         (report->reason == StopReason::kCancelled && report->tokens.empty());
}

}  // namespace

std::string_view NameOf(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
  }
  return "";
}

Result<std::unique_ptr<Conversation>> Conversation::Create(
    engine::Session& session, const ConversationOptions& options) {
  TC_CHECK(session.position() == 0);
  TC_CHECK(session.model().tokenizer() != nullptr);
  TC_CHECK(options.format != nullptr);
  TC_ASSIGN_OR_RETURN(
      std::vector<TokenId> reserved_tokens,
      text::ReservedTokens(*options.format, *session.model().tokenizer()));
  return std::unique_ptr<Conversation>(
      new Conversation(session, options, std::move(reserved_tokens)));
}

Conversation::Conversation(engine::Session& session,
                           const ConversationOptions& options,
                           std::vector<TokenId> reserved_tokens)
    : session_(session),
      tokenizer_(*session.model().tokenizer()),
      options_(options),
      reserved_tokens_(std::move(reserved_tokens)) {
  Clear();
}

void Conversation::Clear() {
  session_.Truncate(0);
  tokens_.clear();
  rest_.clear();
  messages_.clear();
  if (!options_.system.empty()) {
    messages_.push_back({Role::kSystem, options_.system});
  }
}

bool Conversation::has_answer() const {
  return !messages_.empty() && messages_.back().role == Role::kAssistant;
}

Result<std::vector<TokenId>> Conversation::EncodeTurn(std::string_view text,
                                                      bool is_first) const {
  std::vector<text::TextPart> parts;
  if (!is_first && !rest_.empty()) {
    parts.push_back({rest_, /*is_markup=*/false});
  }
  for (text::TextPart& part : text::RenderTurn(
           *options_.format, tokenizer_.vocab(),
           {is_first, options_.system, text, options_.answer_start})) {
    parts.push_back(std::move(part));
  }
  text::EncodePartsOptions encode = {.previous = std::nullopt,
                                     .reserved = reserved_tokens_};
  if (!is_first) encode.previous = tokens_.back();
  TC_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                      tokenizer_.EncodeParts(parts, encode));
  const auto bos = tokenizer_.vocab().added_bos();
  if (is_first && options_.add_bos && bos) {
    tokens.insert(tokens.begin(), *bos);
  }
  return tokens;
}

Status Conversation::CheckFits(std::string_view text,
                               std::span<const TokenId> turn) const {
  const int64_t context = session_.context();
  const auto num_all = static_cast<int64_t>(tokens_.size() + turn.size());
  if (num_all <= context) return {};
  if (!options_.system.empty()) {
    TC_ASSIGN_OR_RETURN(const std::vector<TokenId> system,
                        EncodeTurn("", /*is_first=*/true));
    if (static_cast<int64_t>(system.size()) > context) {
      return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kLargerContext},
                  "the system prompt takes {} positions with what belongs to "
                  "it, but the context has {}",
                  system.size(), context);
    }
  }
  TC_ASSIGN_OR_RETURN(const std::vector<TokenId> alone,
                      EncodeTurn(text, /*is_first=*/true));
  if (static_cast<int64_t>(alone.size()) > context) {
    return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kLargerContext},
                "the message takes {} positions with what belongs to it, but "
                "the context has {}",
                alone.size(), context);
  }
  return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kStartOver},
              "the message takes {} positions with what belongs to it, but "
              "{} of {} are used",
              num_all - session_.position(), session_.position(), context);
}

Result<GenerateReport> Conversation::Say(std::string_view text,
                                         const GenerateOptions& options,
                                         const TextFn& on_text) {
  TC_ASSIGN_OR_RETURN(const std::vector<TokenId> turn,
                      EncodeTurn(text, /*is_first=*/tokens_.empty()));
  if (turn.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the vocabulary has no tokens for the message");
  }
  TC_RETURN_IF_ERROR(CheckFits(text, turn));
  const auto num_old = static_cast<int64_t>(tokens_.size());
  const size_t old_answer_begin = answer_begin_;
  const std::string old_rest = std::exchange(rest_, {});
  tokens_.insert(tokens_.end(), turn.begin(), turn.end());
  answer_begin_ = tokens_.size();
  std::string answer;
  Result<GenerateReport> report = Answer(options, on_text, &answer);
  if (IsTakenBack(report)) {
    tokens_.resize(static_cast<size_t>(num_old));
    session_.Truncate(std::min(session_.position(), num_old));
    answer_begin_ = old_answer_begin;
    rest_ = old_rest;
    return report;
  }
  messages_.push_back({Role::kUser, std::string(text)});
  messages_.push_back({Role::kAssistant, std::move(answer)});
  return report;
}

Result<GenerateReport> Conversation::AnswerAgain(const GenerateOptions& options,
                                                 const TextFn& on_text) {
  TC_CHECK(has_answer());
  const std::vector<TokenId> old_answer(
      tokens_.begin() + static_cast<ptrdiff_t>(answer_begin_), tokens_.end());
  const std::string old_rest = std::exchange(rest_, {});
  tokens_.resize(answer_begin_);
  std::string answer;
  Result<GenerateReport> report = Answer(options, on_text, &answer);
  if (IsTakenBack(report)) {
    // What an error left of another answer is not part of the old one.
    session_.Truncate(
        std::min(session_.position(), static_cast<int64_t>(answer_begin_)));
    tokens_.insert(tokens_.end(), old_answer.begin(), old_answer.end());
    rest_ = old_rest;
    return report;
  }
  messages_.back().text = std::move(answer);
  return report;
}

Result<GenerateReport> Conversation::Answer(const GenerateOptions& options,
                                            const TextFn& on_text,
                                            std::string* answer) {
  // The first token comes from the last position's logits, which have to be
  // computed now.
  const size_t num_held =
      std::min(static_cast<size_t>(session_.position()), tokens_.size() - 1);
  session_.Truncate(static_cast<int64_t>(num_held));
  const std::span<const TokenId> all = tokens_;
  GenerateOptions turn_options = options;
  turn_options.past = all.first(num_held);
  turn_options.stop_strings.emplace_back(options_.format->stop);
  std::string text;
  const auto receive = [&](std::string_view piece) {
    text += piece;
    if (answer->empty()) piece = text::SkipWhiteSpace(piece);
    *answer += piece;
    return piece.empty() || on_text(piece);
  };
  TC_ASSIGN_OR_RETURN(
      GenerateReport report,
      Generate(session_, all.subspan(num_held), turn_options, receive));
  // What ends the answer is not part of it: the format writes it.
  KeepAnswer(std::span(report.tokens).first(report.num_text_tokens), text);
  return report;
}

void Conversation::KeepAnswer(std::span<const TokenId> generated,
                              std::string_view text) {
  for (const TokenId token : generated) {
    const std::string_view piece =
        token < tokenizer_.num_tokens()
            ? tokenizer_.Piece(token, /*show_special=*/false)
            : std::string_view();
    if (piece.size() > text.size()) break;  // not all was received
    text.remove_prefix(piece.size());
    tokens_.push_back(token);
  }
  rest_ = text;
  session_.Truncate(
      std::min(session_.position(), static_cast<int64_t>(tokens_.size())));
}

}  // namespace thermocline::decode
