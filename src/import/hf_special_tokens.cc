#include "import/hf_special_tokens.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "import/hf_spm_json.h"
#include "import/hf_tokenizer_json.h"

namespace thermocline::importer {
namespace {

using text::TokenId;
using text::TokenType;
using text::Vocab;

constexpr std::string_view kEscapedSpace = "\u2581";

std::string Unescaped(std::string text) {
  for (size_t at = text.find(kEscapedSpace); at != std::string::npos;
       at = text.find(kEscapedSpace, at)) {
    text.replace(at, kEscapedSpace.size(), " ");
  }
  return text;
}

// Text is matched before its spaces are escaped.
std::string AsMatched(std::string text, bool is_special,
                      const VocabDraft& draft) {
  return !is_special && draft.vocab.kind == text::VocabKind::kSpm
             ? Unescaped(std::move(text))
             : std::move(text);
}

// Byte, unknown and unused tokens stay what they are.
void MakeControl(TokenId id, VocabBuilder& tokens) {
  const TokenType type = tokens.TypeOf(id);
  if (type == TokenType::kNormal || type == TokenType::kUserDefined) {
    tokens.SetType(id, TokenType::kControl);
  }
}

void WarnOfNoRow(const std::string& path, const std::string& text) {
  LogWarning("{}: added token {} has no row of its own: ignored", path,
             Quote(text));
}

// A token that the embedding has no row for, as padding often is, is ignored.
Status AddToken(const std::string& path, const std::string& text, uint64_t id,
                bool is_special, VocabDraft& draft) {
  VocabBuilder& tokens = draft.tokens;
  if (id >= tokens.num_rows()) {
    WarnOfNoRow(path, text);
    return {};
  }
  const auto known = tokens.Find(text);
  if (known && static_cast<uint64_t>(*known) == id) {
    if (is_special) MakeControl(*known, tokens);
    return {};
  }
  if (!known) tokens.Forget(id);
  return tokens.Add(path, AsMatched(text, is_special, draft), id,
                    is_special ? TokenType::kControl : TokenType::kUserDefined,
                    text::kAddedTokenScore);
}

// The same, but what contradicts the tokens that are there is ignored too.
Status AddIfItFits(const std::string& path, const std::string& text,
                   uint64_t id, bool is_special, VocabDraft& draft) {
  const VocabBuilder& tokens = draft.tokens;
  auto known = tokens.Find(text);
  if (!known) known = tokens.Find(AsMatched(text, is_special, draft));
  const bool fits =
      id < tokens.num_rows() &&
      (known ? static_cast<uint64_t>(*known) == id : !tokens.IsNamed(id));
  if (fits) return AddToken(path, text, id, is_special, draft);
  WarnOfNoRow(path, text);
  return {};
}

// Whether the draft's token with that id is this one.
bool Has(const VocabDraft& draft, const std::string& text, uint64_t id) {
  auto known = draft.tokens.Find(text);
  if (!known) known = draft.tokens.Find(AsMatched(text, false, draft));
  return known && static_cast<uint64_t>(*known) == id;
}

// A token's text, given as a string or as an object with "content".
Result<std::optional<std::string>> TextOf(const JsonFields& fields,
                                          const char* key) {
  const Json* value = fields.Find(key);
  if (value == nullptr || !value->is_object()) return fields.String(key);
  TC_ASSIGN_OR_RETURN(const auto inner, JsonFields::Of(*value, fields.path()));
  TC_ASSIGN_OR_RETURN(auto text, inner.RequireString("content"));
  return std::optional(std::move(text));
}

// The token that the files name, control from now on; nullopt: none.
Result<std::optional<TokenId>> FindNamed(const SpecialSources& sources,
                                         const char* key, bool is_needed,
                                         VocabBuilder& tokens) {
  for (const JsonFields* fields : {&sources.config, &sources.map}) {
    TC_ASSIGN_OR_RETURN(const auto text, TextOf(*fields, key));
    if (!text || text->empty()) continue;  // "" is another way to name none
    const auto id = tokens.Find(*text);
    if (id) {
      MakeControl(*id, tokens);
      return id;
    }
    if (is_needed) {
      return fields->Wrong(
          key, fmt::format("is {}, which is no token", Quote(*text)));
    }
    LogWarning("{}: key \"{}\" is {}, which is no token: ignored",
               fields->path(), key, Quote(*text));
    return std::nullopt;
  }
  return std::nullopt;
}

// An id of the model's config, if the vocabulary has it.
std::optional<TokenId> InVocab(int64_t id, const SpecialSources& sources,
                               const VocabBuilder& tokens) {
  if (static_cast<uint64_t>(id) < tokens.num_rows()) {
    return static_cast<TokenId>(id);
  }
  LogWarning(
      "{}: special token {} of the model's config is outside of the "
      "vocabulary: ignored",
      sources.config.path(), id);
  return std::nullopt;
}

// The tokens that end a text. The file has three places for such.
void AddEnds(const SpecialSources& sources, VocabDraft& draft) {
  Vocab& vocab = draft.vocab;
  const auto end_of_message = draft.tokens.Find("<|eom_id|>");
  for (const int64_t each : sources.eos_ids) {
    const auto id = InVocab(each, sources, draft.tokens);
    if (!id || id == vocab.eos || id == vocab.eot || id == vocab.eom) continue;
    auto& slot = !vocab.eos                           ? vocab.eos
                 : !vocab.eot && id != end_of_message ? vocab.eot
                                                      : vocab.eom;
    if (slot) {
      LogWarning(
          "{}: there is no place for one more token that ends a text: {} is "
          "ignored",
          sources.config.path(), each);
      continue;
    }
    slot = id;
  }
}

}  // namespace

Status AddFromAddedTokens(const JsonFields& added, VocabDraft& draft) {
  return added.ForEach([&](const std::string& text, const Json& id) -> Status {
    if (!id.is_number_unsigned()) {
      return Fail(ErrorCode::kCorrupt, "{}: token {} has no id", added.path(),
                  Quote(text));
    }
    return AddToken(added.path(), text, id.get<uint64_t>(), false, draft);
  });
}

Status AddFromTokenizerJson(const NamedText& tokenizer, VocabDraft& draft) {
  TC_ASSIGN_OR_RETURN(const Json json,
                      ParseJson(tokenizer.text, tokenizer.path));
  TC_ASSIGN_OR_RETURN(const auto whole, JsonFields::Of(json, tokenizer.path));
  TC_ASSIGN_OR_RETURN(const auto added, ReadAddedTokens(whole));
  for (const AddedToken& token : added) {
    const uint64_t id = token.id != nullptr && token.id->is_number_unsigned()
                            ? token.id->get<uint64_t>()
                            : draft.tokens.num_rows();
    TC_RETURN_IF_ERROR(
        AddIfItFits(tokenizer.path, token.text, id, token.is_special, draft));
    if (Has(draft, token.text, id)) KeepStripping(token, id, draft);
  }
  // SentencePiece's own file does not say where else the space in front goes.
  text::Vocab steps;
  if (draft.vocab.kind == text::VocabKind::kSpm && ReadSpmSteps(whole, steps)) {
    draft.vocab.space_prefix_once = steps.space_prefix_once;
  }
  return {};
}

Status AddFromDecoder(const JsonFields& config, bool may_contradict,
                      VocabDraft& draft) {
  const Json* decoder = config.Find("added_tokens_decoder");
  if (decoder == nullptr) return {};
  TC_ASSIGN_OR_RETURN(
      const auto entries,
      JsonFields::Of(*decoder, config.path() + ": added_tokens_decoder"));
  return entries.ForEach(
      [&](const std::string& key, const Json& token) -> Status {
        uint64_t id = 0;
        const auto [end, error] =
            std::from_chars(key.data(), key.data() + key.size(), id);
        if (error != std::errc() || end != key.data() + key.size()) {
          return Fail(ErrorCode::kCorrupt, "{}: {} is no token id",
                      entries.path(), Quote(key));
        }
        TC_ASSIGN_OR_RETURN(const auto fields,
                            JsonFields::Of(token, entries.path()));
        TC_ASSIGN_OR_RETURN(const auto added, ReadAddedToken(fields));
        const auto add = may_contradict ? AddToken : AddIfItFits;
        TC_RETURN_IF_ERROR(
            add(entries.path(), added.text, id, added.is_special, draft));
        if (Has(draft, added.text, id)) KeepStripping(added, id, draft);
        return {};
      });
}

Status ReadSpecialTokens(const SpecialSources& sources, VocabDraft& draft) {
  Vocab& vocab = draft.vocab;
  struct Named {
    const char* key;
    std::optional<TokenId> Vocab::* slot;
    bool is_needed;
  };
  for (const auto& [key, slot, is_needed] :
       {Named{"bos_token", &Vocab::bos, true},
        Named{"eos_token", &Vocab::eos, true},
        Named{"unk_token", &Vocab::unk, false},
        Named{"pad_token", &Vocab::pad, false}}) {
    TC_ASSIGN_OR_RETURN(const auto id,
                        FindNamed(sources, key, is_needed, draft.tokens));
    if (id) vocab.*slot = id;
  }
  if (!vocab.bos && sources.bos_id) {
    vocab.bos = InVocab(*sources.bos_id, sources, draft.tokens);
  }
  if (!vocab.pad && sources.pad_id) {
    vocab.pad = InVocab(*sources.pad_id, sources, draft.tokens);
  }
  AddEnds(sources, draft);

  TC_ASSIGN_OR_RETURN(const auto add_bos, sources.config.Bool("add_bos_token"));
  TC_ASSIGN_OR_RETURN(const auto add_eos, sources.config.Bool("add_eos_token"));
  const bool usually_bos =
      draft.first ? draft.first == vocab.bos : vocab.add_bos;
  const bool usually_eos = draft.last ? draft.last == vocab.eos : vocab.add_eos;
  vocab.add_bos = vocab.bos && add_bos.value_or(usually_bos);
  vocab.add_eos = vocab.eos && add_eos.value_or(usually_eos);
  if (vocab.kind == text::VocabKind::kSpm) {
    TC_ASSIGN_OR_RETURN(const auto space,
                        sources.config.Bool("add_prefix_space"));
    vocab.add_space_prefix = space.value_or(vocab.add_space_prefix);
  }
  return {};
}

}  // namespace thermocline::importer
