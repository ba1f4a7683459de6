// A conversation with a model: who said what, and the tokens that stand for it.
#ifndef THERMOCLINE_DECODE_CONVERSATION_H_
#define THERMOCLINE_DECODE_CONVERSATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "decode/generate.h"
#include "decode/reasoning_splitter.h"
#include "engine/session.h"
#include "text/chat_format.h"

namespace thermocline::decode {

enum class Role { kSystem, kUser, kAssistant };
std::string_view NameOf(Role role);  // "user", as chat formats name them

struct ChatMessage {
  Role role;
  std::string text;
  std::string reasoning;  // the thoughts before an answer, if any
  // Of an answer without thoughts, what it began with and is not shown.
  std::string leading_space;
};

struct ConversationOptions {
  const text::ChatFormat* format = nullptr;  // lives as long
  std::string system;                        // empty: none
  bool add_bos = true;                       // where the vocabulary asks for it
};

// Owns     the messages and their tokens; not the session.
// Threads  one caller at a time.
// Each message renders the whole conversation anew, since a template may write
// earlier turns otherwise than when they were the last ones (it drops thoughts,
// moves tools). What is the same at the beginning is not computed again: the
// tokens of a prompt and of its answer stay where the rendering has their
// text, and else as far as its tokens are those that the session holds.
// Invariant: the session holds a prefix of the conversation's tokens.
class Conversation {
 public:
  // Requires an empty session whose model has a tokenizer, which outlives this
  // object, and a format. Errors: those of the tokenizer.
  static Result<std::unique_ptr<Conversation>> Create(
      engine::Session& session, const ConversationOptions& options);

  // Says `text` and generates the answer, as Generate does; `options` may add
  // stop strings and tokens to the format's own. The receivers get thoughts and
  // answer apart, without their marks and the white space around them; without
  // on_reasoning thoughts are kept, but not handed over. An answer may end by
  // any reason of the report's: the next message closes it as the format wants.
  //
  // kCancelled before the answer's first token takes the message back: nothing
  // has been said. kResourceExhausted: what is to be computed does not fit the
  // context, with advice whether Clear helps (the chat's /clear) or only a
  // larger one; nothing is computed and the conversation is as before, as with
  // kInvalidArgument (a vocabulary without tokens for it) and where the format
  // refuses the conversation, whose errors they are, with its name in front.
  // Other errors are Generate's, and take the message back too.
  Result<GenerateReport> Say(std::string_view text,
                             const GenerateOptions& options,
                             const TextFn& on_text,
                             const TextFn& on_reasoning = {});

  // Generates another answer to the last message, in place of the one there
  // is; give it another seed. kCancelled before its first token and errors,
  // which are Generate's, keep the old one. Requires has_answer(). (CHECKed)
  Result<GenerateReport> AnswerAgain(const GenerateOptions& options,
                                     const TextFn& on_text,
                                     const TextFn& on_reasoning = {});

  // Forgets all but the system prompt.
  void Clear();

  bool has_answer() const;
  // The system prompt, if any, and what was said, in order.
  std::span<const ChatMessage> messages() const { return messages_; }
  const engine::Session& session() const { return session_; }

 private:
  // The tokens up to the last answer's end, and the text that they stand for.
  struct Past {
    std::vector<text::TokenId> tokens;
    std::vector<text::TextPart> prompt;
    std::string answer;       // of the tokens behind the prompt
    size_t answer_begin = 0;  // in tokens
  };
  // Whom an answer goes to.
  struct Receiver {
    const TextFn& on_text;
    const TextFn& on_reasoning;
  };

  Conversation(engine::Session& session, const ConversationOptions& options,
               std::vector<text::TokenId> shown_tokens);

  Result<std::vector<text::TextPart>> Render(
      std::span<const ChatMessage> messages) const;
  Result<std::vector<text::TokenId>> Encode(
      std::span<const text::TextPart> parts) const;
  // The parts behind those that past_ stands for; nullopt: the rendering has
  // another text there.
  std::optional<std::vector<text::TextPart>> BehindPast(
      std::span<const text::TextPart> parts) const;
  // How many positions a conversation of this message alone takes, with the
  // system prompt; nullopt: the format refuses it.
  std::optional<size_t> NumTokensAlone(std::string_view text) const;
  // Refuses `text`, which makes the conversation num_all tokens long, if that
  // does not fit the context; num_common of them are there.
  Status CheckFits(std::string_view text, size_t num_all,
                   size_t num_common) const;
  // Answers behind past_, which ends with the message. Adds to it what was
  // generated.
  Result<GenerateReport> Answer(const GenerateOptions& options,
                                const Receiver& receiver, ChatMessage* answer);
  // Adds those of `generated` that make up `text`.
  void KeepAnswer(std::span<const text::TokenId> generated,
                  std::string_view text);
  std::string_view PieceOf(text::TokenId token) const;

  engine::Session& session_;
  const text::Tokenizer& tokenizer_;
  ConversationOptions options_;
  std::vector<text::TokenId> shown_tokens_;  // of the marks of thoughts, sorted
  std::vector<ChatMessage> messages_;
  Past past_;
};

}  // namespace thermocline::decode

#endif  // THERMOCLINE_DECODE_CONVERSATION_H_
