// A usual format of chats, by its name (chat_template.h).
#ifndef THERMOCLINE_TEXT_NAMED_FORMAT_H_
#define THERMOCLINE_TEXT_NAMED_FORMAT_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
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

 private:
  // What the row writes, with the vocabulary's texts in it.
  struct Pieces {
    std::string before_system, after_system, before_user, after_user,
        after_answer;
  };

  NamedFormat(const ChatTemplate& row, Pieces pieces)
      : row_(row), pieces_(std::move(pieces)) {}

  Result<std::vector<TextPart>> RenderAll(
      const RenderRequest& request) const override;
  std::string Content(std::string_view text) const;
  // The text of message `number`, which comes behind one of the role `last`.
  Result<std::string> CheckTurn(const jinja::Json& message, size_t number,
                                std::string_view last) const;

  const ChatTemplate& row_;
  const Pieces pieces_;
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_NAMED_FORMAT_H_
