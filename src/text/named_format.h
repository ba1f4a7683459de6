// A usual format of chats, by its name (chat_template.h).
#ifndef THERMOCLINE_TEXT_NAMED_FORMAT_H_
#define THERMOCLINE_TEXT_NAMED_FORMAT_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat_format.h"
#include "text/chat_template.h"

namespace thermocline::text {

// Knows a system prompt in front, and messages and answers in turns; refuses
// other roles and orders (kInvalidArgument). Content is a text, or a list of
// parts that are texts. Thoughts are left out.
class NamedFormat final : public ChatFormat {
 public:
  // `row` lives as long. Errors: the tokenizer's.
  static Result<std::unique_ptr<const NamedFormat>> Create(
      const ChatTemplate& row, const Tokenizer& tokenizer);

  std::string_view name() const override { return name_; }
  Result<std::vector<TextPart>> Render(
      const RenderRequest& request) const override;
  std::span<const TokenId> end_tokens() const override { return end_.tokens; }
  std::span<const std::string> end_texts() const override { return end_.texts; }
  const ReasoningMarks& reasoning() const override { return reasoning_; }
  std::span<const TokenId> reserved_tokens() const override {
    return reserved_;
  }
  bool keeps_leading_space() const override { return true; }

 private:
  // What the row writes, with the vocabulary's texts in it.
  struct Pieces {
    std::string before_system, after_system, before_user, after_user,
        after_answer;
  };

  NamedFormat() = default;
  std::string Content(std::string_view text) const;
  // The text of message `number`, which comes behind one of the role `last`.
  Result<std::string> CheckTurn(const jinja::Json& message, size_t number,
                                std::string_view last) const;

  const ChatTemplate* row_ = nullptr;
  std::string name_;
  Pieces pieces_;
  AnswerEnd end_;
  ReasoningMarks reasoning_;
  std::vector<TokenId> reserved_;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_NAMED_FORMAT_H_
