#include "text/vocab_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_set>

namespace thermocline::text {
namespace {

// Control tokens by their text alone; the first group ends a model's turn. The
// fill-in-the-middle ones after it end generation too where a model writes them
// unasked (padding, next file), which the others do not.
constexpr std::array<std::string_view, 16> kEndTexts = {
    "<|eot_id|>",    "<|im_end|>", "<|end|>", "<end_of_turn>",
    "<|endoftext|>", "<|eom_id|>", "<EOT>",   "<｜end▁of▁sentence｜>",
    "<|fim_pad|>",   "<fim-pad>",  "<PAD>",   "<|fim_repo|>",
    "<|repo_name|>", "<fim-repo>", "<REPO>",  "<|file_sep|>"};
constexpr std::array<std::string_view, 12> kOtherControlTexts = {
    "<|fim_prefix|>", "<fim-prefix>", "<｜fim▁begin｜>", "<PRE>",
    "<|fim_suffix|>", "<fim-suffix>", "<｜fim▁hole｜>",  "<SUF>",
    "<|fim_middle|>", "<fim-middle>", "<｜fim▁end｜>",   "<MID>"};
// Instruction-tuned DeepSeek Coder ends its turn with this one.
constexpr std::string_view kDeepSeekCoderEnd = "<|EOT|>";
// gpt-oss ends its turn with these two, and with <|end|> each message in it:
// the answer comes behind that of the thoughts.
constexpr std::string_view kMessageEnd = "<|end|>";
constexpr std::array<std::string_view, 2> kTurnEnds = {"<|return|>",
                                                       "<|call|>"};

constexpr std::array<std::string_view, 6> kPhi3Texts = {
    "<|endoftext|>", "<|assistant|>", "<|placeholder1|>",
    "<|system|>",    "<|end|>",       "<|user|>"};
constexpr std::array<std::string_view, 3> kPhi3KeepSpaceAfter = {
    "<unk>", "<s>", "<|endoftext|>"};

template <size_t kCount>
bool Contains(const std::array<std::string_view, kCount>& texts,
              std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

Status CheckSpecialId(std::string_view name, std::optional<TokenId> id,
                      size_t num_tokens) {
  if (!id || (*id >= 0 && static_cast<size_t>(*id) < num_tokens)) return {};
  return Fail(ErrorCode::kCorrupt,
              "vocabulary: the {} token is {}, but there are {} tokens", name,
              *id, num_tokens);
}

bool IsPhi3(const Vocab& vocab) {
  if (vocab.kind != VocabKind::kSpm) return false;
  std::unordered_set<std::string_view> found;
  for (const std::string& token : vocab.tokens) {
    if (Contains(kPhi3Texts, token)) found.insert(token);
  }
  return found.size() == kPhi3Texts.size();
}

bool HasLetter(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Status CheckVocab(const Vocab& vocab) {
  const size_t n = vocab.tokens.size();
  if (n == 0) return Fail(ErrorCode::kCorrupt, "vocabulary: it has no tokens");
  if (n > size_t{std::numeric_limits<TokenId>::max()}) {
    return Fail(ErrorCode::kCorrupt, "vocabulary: {} tokens are too many", n);
  }
  if (!vocab.scores.empty() && vocab.scores.size() != n) {
    return Fail(ErrorCode::kCorrupt, "vocabulary: {} tokens but {} scores", n,
                vocab.scores.size());
  }
  if (!vocab.types.empty() && vocab.types.size() != n) {
    return Fail(ErrorCode::kCorrupt, "vocabulary: {} tokens but {} types", n,
                vocab.types.size());
  }
  for (size_t i = 0; i < vocab.scores.size(); ++i) {
    if (std::isnan(vocab.scores[i])) {
      return Fail(ErrorCode::kCorrupt,
                  "vocabulary: the score of token {} is not a number", i);
    }
  }
  TC_RETURN_IF_ERROR(CheckSpecialId("BOS", vocab.bos, n));
  TC_RETURN_IF_ERROR(CheckSpecialId("EOS", vocab.eos, n));
  TC_RETURN_IF_ERROR(CheckSpecialId("EOT", vocab.eot, n));
  TC_RETURN_IF_ERROR(CheckSpecialId("EOM", vocab.eom, n));
  TC_RETURN_IF_ERROR(CheckSpecialId("unknown", vocab.unk, n));
  for (const std::vector<TokenId>* ids : {&vocab.lstrip, &vocab.rstrip}) {
    for (const TokenId id : *ids) {
      TC_RETURN_IF_ERROR(CheckSpecialId("space-swallowing", id, n));
    }
  }
  return CheckSpecialId("padding", vocab.pad, n);
}

bool LooksLikeControl(std::string_view text) {
  if (text == "<start_of_turn>") return true;
  for (const std::string_view bar : {"|", "｜"}) {
    const bool opens = text.starts_with('<') && text.substr(1).starts_with(bar);
    const bool closes =
        text.ends_with('>') && text.substr(0, text.size() - 1).ends_with(bar);
    if (!opens && !closes) continue;
    if (!text.starts_with('<') || !text.ends_with('>')) return false;
    text.remove_prefix(1 + (opens ? bar.size() : 0));
    // In <|> the bar would be there twice.
    const size_t num_closing = 1 + (closes ? bar.size() : 0);
    if (text.size() < num_closing) return false;
    text.remove_suffix(num_closing);
    return HasLetter(text) &&
           text.find_first_of("<>|() \t\r\n") == std::string_view::npos;
  }
  return false;
}

void CompleteTypes(Vocab* vocab) {
  vocab->types.resize(vocab->tokens.size(), TokenType::kNormal);
  for (size_t i = 0; i < vocab->tokens.size(); ++i) {
    TokenType& type = vocab->types[i];
    if (type < TokenType::kNormal || type > TokenType::kByte) {
      type = TokenType::kNormal;
    }
    if ((type == TokenType::kNormal && LooksLikeControl(vocab->tokens[i])) ||
        Contains(kEndTexts, vocab->tokens[i]) ||
        Contains(kOtherControlTexts, vocab->tokens[i])) {
      type = TokenType::kControl;
    }
  }
}

std::vector<bool> FindEndsOfGeneration(const Vocab& vocab) {
  const bool has_turn_ends = std::ranges::all_of(kTurnEnds, [&](auto text) {
    return std::ranges::find(vocab.tokens, text) != vocab.tokens.end();
  });
  std::vector<bool> ends(vocab.tokens.size());
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string& text = vocab.tokens[i];
    const bool is_special = vocab.types[i] == TokenType::kControl ||
                            vocab.types[i] == TokenType::kUserDefined;
    bool is_end = Contains(kEndTexts, text) || text == kDeepSeekCoderEnd;
    if (has_turn_ends) {
      is_end = Contains(kTurnEnds, text) || (is_end && text != kMessageEnd);
    }
    ends[i] = is_special && is_end;
  }
  for (const auto& id : {vocab.eos, vocab.eot, vocab.eom}) {
    if (id) ends[static_cast<size_t>(*id)] = true;
  }
  return ends;
}

std::vector<bool> FindSpaceSwallowers(const Vocab& vocab) {
  std::vector<bool> swallows(vocab.tokens.size());
  for (const TokenId id : vocab.rstrip)
    swallows[static_cast<size_t>(id)] = true;
  if (!IsPhi3(vocab)) return swallows;
  for (size_t i = 0; i < swallows.size(); ++i) {
    swallows[i] =
        swallows[i] || !Contains(kPhi3KeepSpaceAfter, vocab.tokens[i]);
  }
  return swallows;
}

std::vector<bool> FindInnerSymbols(const Vocab& vocab) {
  std::vector<bool> inner(vocab.tokens.size());
  if (vocab.kind != VocabKind::kSpm || vocab.scores.empty()) return inner;
  for (size_t i = 0; i < inner.size(); ++i) {
    inner[i] = vocab.types[i] == TokenType::kUserDefined &&
               vocab.scores[i] != kAddedTokenScore;
  }
  return inner;
}

std::optional<uint8_t> ParseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') {
    return std::nullopt;
  }
  const int high = HexDigit(text[3]);
  const int low = HexDigit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

}  // namespace thermocline::text
