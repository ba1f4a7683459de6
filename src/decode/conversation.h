// A conversation with a model: who said what, and the tokens that stand for it.
#ifndef THERMOCLINE_DECODE_CONVERSATION_H_
#define THERMOCLINE_DECODE_CONVERSATION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "decode/generate.h"
#include "engine/session.h"
#include "text/chat_template.h"

namespace thermocline::decode {

enum class Role { kSystem, kUser, kAssistant };
std::string_view NameOf(Role role);  // "user", as chat formats name them

struct ChatMessage {
  Role role;
  std::string text;
};

struct ConversationOptions {
  const text::ChatTemplate* format = nullptr;  // lives as long
  std::string system;                          // empty: none
  bool add_bos = true;  // where the vocabulary asks for it
  // What the model's template writes of each answer (text::AnswerStartOf).
  std::string answer_start;
};

// Owns     the messages and their tokens; not the session.
// Threads  one caller at a time.
// Invariant: the session holds a prefix of the conversation's tokens. What it
//   lacks (the end marker of the last answer, ...) is computed with the next
//   message, and nothing is ever computed twice but the one token from which a
//   new answer to the same message starts.
class Conversation {
 public:
  // Requires an empty session whose model has a tokenizer, which outlives this
  // object, and a format. Errors: those of the tokenizer.
  static Result<std::unique_ptr<Conversation>> Create(
      engine::Session& session, const ConversationOptions& options);

  // Says `text` and generates the answer, as Generate does; `options` may add
  // stop strings to the format's own. The receiver gets the answer without the
  // white space before its first character. An answer may end by any reason of
  // the report's: the next message closes it as the format wants.
  //
  // kCancelled before the answer's first token takes the message back: nothing
  // has been said. kResourceExhausted: what is to be computed does not fit the
  // context, with advice whether Clear helps (the chat's /clear) or only a
  // larger one; nothing is computed and the conversation is as before, as with
  // kInvalidArgument: a vocabulary without tokens for it. Other errors are
  // Generate's, and take the message back too.
  Result<GenerateReport> Say(std::string_view text,
                             const GenerateOptions& options,
                             const TextFn& on_text);

  // Generates another answer to the last message, in place of the one there
  // is; give it another seed. kCancelled before its first token and errors,
  // which are Generate's, keep the old one. Requires has_answer(). (CHECKed)
  Result<GenerateReport> AnswerAgain(const GenerateOptions& options,
                                     const TextFn& on_text);

  // Forgets all but the system prompt.
  void Clear();

  bool has_answer() const;
  // The system prompt, if any, and what was said, in order.
  std::span<const ChatMessage> messages() const { return messages_; }
  const engine::Session& session() const { return session_; }

 private:
  Conversation(engine::Session& session, const ConversationOptions& options,
               std::vector<text::TokenId> reserved_tokens);

  // The tokens from the end of the last answer, or where is_first from the
  // start of a conversation, to the start of the next answer.
  Result<std::vector<text::TokenId>> EncodeTurn(std::string_view text,
                                                bool is_first) const;
  // Refuses `turn`, the tokens of `text`, if it does not fit the context.
  Status CheckFits(std::string_view text,
                   std::span<const text::TokenId> turn) const;
  // Answers behind tokens_, which end with the message. Adds to tokens_ what
  // was said and to `answer` its text.
  Result<GenerateReport> Answer(const GenerateOptions& options,
                                const TextFn& on_text, std::string* answer);
  // Adds those of `generated` that make up `text`.
  void KeepAnswer(std::span<const text::TokenId> generated,
                  std::string_view text);

  engine::Session& session_;
  const text::Tokenizer& tokenizer_;
  ConversationOptions options_;
  std::vector<text::TokenId> reserved_tokens_;  // sorted
  std::vector<ChatMessage> messages_;
  std::vector<text::TokenId> tokens_;
  // Text behind tokens_ that is part of the last answer: what is left of a
  // token that a stop string ended in.
  std::string rest_;
  size_t answer_begin_ = 0;  // in tokens_
};

}  // namespace thermocline::decode

#endif  // THERMOCLINE_DECODE_CONVERSATION_H_
