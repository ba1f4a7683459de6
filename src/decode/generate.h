// Prompt in, text out, token by token, until something says stop: feeds a
// session, samples from its logits (sampler.h), looks for stop strings, and
// hands out text that is whole UTF-8.
#ifndef THERMOCLINE_DECODE_GENERATE_H_
#define THERMOCLINE_DECODE_GENERATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "decode/sampler.h"
#include "engine/session.h"
#include "text/tokenizer.h"

namespace thermocline::decode {

struct GenerateOptions {
  int64_t max_tokens = -1;  // -1: until the context is full
  // -r: the text ends before the match. The text of a control token counts,
  // though it is not shown.
  std::vector<std::string> stop_strings;
  // Tokens that end the text besides the vocabulary's own, and control tokens
  // whose texts are shown; both sorted.
  std::span<const text::TokenId> end_tokens, shown_tokens;
  bool ignore_eos = false;  // tokens that end the text are never chosen
  SamplerOptions sampler;
  // What comes before the prompt: the penalties look back into it.
  std::span<const text::TokenId> past;
  const std::atomic<bool>* cancel = nullptr;
};

enum class StopReason {
  kMaxTokens,
  kEndOfGeneration,
  kStopString,
  kContextFull,
  kCancelled,
  kReceiver
};

struct GenerateReport {
  StopReason reason;
  int64_t num_prompt_tokens;  // that went through: 0 if cancelled meanwhile
  std::vector<text::TokenId> tokens;  // generated, an ending one too
  // How many of them are whole in the text: without an ending one, and what
  // a stop string begins in.
  size_t num_text_tokens;
  // Passes through the model after the prefill. The first token comes from the
  // prefill's logits, and the last one is not decoded: mostly one pass less
  // than tokens. Speed is passes by time.
  int64_t num_decodes;
  double prompt_seconds;    // prefill
  double generate_seconds;  // decoding and sampling after it
  uint32_t seed;
};

// Receives whole UTF-8 text as it becomes certain (text that might be the start
// of a stop string is held back). Returns false to stop: the reader is gone.
using TextFn = std::function<bool(std::string_view text)>;

// Prefills `prompt` behind the session's position, then decodes. Errors of the
// session pass through. Before any work: kInvalidArgument: an empty prompt,
// max_tokens < -1; kResourceExhausted: a prompt longer than what is left of the
// context; kUnsupported: a model without a vocabulary; Sampler::Create's.
Result<GenerateReport> Generate(engine::Session& session,
                                std::span<const text::TokenId> prompt,
                                const GenerateOptions& options,
                                const TextFn& on_text);

}  // namespace thermocline::decode

#endif  // THERMOCLINE_DECODE_GENERATE_H_
