#include "model/vocab_metadata.h"

#include <string>
#include <utility>
#include <vector>

#include "model/vocab_keys.h"

namespace thermocline::model {
namespace {

using gguf::ValueType;

template <typename Held, typename T>
gguf::Array ToArray(ValueType elem_type, const std::vector<T>& values) {
  std::vector<Held> held;
  held.reserve(values.size());
  for (const T& value : values) held.push_back(static_cast<Held>(value));
  return {elem_type, std::move(held)};
}

const char* ModelNameOf(text::VocabKind kind) {
  switch (kind) {
    case text::VocabKind::kSpm:
      return "llama";
    case text::VocabKind::kBpe:
      return "gpt2";
    case text::VocabKind::kCharBpe:
      return "gemma4";
  }
  return "none";
}

Status WriteSpecialTokens(const text::Vocab& vocab, gguf::Writer& writer) {
  for (const SpecialToken& special : kSpecialTokens) {
    const std::optional<text::TokenId>& id = vocab.*special.id;
    // An SPM reader gives an absent key a default: "none" must be said.
    const bool must_say =
        vocab.kind == text::VocabKind::kSpm && special.spm_default >= 0;
    if (!id && !must_say) continue;
    TC_RETURN_IF_ERROR(writer.AddInt(special.key, ValueType::kU32,
                                     id ? int64_t{*id} : kNoToken));
  }
  return {};
}

Status WriteOwnKeys(const text::Vocab& vocab, gguf::Writer& writer) {
  if (vocab.space_prefix_once) {
    TC_RETURN_IF_ERROR(writer.AddBool(kKeySpacePrefixOnce, true));
  }
  for (const auto& [key, ids] : {std::pair(kKeyLstrip, &vocab.lstrip),
                                 std::pair(kKeyRstrip, &vocab.rstrip)}) {
    if (ids->empty()) continue;
    TC_RETURN_IF_ERROR(
        writer.AddArray(key, ToArray<int64_t>(ValueType::kI32, *ids)));
  }
  return {};
}

}  // namespace

Status WriteVocab(const text::Vocab& vocab, gguf::Writer& writer) {
  const bool spm = vocab.kind == text::VocabKind::kSpm;
  TC_RETURN_IF_ERROR(writer.AddString(kKeyModel, ModelNameOf(vocab.kind)));
  if (!vocab.pre.empty()) {
    TC_RETURN_IF_ERROR(writer.AddString(kKeyPre, vocab.pre));
  }
  TC_RETURN_IF_ERROR(
      writer.AddArray(kKeyTokens, {ValueType::kString, vocab.tokens}));
  if (!vocab.scores.empty()) {
    TC_RETURN_IF_ERROR(writer.AddArray(
        kKeyScores, ToArray<double>(ValueType::kF32, vocab.scores)));
  }
  if (!vocab.types.empty()) {
    TC_RETURN_IF_ERROR(writer.AddArray(
        kKeyTypes, ToArray<int64_t>(ValueType::kI32, vocab.types)));
  }
  if (!spm || !vocab.merges.empty()) {
    TC_RETURN_IF_ERROR(
        writer.AddArray(kKeyMerges, {ValueType::kString, vocab.merges}));
  }
  TC_RETURN_IF_ERROR(WriteSpecialTokens(vocab, writer));
  TC_RETURN_IF_ERROR(writer.AddBool(kKeyAddBos, vocab.add_bos));
  TC_RETURN_IF_ERROR(writer.AddBool(kKeyAddEos, vocab.add_eos));
  TC_RETURN_IF_ERROR(
      writer.AddBool(kKeyAddSpacePrefix, vocab.add_space_prefix));
  return WriteOwnKeys(vocab, writer);
}

}  // namespace thermocline::model
