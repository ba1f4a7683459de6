#include "text/named_format.h"

#include <optional>
#include <utility>

#include "base/quote.h"
#include "text/utf8.h"

namespace thermocline::text {
namespace {

using jinja::Json;

// A piece with the texts of the vocabulary's tokens.
std::string WithTokens(std::string_view piece, const Vocab& vocab) {
  const auto text_of = [&vocab](std::optional<TokenId> id) {
    return id ? std::string_view(vocab.tokens[static_cast<size_t>(*id)]) : "";
  };
  std::string text(piece);
  for (const auto& [name, id] :
       {std::pair("{bos}", vocab.bos), std::pair("{eos}", vocab.eos)}) {
    const size_t at = text.find(name);
    if (at != std::string::npos) text.replace(at, 5, text_of(id));
  }
  return text;
}

// The texts of a message's content; nullopt: it holds something else.
std::optional<std::string> TextOfContent(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return std::string();
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return std::nullopt;
  std::string text;
  for (const Json& part : *content) {
    const auto found = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || found == part.end() || !found->is_string()) {
      return std::nullopt;
    }
    text += found->get_ref<const std::string&>();
  }
  return text;
}

// Whether a message of `role` may follow one of `last`; empty: nothing.
bool MayFollow(std::string_view role, std::string_view last) {
  if (role == "system") return last.empty();
  return (role == "user") != (last == "user");
}

}  // namespace

Result<std::unique_ptr<const NamedFormat>> NamedFormat::Create(
    const ChatTemplate& row, const Tokenizer& tokenizer) {
  const Vocab& vocab = tokenizer.vocab();
  Pieces pieces = {
      WithTokens(row.before_system, vocab), WithTokens(row.after_system, vocab),
      WithTokens(row.before_user, vocab), WithTokens(row.after_user, vocab),
      WithTokens(row.after_answer, vocab)};
  std::vector<TextPart> markup;
  for (const std::string& piece :
       {pieces.before_system, pieces.after_system, pieces.before_user,
        pieces.after_user, pieces.after_answer}) {
    markup.push_back({piece, /*is_markup=*/true});
  }
  Traits traits;
  traits.name = "the format " + std::string(row.name);
  TC_ASSIGN_OR_RETURN(traits.end,
                      FindAnswerEnd(pieces.after_answer, &tokenizer));
  traits.end.texts = {std::string(row.stop)};
  traits.reasoning = FindReasoningMarks("", &tokenizer);
  TC_ASSIGN_OR_RETURN(traits.reserved, FindReservedTokens(markup, tokenizer));
  traits.keeps_leading_space = true;
  std::unique_ptr<NamedFormat> made(new NamedFormat(row, std::move(pieces)));
  made->SetTraits(std::move(traits));
  return std::unique_ptr<const NamedFormat>(std::move(made));
}

std::string NamedFormat::Content(std::string_view text) const {
  return std::string(row_.trims ? WithoutTrailingSpace(SkipWhiteSpace(text))
                                : text);
}

Result<std::string> NamedFormat::CheckTurn(const Json& message, size_t number,
                                           std::string_view last) const {
  const auto& role = message["role"].get_ref<const std::string&>();
  if (role != "system" && role != "user" && role != "assistant") {
    return Fail(ErrorCode::kInvalidArgument,
                "message {}: there are the roles system, user and assistant, "
                "but no {}",
                number, Quote(role));
  }
  if (!MayFollow(role, last)) {
    return Fail(ErrorCode::kInvalidArgument,
                "message {}: a message of the system can only be the first, "
                "and user and assistant take turns",
                number);
  }
  std::optional<std::string> text = TextOfContent(message);
  if (text) return *std::move(text);
  return Fail(ErrorCode::kInvalidArgument, "message {}: its content is no text",
              number);
}

Result<std::vector<TextPart>> NamedFormat::RenderAll(
    const RenderRequest& request) const {
  std::vector<TextPart> parts;
  std::string system;
  const auto add_system = [&] {
    if (system.empty()) return;
    AppendPart(pieces_.before_system, true, &parts);
    AppendPart(Content(std::exchange(system, {})), false, &parts);
    AppendPart(pieces_.after_system, true, &parts);
  };
  std::string last;
  size_t number = 0;
  for (const Json& message : *request.messages) {
    TC_ASSIGN_OR_RETURN(std::string text, CheckTurn(message, ++number, last));
    last = message["role"].get<std::string>();
    if (last == "system") {
      system = std::move(text);
      if (!row_.system_in_user) add_system();
    } else if (last == "user") {
      AppendPart(pieces_.before_user, true, &parts);
      add_system();
      AppendPart(Content(text), false, &parts);
      AppendPart(pieces_.after_user, true, &parts);
    } else {
      AppendPart(text, false, &parts);
      AppendPart(pieces_.after_answer, true, &parts);
    }
  }
  // What is behind the content of a message that is continued will be cut off.
  if (request.continue_final_message ||
      *request.add_generation_prompt == (last == "user")) {
    return parts;
  }
  return Fail(ErrorCode::kInvalidArgument,
              "answers begin behind a message of the user, and only there");
}

}  // namespace thermocline::text
