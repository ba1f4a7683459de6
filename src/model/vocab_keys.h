// Names of the vocabulary's keys, shared by its reader and writer.
#ifndef THERMOCLINE_MODEL_VOCAB_KEYS_H_
#define THERMOCLINE_MODEL_VOCAB_KEYS_H_

#include <cstdint>
#include <optional>

#include "text/vocab.h"

namespace thermocline::model {

inline constexpr char kKeyModel[] = "tokenizer.ggml.model";
inline constexpr char kKeyPre[] = "tokenizer.ggml.pre";
inline constexpr char kKeyTokens[] = "tokenizer.ggml.tokens";
inline constexpr char kKeyScores[] = "tokenizer.ggml.scores";
inline constexpr char kKeyTypes[] = "tokenizer.ggml.token_type";
inline constexpr char kKeyMerges[] = "tokenizer.ggml.merges";
inline constexpr char kKeyAddBos[] = "tokenizer.ggml.add_bos_token";
inline constexpr char kKeyAddEos[] = "tokenizer.ggml.add_eos_token";
inline constexpr char kKeyAddSpacePrefix[] = "tokenizer.ggml.add_space_prefix";

// Our own, for what other programs have no key for. Written only where they say
// something.
inline constexpr char kKeySpacePrefixOnce[] =
    "tokenizer.thermocline.space_prefix_once";
inline constexpr char kKeyLstrip[] = "tokenizer.thermocline.lstrip";
inline constexpr char kKeyRstrip[] = "tokenizer.thermocline.rstrip";

// -1 in the u32 that ids are stored in: "there is none".
inline constexpr int64_t kNoToken = 4294967295;

struct SpecialToken {
  const char* key;
  std::optional<text::TokenId> text::Vocab::* id;
  // What an SPM file without the key means; -1: none.
  text::TokenId spm_default;
};
inline constexpr SpecialToken kSpecialTokens[] = {
    {"tokenizer.ggml.bos_token_id", &text::Vocab::bos, 1},
    {"tokenizer.ggml.eos_token_id", &text::Vocab::eos, 2},
    {"tokenizer.ggml.unknown_token_id", &text::Vocab::unk, 0},
    {"tokenizer.ggml.eot_token_id", &text::Vocab::eot, -1},
    {"tokenizer.ggml.eom_token_id", &text::Vocab::eom, -1},
    {"tokenizer.ggml.padding_token_id", &text::Vocab::pad, -1},
};

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_VOCAB_KEYS_H_
