// What writes a conversation as the text that a chat model wants: a format
// known by its name (named_format.h), or the model's own template
// (model_template.h).
#ifndef THERMOCLINE_TEXT_CHAT_FORMAT_H_
#define THERMOCLINE_TEXT_CHAT_FORMAT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/chat_messages.h"
#include "text/reasoning_marks.h"
#include "text/tokenizer.h"

namespace thermocline::text {

struct RenderRequest {
  const ChatMessages* messages = nullptr;
  // Whether what begins an answer stands behind the messages. Unless it is
  // said: where the last message is not continued.
  std::optional<bool> add_generation_prompt;
  // The rendering ends where the last message's content does, whoever it is
  // from, so that the model goes on with it.
  bool continue_final_message = false;
};

// What ends an answer besides the vocabulary's end tokens: tokens that the
// format writes behind answers, and texts where it writes no token there.
struct AnswerEnd {
  std::vector<TokenId> tokens;
  std::vector<std::string> texts;
};

// Immutable after creation, so safe from any number of threads.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;

  // "the format chatml"; "the format of the model's own template".
  std::string_view name() const { return traits_.name; }

  // The whole conversation, to where the next answer begins if that is asked
  // for; neighbours differ in is_markup. A BOS that a template writes in front
  // is in it; EncodeChat adds one where there is none.
  // kInvalidArgument: messages that are none, or that the format refuses, a
  // template in its own words; an answer both begun and continued, or a last
  // message that cannot be continued (continue_message.h); kUnsupported,
  // kCorrupt, kResourceExhausted as jinja::Template.
  Result<std::vector<TextPart>> Render(const RenderRequest& request) const;

  std::span<const TokenId> end_tokens() const { return traits_.end.tokens; }
  std::span<const std::string> end_texts() const { return traits_.end.texts; }

  // How the model marks its thoughts, where it has such.
  const ReasoningMarks& reasoning() const { return traits_.reasoning; }

  // The special tokens that the format writes, those that look like marks of a
  // chat, and those that begin and end texts, sorted: content must not forge
  // them.
  std::span<const TokenId> reserved_tokens() const { return traits_.reserved; }

  // Whether it writes past answers as they were generated, with the white space
  // that they began with. Otherwise it says itself what stands there.
  bool keeps_leading_space() const { return traits_.keeps_leading_space; }

 protected:
  // What the getters return.
  struct Traits {
    std::string name;
    AnswerEnd end;
    ReasoningMarks reasoning;
    std::vector<TokenId> reserved;
    bool keeps_leading_space = false;
  };

  // For the creation of a format.
  void SetTraits(Traits traits) { traits_ = std::move(traits); }

  // Render to the end of the last message and what stands behind it, also where
  // that is continued. `request` holds messages (CheckMessages), and its
  // add_generation_prompt is set.
  virtual Result<std::vector<TextPart>> RenderAll(
      const RenderRequest& request) const = 0;

 private:
  Traits traits_;
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
Result<AnswerEnd> FindAnswerEnd(std::string_view behind,
                                const Tokenizer* tokenizer);

// The special tokens in what a format writes, but for white space, and of the
// vocabulary's those that LooksLikeControl and those that begin and end texts;
// sorted. Linear in the vocabulary.
Result<std::vector<TokenId>> FindReservedTokens(
    std::span<const TextPart> markup, const Tokenizer& tokenizer);

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_CHAT_FORMAT_H_
