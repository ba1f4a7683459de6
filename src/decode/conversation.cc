#include "decode/conversation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/remedy.h"
#include "text/utf8.h"

namespace thermocline::decode {
namespace {

using text::TextPart;
using text::TokenId;

// Whether there is no answer, so that nothing has been said.
bool IsTakenBack(const Result<GenerateReport>& report) {
  return !report.has_value() ||
         (report->reason == StopReason::kCancelled && report->tokens.empty());
}

size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

text::ChatMessages ForFormat(std::span<const ChatMessage> messages,
                             bool keeps_leading_space) {
  text::ChatMessages list = text::ChatMessages::array();
  for (const ChatMessage& message : messages) {
    text::ChatMessages made = {
        {"role", NameOf(message.role)},
        {"content",
         (keeps_leading_space ? message.leading_space : "") + message.text}};
    if (!message.reasoning.empty()) {
      made["reasoning_content"] = message.reasoning;
    }
    list.push_back(std::move(made));
  }
  return list;
}

// An answer as it comes.
class AnswerReader {
 public:
  AnswerReader(const text::ReasoningMarks& marks, bool is_open,
               const TextFn& on_text, const TextFn& on_reasoning)
      : splitter_(marks, is_open),
        on_text_(on_text),
        on_reasoning_(on_reasoning) {}

  bool Read(std::string_view piece) {
    raw_ += piece;
    return Hand(splitter_.Push(piece));
  }

  // The message, when no more comes. is_gone: no one reads on.
  void Finish(bool is_gone, ChatMessage* answer) {
    ReasoningSplitter::Split rest = splitter_.Flush();
    if (is_gone) {
      content_ += rest.content;
      reasoning_ += rest.reasoning;
    } else {
      Hand(rest);
    }
    std::string space;
    if (reasoning_.empty()) {
      space = raw_.substr(0, raw_.size() - text::SkipWhiteSpace(raw_).size());
    }
    *answer = {Role::kAssistant, std::move(content_), std::move(reasoning_),
               std::move(space)};
  }

  const std::string& raw() const { return raw_; }

 private:
  bool Hand(const ReasoningSplitter::Split& split) {
    reasoning_ += split.reasoning;
    content_ += split.content;
    if (!split.reasoning.empty() && on_reasoning_ &&
        !on_reasoning_(split.reasoning)) {
      return false;
    }
    return split.content.empty() || on_text_(split.content);
  }

  ReasoningSplitter splitter_;
  const TextFn& on_text_;
  const TextFn& on_reasoning_;
  std::string raw_, content_, reasoning_;
};

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
  TC_ASSIGN_OR_RETURN(std::vector<TokenId> shown_tokens,
                      text::TokensOf(options.format->reasoning(),
                                     *session.model().tokenizer()));
  return std::unique_ptr<Conversation>(
      new Conversation(session, options, std::move(shown_tokens)));
}

Conversation::Conversation(engine::Session& session,
                           const ConversationOptions& options,
                           std::vector<TokenId> shown_tokens)
    : session_(session),
      tokenizer_(*session.model().tokenizer()),
      options_(options),
      shown_tokens_(std::move(shown_tokens)) {
  Clear();
}

void Conversation::Clear() {
  session_.Truncate(0);
  past_ = {};
  messages_.clear();
  if (!options_.system.empty()) {
    messages_.push_back({Role::kSystem, options_.system});
  }
}

bool Conversation::has_answer() const {
  return !messages_.empty() && messages_.back().role == Role::kAssistant;
}

Result<std::vector<TextPart>> Conversation::Render(
    std::span<const ChatMessage> messages) const {
  const text::ChatMessages list =
      ForFormat(messages, options_.format->keeps_leading_space());
  const text::ChatFormat& format = *options_.format;
  auto parts =
      format.Render({.messages = &list, .add_generation_prompt = true});
  if (!parts.has_value()) return Annotate(format.name(), parts.error());
  return parts;
}

std::optional<std::vector<TextPart>> Conversation::BehindPast(
    std::span<const TextPart> parts) const {
  const std::vector<TextPart>& prompt = past_.prompt;
  if (prompt.empty() || past_.tokens.empty() || parts.size() < prompt.size()) {
    return std::nullopt;
  }
  // What the prompt ended with may go on in the same part.
  const size_t num_whole = prompt.size() - 1;
  if (!std::ranges::equal(parts.first(num_whole),
                          std::span(prompt).first(num_whole)) ||
      parts[num_whole].is_markup != prompt.back().is_markup) {
    return std::nullopt;
  }
  std::vector<TextPart> rest(parts.begin() + static_cast<ptrdiff_t>(num_whole),
                             parts.end());
  std::string known = prompt.back().text + past_.answer;
  std::string_view left = known;
  size_t num_past = 0;
  for (TextPart& part : rest) {
    const size_t common = std::min(left.size(), part.text.size());
    if (!part.text.starts_with(left.substr(0, common))) return std::nullopt;
    left.remove_prefix(common);
    part.text.erase(0, common);
    if (!part.text.empty()) break;
    ++num_past;
  }
  if (!left.empty()) return std::nullopt;
  rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(num_past));
  return rest;
}

Result<std::vector<TokenId>> Conversation::Encode(
    std::span<const TextPart> parts) const {
  const auto rest = BehindPast(parts);
  if (!rest) {
    return text::EncodeChat(tokenizer_, *options_.format, parts,
                            options_.add_bos);
  }
  TC_ASSIGN_OR_RETURN(
      const std::vector<TokenId> more,
      tokenizer_.EncodeParts(*rest,
                             {.previous = past_.tokens.back(),
                              .reserved = options_.format->reserved_tokens()}));
  std::vector<TokenId> tokens = past_.tokens;
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

std::optional<size_t> Conversation::NumTokensAlone(
    std::string_view text) const {
  std::vector<ChatMessage> messages;
  if (!options_.system.empty()) {
    messages.push_back({Role::kSystem, options_.system});
  }
  messages.push_back({Role::kUser, std::string(text)});
  const auto parts = Render(messages);
  if (!parts.has_value()) return std::nullopt;
  const auto tokens =
      text::EncodeChat(tokenizer_, *options_.format, *parts, options_.add_bos);
  if (!tokens.has_value()) return std::nullopt;
  return tokens->size();
}

Status Conversation::CheckFits(std::string_view text, size_t num_all,
                               size_t num_common) const {
  const auto context = static_cast<size_t>(session_.context());
  if (num_all <= context) return {};
  if (!options_.system.empty()) {
    const auto system = NumTokensAlone("");
    if (system && *system > context) {
      return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kLargerContext},
                  "the system prompt takes {} positions with what belongs to "
                  "it, but the context has {}",
                  *system, context);
    }
  }
  const auto alone = NumTokensAlone(text);
  if (alone && *alone > context) {
    return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kLargerContext},
                "the message takes {} positions with what belongs to it, but "
                "the context has {}",
                *alone, context);
  }
  return Fail(ErrorCode::kResourceExhausted, Advice{Remedy::kStartOver},
              "the message takes {} positions with what belongs to it, but "
              "{} of {} are used",
              num_all - num_common, num_common, context);
}

Result<GenerateReport> Conversation::Say(std::string_view text,
                                         const GenerateOptions& options,
                                         const TextFn& on_text,
                                         const TextFn& on_reasoning) {
  std::vector<ChatMessage> messages = messages_;
  messages.push_back({Role::kUser, std::string(text)});
  TC_ASSIGN_OR_RETURN(std::vector<TextPart> prompt, Render(messages));
  TC_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, Encode(prompt));
  if (tokens.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the vocabulary has no tokens for the message");
  }
  const size_t num_common = std::min(CommonPrefix(tokens, past_.tokens),
                                     static_cast<size_t>(session_.position()));
  TC_RETURN_IF_ERROR(CheckFits(text, tokens.size(), num_common));
  session_.Truncate(static_cast<int64_t>(num_common));
  const size_t num_prompt = tokens.size();
  Past old = std::exchange(
      past_, Past{std::move(tokens), std::move(prompt), "", num_prompt});
  ChatMessage answer;
  Result<GenerateReport> report =
      Answer(options, {on_text, on_reasoning}, &answer);
  if (IsTakenBack(report)) {
    past_ = std::move(old);
    session_.Truncate(
        std::min(session_.position(), static_cast<int64_t>(num_common)));
    return report;
  }
  messages.push_back(std::move(answer));
  messages_ = std::move(messages);
  return report;
}

Result<GenerateReport> Conversation::AnswerAgain(const GenerateOptions& options,
                                                 const TextFn& on_text,
                                                 const TextFn& on_reasoning) {
  TC_CHECK(has_answer());
  Past old = past_;
  past_.tokens.resize(past_.answer_begin);
  past_.answer.clear();
  ChatMessage answer;
  Result<GenerateReport> report =
      Answer(options, {on_text, on_reasoning}, &answer);
  if (IsTakenBack(report)) {
    // What an error left of another answer is not part of the old one.
    session_.Truncate(
        std::min(session_.position(), static_cast<int64_t>(old.answer_begin)));
    past_ = std::move(old);
    return report;
  }
  messages_.back() = std::move(answer);
  return report;
}

Result<GenerateReport> Conversation::Answer(const GenerateOptions& options,
                                            const Receiver& receiver,
                                            ChatMessage* answer) {
  const text::ChatFormat& format = *options_.format;
  // The first token comes from the last position's logits, which have to be
  // computed now.
  const size_t num_held = std::min(static_cast<size_t>(session_.position()),
                                   past_.tokens.size() - 1);
  session_.Truncate(static_cast<int64_t>(num_held));
  const std::span<const TokenId> all = past_.tokens;
  GenerateOptions turn_options = options;
  turn_options.past = all.first(num_held);
  turn_options.shown_tokens = shown_tokens_;
  std::vector<TokenId> ends(options.end_tokens.begin(),
                            options.end_tokens.end());
  ends.insert(ends.end(), format.end_tokens().begin(),
              format.end_tokens().end());
  std::ranges::sort(ends);
  turn_options.end_tokens = ends;
  turn_options.stop_strings.insert(turn_options.stop_strings.end(),
                                   format.end_texts().begin(),
                                   format.end_texts().end());
  AnswerReader reader(format.reasoning(),
                      text::OpensReasoning(format.reasoning(), past_.prompt),
                      receiver.on_text, receiver.on_reasoning);
  TC_ASSIGN_OR_RETURN(
      GenerateReport report,
      Generate(session_, all.subspan(num_held), turn_options,
               [&](std::string_view piece) { return reader.Read(piece); }));
  reader.Finish(report.reason == StopReason::kReceiver, answer);
  // What ends the answer is not part of it: the format writes it.
  KeepAnswer(std::span(report.tokens).first(report.num_text_tokens),
             reader.raw());
  return report;
}

std::string_view Conversation::PieceOf(TokenId token) const {
  if (token >= tokenizer_.num_tokens()) return "";
  return tokenizer_.Piece(token,
                          std::ranges::binary_search(shown_tokens_, token));
}

void Conversation::KeepAnswer(std::span<const TokenId> generated,
                              std::string_view text) {
  for (const TokenId token : generated) {
    const std::string_view piece = PieceOf(token);
    if (piece.size() > text.size()) break;  // not all was received
    text.remove_prefix(piece.size());
    past_.answer += piece;
    past_.tokens.push_back(token);
  }
  session_.Truncate(
      std::min(session_.position(), static_cast<int64_t>(past_.tokens.size())));
}

}  // namespace thermocline::decode
