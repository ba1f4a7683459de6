// Chooses the next token: llama.cpp's chain, in its order and with its
// defaults: penalties, top-k, top-p, min-p, temperature, then a seeded draw.
#ifndef THERMOCLINE_DECODE_SAMPLER_H_
#define THERMOCLINE_DECODE_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "text/vocab.h"

namespace thermocline::decode {

inline constexpr int kMaxRepeatLastN = 1 << 24;

struct SamplerOptions {
  float temperature = 0.8f;     // <= 0: the most likely token
  int top_k = 40;               // <= 0: all
  float top_p = 0.95f;          // >= 1: off
  float min_p = 0.05f;          // <= 0: off
  float repeat_penalty = 1.0f;  // 1: off
  int repeat_last_n = 64;       // tokens looked back at; -1: all, 0: none
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  uint32_t seed = 0xffffffffu;  // this value: a random one, see seed()
};

class Sampler {
 public:
  // kInvalidArgument names the option: not finite, a repeat_penalty <= 0, a
  // repeat_last_n out of range. kIo: the system gives no random seed.
  static Result<std::unique_ptr<Sampler>> Create(const SamplerOptions& options,
                                                 size_t vocab_size);
  virtual ~Sampler() = default;

  // A token for these logits [V]. Does not change them. Allocates nothing.
  virtual text::TokenId Sample(std::span<const float> logits) = 0;

  // Tells the penalties about a token of the prompt or a sampled one.
  virtual void Accept(text::TokenId token) = 0;

  virtual uint32_t seed() const = 0;  // the one in use
};

}  // namespace thermocline::decode

#endif  // THERMOCLINE_DECODE_SAMPLER_H_
