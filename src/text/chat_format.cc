#include "text/chat_format.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/continue_message.h"
#include "text/utf8.h"
#include "text/vocab_rules.h"

namespace thermocline::text {
namespace {

// Of what stands behind an answer the first mark, as "<|end|>", or else the
// first line, with the line end in front that it may have: "\nUser:" in the
// midst of a line is words like others.
std::string TextOfEnd(std::string_view behind) {
  const std::string_view text = SkipWhiteSpace(behind);
  const char close =
      text.starts_with('<') ? '>' : (text.starts_with('[') ? ']' : '\0');
  const std::string_view line =
      WithoutTrailingSpace(text.substr(0, text.find('\n')));
  if (close != '\0') {
    const size_t end = line.find(close);
    return std::string(end == std::string_view::npos ? line
                                                     : line.substr(0, end + 1));
  }
  const std::string_view space = behind.substr(0, behind.size() - text.size());
  return (space.find('\n') == std::string_view::npos ? "" : "\n") +
         std::string(line);
}

// Punctuation alone, as "." or "---", stands in the midst of answers too.
bool TellsEnd(std::string_view text) {
  text = SkipWhiteSpace(text);
  return text.starts_with('<') || text.starts_with('[') ||
         std::ranges::any_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '#' ||
                  static_cast<unsigned char>(c) >= 0x80;
         });
}

// A template may write line ends in front of the BOS.
bool BeginsWith(TokenId bos, std::span<const TokenId> tokens,
                const Tokenizer& tokenizer) {
  const auto first = std::ranges::find_if(tokens, [&](TokenId id) {
    return id == bos || !SkipWhiteSpace(tokenizer.Piece(id, true)).empty();
  });
  return first != tokens.end() && *first == bos;
}

}  // namespace

Result<std::vector<TextPart>> ChatFormat::Render(
    const RenderRequest& request) const {
  TC_RETURN_IF_ERROR(CheckMessages(*request.messages));
  RenderRequest settled = request;
  settled.add_generation_prompt =
      request.add_generation_prompt.value_or(!request.continue_final_message);
  if (!request.continue_final_message) return RenderAll(settled);
  if (*settled.add_generation_prompt) {
    return Fail(ErrorCode::kInvalidArgument,
                "the last message is to be continued (continue_final_message), "
                "so that no answer begins behind it (add_generation_prompt)");
  }
  ChatMessages tagged = *request.messages;
  TC_ASSIGN_OR_RETURN(const std::string text, AppendContinueTag(&tagged));
  settled.messages = &tagged;
  TC_ASSIGN_OR_RETURN(std::vector<TextPart> parts, RenderAll(settled));
  TC_RETURN_IF_ERROR(CutAtContinueTag(text, &parts));
  return parts;
}

void AppendPart(std::string_view text, bool is_markup,
                std::vector<TextPart>* parts) {
  if (text.empty()) return;
  if (!parts->empty() && parts->back().is_markup == is_markup) {
    parts->back().text += text;
  } else {
    parts->push_back({std::string(text), is_markup});
  }
}

std::string Join(std::span<const TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) text += part.text;
  return text;
}

Result<std::vector<TokenId>> EncodeChat(const Tokenizer& tokenizer,
                                        const ChatFormat& format,
                                        std::span<const TextPart> parts,
                                        bool add_bos) {
  TC_ASSIGN_OR_RETURN(
      std::vector<TokenId> tokens,
      tokenizer.EncodeParts(parts, {.previous = std::nullopt,
                                    .reserved = format.reserved_tokens()}));
  const auto bos = tokenizer.vocab().added_bos();
  if (add_bos && bos && !BeginsWith(*bos, tokens, tokenizer)) {
    tokens.insert(tokens.begin(), *bos);
  }
  return tokens;
}

Result<AnswerEnd> FindAnswerEnd(std::string_view behind,
                                const Tokenizer* tokenizer) {
  AnswerEnd end;
  const std::string_view text = SkipWhiteSpace(behind);
  if (text.empty()) return end;
  if (tokenizer != nullptr) {
    const TextPart part = {std::string(text), /*is_markup=*/true};
    TC_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                        tokenizer->EncodeParts(std::span(&part, 1), {}));
    // A tokenizer may put a space in front of the token.
    for (const TokenId token : tokens) {
      const std::string_view piece = tokenizer->Piece(token, true);
      if (tokenizer->IsSpecial(token) && text.starts_with(piece)) {
        end.tokens.push_back(token);
        return end;
      }
      if (!SkipWhiteSpace(piece).empty()) break;
    }
  }
  std::string line = TextOfEnd(behind);
  if (TellsEnd(line)) end.texts.push_back(std::move(line));
  return end;
}

Result<std::vector<TokenId>> FindReservedTokens(
    std::span<const TextPart> markup, const Tokenizer& tokenizer) {
  TC_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                      tokenizer.EncodeParts(markup, {}));
  std::erase_if(tokens, [&tokenizer](TokenId id) {
    // Vocabularies have tokens for runs of line ends, which are no marks.
    return !tokenizer.IsSpecial(id) ||
           SkipWhiteSpace(tokenizer.Piece(id, true)).empty();
  });
  const Vocab& vocab = tokenizer.vocab();
  // Exporters call marks of chats user-defined, which match in content too.
  for (TokenId id = 0; id < tokenizer.num_tokens(); ++id) {
    if (tokenizer.IsSpecial(id) &&
        LooksLikeControl(vocab.tokens[static_cast<size_t>(id)])) {
      tokens.push_back(id);
    }
  }
  for (const auto& id : {vocab.bos, vocab.eos, vocab.eot, vocab.eom}) {
    if (id) tokens.push_back(*id);
  }
  std::ranges::sort(tokens);
  tokens.erase(std::ranges::unique(tokens).begin(), tokens.end());
  return tokens;
}

}  // namespace thermocline::text
