#include "model/vocab_metadata.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/quote.h"
#include "model/vocab_keys.h"
#include "text/pretokenizer.h"

namespace thermocline::model {
namespace {

using text::Vocab;
using text::VocabKind;

// The elements of an array key. Null: the key is absent. T is what they are
// read as: int64_t, double or std::string.
template <typename T>
Result<const gguf::ElementsOf<T>*> ArrayOf(const gguf::File& file,
                                           std::string_view key,
                                           std::string_view expected) {
  const gguf::KeyValue* kv = file.Find(key);
  if (kv == nullptr) return nullptr;
  const auto* values = kv->Elements<T>();
  if (values == nullptr) {
    const auto* array = std::get_if<gguf::Array>(&kv->value);
    return Fail(ErrorCode::kCorrupt,
                "{}: key {} is {}{}; expected an array of "
                "{}",
                file.path(), Quote(key), array == nullptr ? "" : "an array of ",
                NameOf(array == nullptr ? kv->type : array->elem_type),
                expected);
  }
  return values;
}

Status CheckLength(const gguf::File& file, std::string_view key, size_t length,
                   size_t num_tokens) {
  if (length == num_tokens) return {};
  return Fail(ErrorCode::kCorrupt,
              "{}: key {} has {} elements, but there are {} tokens",
              file.path(), Quote(key), length, num_tokens);
}

Status ReadTokens(const gguf::File& file, Vocab& vocab) {
  TC_ASSIGN_OR_RETURN(const auto* tokens,
                      ArrayOf<std::string>(file, kKeyTokens, "string"));
  if (tokens == nullptr || tokens->empty()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key {} names a tokenizer, but there are no tokens in {}",
                file.path(), Quote(kKeyModel), Quote(kKeyTokens));
  }
  if (!std::in_range<text::TokenId>(tokens->size())) {
    return Fail(ErrorCode::kCorrupt, "{}: {} tokens are too many", file.path(),
                tokens->size());
  }
  vocab.tokens = *tokens;
  return {};
}

Status ReadScores(const gguf::File& file, Vocab& vocab) {
  TC_ASSIGN_OR_RETURN(const auto* scores,
                      ArrayOf<double>(file, kKeyScores, "f32"));
  if (scores == nullptr) return {};
  TC_RETURN_IF_ERROR(
      CheckLength(file, kKeyScores, scores->size(), vocab.tokens.size()));
  vocab.scores.assign(scores->begin(), scores->end());
  return {};
}

Status ReadTypes(const gguf::File& file, Vocab& vocab) {
  TC_ASSIGN_OR_RETURN(const auto* types,
                      ArrayOf<int64_t>(file, kKeyTypes, "i32"));
  if (types == nullptr) return {};
  TC_RETURN_IF_ERROR(
      CheckLength(file, kKeyTypes, types->size(), vocab.tokens.size()));
  vocab.types.reserve(types->size());
  for (size_t i = 0; i < types->size(); ++i) {
    // 0 is "undefined" and means nothing special.
    const int64_t type = std::max<int64_t>((*types)[i], 1);
    if ((*types)[i] < 0 ||
        type > static_cast<int64_t>(text::TokenType::kByte)) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: key {}: token {} has type {}; 1 to "
                  "6 are known",
                  file.path(), Quote(kKeyTypes), i, (*types)[i]);
    }
    vocab.types.push_back(static_cast<text::TokenType>(type));
  }
  return {};
}

Status ReadMerges(const gguf::File& file, Vocab& vocab) {
  TC_ASSIGN_OR_RETURN(const auto* merges,
                      ArrayOf<std::string>(file, kKeyMerges, "string"));
  if (merges != nullptr) {
    vocab.merges = *merges;
  } else if (vocab.kind != VocabKind::kSpm) {
    return Fail(ErrorCode::kCorrupt,
                "{}: a BPE vocabulary needs the key {}, which is missing",
                file.path(), Quote(kKeyMerges));
  }
  return {};
}

Status ReadSpecialTokens(const gguf::File& file, Vocab& vocab) {
  const auto num_tokens = static_cast<int64_t>(vocab.tokens.size());
  for (const SpecialToken& special : kSpecialTokens) {
    TC_ASSIGN_OR_RETURN(const std::optional<int64_t> stored,
                        file.Int(special.key));
    const bool use_default = !stored && vocab.kind == VocabKind::kSpm;
    const int64_t id = use_default ? special.spm_default : stored.value_or(-1);
    if (id >= 0 && id < num_tokens) {
      vocab.*special.id = static_cast<text::TokenId>(id);
    } else if (stored && id != -1 && id != kNoToken) {
      LogWarning("{}: key {} is {}, but there are {} tokens; ignored",
                 file.path(), Quote(special.key), id, num_tokens);
    }
  }
  return {};
}

Status ReadFlags(const gguf::File& file, Vocab& vocab) {
  const bool spm = vocab.kind == VocabKind::kSpm;
  TC_ASSIGN_OR_RETURN(const auto add_bos, file.Bool(kKeyAddBos));
  TC_ASSIGN_OR_RETURN(const auto add_eos, file.Bool(kKeyAddEos));
  TC_ASSIGN_OR_RETURN(const auto add_space, file.Bool(kKeyAddSpacePrefix));
  TC_ASSIGN_OR_RETURN(const auto space_once, file.Bool(kKeySpacePrefixOnce));
  const bool gemma4 = vocab.kind == VocabKind::kCharBpe;
  vocab.add_bos = add_bos.value_or(spm || gemma4 || text::AddsBos(vocab.pre));
  if (gemma4 && !vocab.add_bos) {
    // Files of Gemma 4's first weeks say so by mistake: without BOS its answers
    // make no sense.
    LogWarning("{}: key {} is false; true is used, as Gemma 4 needs it",
               file.path(), Quote(kKeyAddBos));
    vocab.add_bos = true;
  }
  vocab.add_eos = add_eos.value_or(false);
  vocab.add_space_prefix = add_space.value_or(spm);
  vocab.space_prefix_once = space_once.value_or(false);
  return {};
}

// Ids of tokens; none if the key is absent.
Status ReadIds(const gguf::File& file, const char* key, size_t num_tokens,
               std::vector<text::TokenId>& ids) {
  TC_ASSIGN_OR_RETURN(const auto* stored, ArrayOf<int64_t>(file, key, "i32"));
  if (stored == nullptr) return {};
  for (const int64_t id : *stored) {
    if (id < 0 || std::cmp_greater_equal(id, num_tokens)) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: key {} has {}, but there are {} tokens", file.path(),
                  Quote(key), id, num_tokens);
    }
    ids.push_back(static_cast<text::TokenId>(id));
  }
  return {};
}

}  // namespace

Result<std::optional<Vocab>> ReadVocab(const gguf::File& file) {
  TC_ASSIGN_OR_RETURN(const auto model, file.String(kKeyModel));
  if (!model || *model == "none" || *model == "no_vocab") {
    return std::optional<Vocab>();
  }
  Vocab vocab;
  if (*model == "llama") {
    vocab.kind = VocabKind::kSpm;
  } else if (*model == "gpt2") {
    vocab.kind = VocabKind::kBpe;
  } else if (*model == "gemma4") {
    vocab.kind = VocabKind::kCharBpe;
  } else {
    return Fail(ErrorCode::kUnsupported,
                "{}: key {} is {}; the tokenizers \"llama\", \"gpt2\" and "
                "\"gemma4\" are known",
                file.path(), Quote(kKeyModel), Quote(*model));
  }
  TC_ASSIGN_OR_RETURN(auto pre, file.String(kKeyPre));
  vocab.pre = std::move(pre).value_or("");
  TC_RETURN_IF_ERROR(ReadTokens(file, vocab));
  TC_RETURN_IF_ERROR(ReadScores(file, vocab));
  TC_RETURN_IF_ERROR(ReadTypes(file, vocab));
  TC_RETURN_IF_ERROR(ReadMerges(file, vocab));
  TC_RETURN_IF_ERROR(ReadSpecialTokens(file, vocab));
  TC_RETURN_IF_ERROR(ReadFlags(file, vocab));
  TC_RETURN_IF_ERROR(
      ReadIds(file, kKeyLstrip, vocab.tokens.size(), vocab.lstrip));
  TC_RETURN_IF_ERROR(
      ReadIds(file, kKeyRstrip, vocab.tokens.size(), vocab.rstrip));
  return std::optional<Vocab>(std::move(vocab));
}

}  // namespace thermocline::model
