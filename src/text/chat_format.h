// What writes a conversation as the text that a chat model wants: a format
// known by its name (named_format.h), or the model's own template
// (model_template.h).
#ifndef THERMOCLINE_TEXT_CHAT_FORMAT_H_
#define THERMOCLINE_TEXT_CHAT_FORMAT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat_messages.h"
#include "text/reasoning_marks.h"
#include "text/tokenizer.h"

namespace thermocline::text {

struct RenderRequest {
  const ChatMessages* messages = nullptr;
  bool add_generation_prompt = true;
};

// Immutable after creation, so safe from any number of threads.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;

  // "the format chatml"; "the format of the model's own template".
  virtual std::string_view name() const = 0;

  // The whole conversation, to where the next answer begins if that is asked
  // for; neighbours differ in is_markup. A BOS that a template writes in front
  // is in it; EncodeChat adds one where there is none.
  // kInvalidArgument: messages that are none, or that the format refuses, a
  // template in its own words; kUnsupported, kCorrupt, kResourceExhausted as
  // jinja::Template.
  virtual Result<std::vector<TextPart>> Render(
      const RenderRequest& request) const = 0;

  // What ends an answer besides the vocabulary's end tokens: tokens that the
  // format writes behind answers, and texts where it writes no token there.
  virtual std::span<const TokenId> end_tokens() const = 0;
  virtual std::span<const std::string> end_texts() const = 0;

  // How the model marks its thoughts, where it has such.
  virtual const ReasoningMarks& reasoning() const = 0;

  // The special tokens that the format writes, those that look like marks of a
  // chat, and those that begin and end texts, sorted: content must not forge
  // them.
  virtual std::span<const TokenId> reserved_tokens() const = 0;

  // Whether it writes past answers as they were generated, with the white space
  // that they began with. Otherwise it says itself what stands there.
  virtual bool keeps_leading_space() const = 0;
};

// Appends to the last part, if it is of that kind, or as a new one. Empty
// texts: nothing.
void AppendPart(std::string_view text, bool is_markup,
                std::vector<TextPart>* parts);

// The text of all parts.
std::string Join(std::span<const TextPart> parts);

// The tokens of a rendering. A BOS goes in front where the vocabulary asks for
// one, add_bos does not forbid it, and the rendering does not begin with it,
// but for white space.
// Errors: Tokenizer::EncodeParts'.
Result<std::vector<TokenId>> EncodeChat(const Tokenizer& tokenizer,
                                        const ChatFormat& format,
                                        std::span<const TextPart> parts,
                                        bool add_bos);

// What ends an answer, from the text that a format writes between an answer
// and the next message of a user: a special token at its beginning; else, as a
// text, the first mark in brackets, or its first line that is not empty, with
// the line end in front that it may have, and nothing if that is punctuation
// alone. `tokenizer` may be null: no tokens.
struct AnswerEnd {
  std::vector<TokenId> tokens;
  std::vector<std::string> texts;
};
Result<AnswerEnd> FindAnswerEnd(std::string_view behind,
                                const Tokenizer* tokenizer);

// The special tokens in what a format writes, but for white space, and of the
// vocabulary's those that LooksLikeControl and those that begin and end texts;
// sorted. Linear in the vocabulary.
Result<std::vector<TokenId>> FindReservedTokens(
    std::span<const TextPart> markup, const Tokenizer& tokenizer);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_CHAT_FORMAT_H_
