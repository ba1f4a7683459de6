#include "import/hf_tokenizer_json.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "import/hf_merges.h"
#include "import/hf_pretokenizer.h"
#include "import/hf_spm_json.h"
#include "text/pretokenizer.h"

namespace thermocline::importer {
namespace {

using text::TokenType;

// True if `json`, a step or a sequence of them, has a step of this type.
bool HasStep(const Json* json, std::string_view type,
             const char* sequence_key) {
  if (json == nullptr || !json->is_object()) return false;
  const auto own = json->find("type");
  if (own != json->end() && *own == type) return true;
  const auto list = json->find(sequence_key);
  if (list == json->end() || !list->is_array()) return false;
  // Depth is bounded: ParseJson refuses deep nesting.
  return std::ranges::any_of(*list, [&](const Json& step) {
    return HasStep(&step, type, sequence_key);
  });
}

// Text goes in as it is. NFC, which Qwen2 asks for, leaves almost any text as
// it is; other engines leave it out too.
Status CheckNormalizer(const Json* json, const std::string& path) {
  if (json == nullptr) return {};
  TC_ASSIGN_OR_RETURN(const auto fields,
                      JsonFields::Of(*json, path + ": normalizer"));
  TC_ASSIGN_OR_RETURN(const auto type, fields.RequireString("type"));
  if (type == "NFC") return {};
  const Json* list = fields.Find("normalizers");
  if (type != "Sequence" || list == nullptr || !list->is_array()) {
    return Fail(ErrorCode::kUnsupported,
                "{}: unknown normalizer {} of a byte-level tokenizer", path,
                Quote(type));
  }
  for (const Json& step : *list) {
    TC_RETURN_IF_ERROR(CheckNormalizer(&step, path));
  }
  return {};
}

enum class Kind { kBytes, kCharacters };

// Which kind of BPE it is; nothing else is possible.
Result<Kind> KindOf(const JsonFields& model, const JsonFields& whole) {
  TC_ASSIGN_OR_RETURN(const auto type, model.RequireString("type"));
  if (type != "BPE") {
    return Fail(ErrorCode::kUnsupported,
                "{}: the tokenizer is {}; only BPE is in this version",
                whole.path(), Quote(type));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    TC_ASSIGN_OR_RETURN(const auto affix, model.String(key));
    if (affix && !affix->empty()) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: key \"{}\" is {}: such tokenizers are not in this "
                  "version",
                  whole.path(), key, Quote(*affix));
    }
  }
  TC_ASSIGN_OR_RETURN(const auto by_byte_tokens, model.Bool("byte_fallback"));
  if (by_byte_tokens.value_or(false)) return Kind::kCharacters;
  // What cuts the text is told first: it says most about the tokenizer.
  TC_RETURN_IF_ERROR(
      NameOfPreTokenizer(whole.Find("pre_tokenizer"), whole.path()));
  if (!HasStep(whole.Find("pre_tokenizer"), "ByteLevel", "pretokenizers") ||
      !HasStep(whole.Find("decoder"), "ByteLevel", "decoders")) {
    return Fail(ErrorCode::kUnsupported,
                "{}: the tokenizer is BPE over characters without "
                "\"byte_fallback\"; byte-level BPE and SentencePiece's are in "
                "this version",
                whole.path());
  }
  return Kind::kBytes;
}

// Control tokens, or user-defined ones.
Status AddAddedTokens(const JsonFields& tokenizer, VocabDraft& draft) {
  TC_ASSIGN_OR_RETURN(const auto added, ReadAddedTokens(tokenizer));
  for (const AddedToken& token : added) {
    TC_RETURN_IF_ERROR(draft.tokens.AddWithJsonId(
        tokenizer.path(), token.text, token.id,
        token.is_special ? TokenType::kControl : TokenType::kUserDefined));
    KeepStripping(token, token.id->get<uint64_t>(), draft);
  }
  return {};
}

Status ReadTokens(const JsonFields& model, const JsonFields& whole,
                  VocabDraft& draft) {
  const Json* vocab = model.Find("vocab");
  if (vocab == nullptr || !vocab->is_object()) {
    return model.Wrong("vocab", "must be an object");
  }
  for (const auto& [text, id] : vocab->items()) {
    TC_RETURN_IF_ERROR(draft.tokens.AddWithJsonId(whole.path(), text, &id,
                                                  TokenType::kNormal));
  }
  return AddAddedTokens(whole, draft);
}

void ReadTemplate(const Json& processor, VocabDraft& draft) {
  const auto list = processor.find("single");
  if (list == processor.end() || !list->is_array() || list->empty()) return;
  const auto special_at =
      [&](const Json& item) -> std::optional<text::TokenId> {
    if (!item.is_object() || !item.contains("SpecialToken")) {
      return std::nullopt;
    }
    const Json& special = item["SpecialToken"];
    if (!special.is_object() || !special.contains("id") ||
        !special["id"].is_string()) {
      return std::nullopt;
    }
    return draft.tokens.Find(special["id"].get<std::string>());
  };
  draft.first = special_at(list->front());
  draft.last = special_at(list->back());
}

void ReadPostProcessor(const Json* json, VocabDraft& draft) {
  if (json == nullptr || !json->is_object()) return;
  ReadTemplate(*json, draft);
  const auto list = json->find("processors");
  if (list == json->end() || !list->is_array()) return;
  for (const Json& inner : *list) ReadPostProcessor(&inner, draft);
}

// The pre-tokenizer's name also says whether a word that is a token is taken
// whole, or only where merges lead to it.
Status ReadPreTokenizer(const JsonFields& model, const JsonFields& whole,
                        VocabDraft& draft) {
  const std::string& path = whole.path();
  std::string& pre = draft.vocab.pre;
  TC_ASSIGN_OR_RETURN(pre,
                      NameOfPreTokenizer(whole.Find("pre_tokenizer"), path));
  TC_ASSIGN_OR_RETURN(const auto key, model.Bool("ignore_merges"));
  const bool ignores = key.value_or(false);
  TC_ASSIGN_OR_RETURN(const auto known, text::PreTokenizer::Create(pre));
  draft.takes_whole_words = ignores && !known.ignore_merges();
  if (ignores || !known.ignore_merges()) return {};
  if (pre == "llama3") {
    pre = "smaug-bpe";  // the same rules, with merges
    return {};
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: the pre-tokenizer {} without \"ignore_merges\" is not in "
              "this version",
              path, pre);
}

Status ReadByteLevel(const JsonFields& model, const JsonFields& whole,
                     VocabDraft& draft) {
  TC_RETURN_IF_ERROR(CheckNormalizer(whole.Find("normalizer"), whole.path()));
  draft.vocab.kind = text::VocabKind::kBpe;
  TC_RETURN_IF_ERROR(ReadPreTokenizer(model, whole, draft));
  TC_RETURN_IF_ERROR(ReadTokens(model, whole, draft));
  TC_ASSIGN_OR_RETURN(auto merges, ReadMerges(model, draft.tokens));
  for (Merge& merge : merges) {
    draft.vocab.merges.push_back(std::move(merge.text));
  }
  return {};
}

}  // namespace

Result<std::vector<AddedToken>> ReadAddedTokens(const JsonFields& tokenizer) {
  std::vector<AddedToken> tokens;
  const Json* added = tokenizer.Find("added_tokens");
  if (added == nullptr) return tokens;
  if (!added->is_array()) {
    return tokenizer.Wrong("added_tokens", "must be a list");
  }
  for (const Json& token : *added) {
    TC_ASSIGN_OR_RETURN(
        const auto fields,
        JsonFields::Of(token, tokenizer.path() + ": added_tokens"));
    TC_ASSIGN_OR_RETURN(auto read, ReadAddedToken(fields));
    tokens.push_back(std::move(read));
  }
  return tokens;
}

Result<AddedToken> ReadAddedToken(const JsonFields& fields) {
  TC_ASSIGN_OR_RETURN(auto text, fields.RequireString("content"));
  TC_ASSIGN_OR_RETURN(const auto special, fields.Bool("special"));
  TC_ASSIGN_OR_RETURN(const auto lstrip, fields.Bool("lstrip"));
  TC_ASSIGN_OR_RETURN(const auto rstrip, fields.Bool("rstrip"));
  TC_ASSIGN_OR_RETURN(const auto single_word, fields.Bool("single_word"));
  if (single_word.value_or(false)) {
    LogWarning(
        "{}: {} has \"single_word\", which is left out: it is found inside "
        "of words too",
        fields.path(), Quote(text));
  }
  return AddedToken{std::move(text), fields.Find("id"), special.value_or(false),
                    lstrip.value_or(false), rstrip.value_or(false)};
}

void KeepStripping(const AddedToken& token, uint64_t id, VocabDraft& draft) {
  if (id >= draft.tokens.num_rows() || !draft.tokens.IsNamed(id)) return;
  const auto keep = [id](bool is_set, std::vector<text::TokenId>& ids) {
    const auto token_id = static_cast<text::TokenId>(id);
    if (is_set && std::ranges::find(ids, token_id) == ids.end()) {
      ids.push_back(token_id);
    }
  };
  keep(token.lstrip, draft.vocab.lstrip);
  keep(token.rstrip, draft.vocab.rstrip);
}

Result<VocabDraft> DraftOfTokenizerJson(const NamedText& tokenizer,
                                        uint64_t num_rows) {
  const std::string& path = tokenizer.path;
  TC_ASSIGN_OR_RETURN(const Json json, ParseJson(tokenizer.text, path));
  TC_ASSIGN_OR_RETURN(const auto whole, JsonFields::Of(json, path));
  const Json* model_json = whole.Find("model");
  if (model_json == nullptr) return whole.Wrong("model", "is missing");
  TC_ASSIGN_OR_RETURN(const auto model,
                      JsonFields::Of(*model_json, path + ": model"));
  TC_ASSIGN_OR_RETURN(const Kind kind, KindOf(model, whole));
  VocabDraft draft = {VocabBuilder(num_rows), {}, {}, {}};
  if (kind == Kind::kBytes) {
    TC_RETURN_IF_ERROR(ReadByteLevel(model, whole, draft));
  } else {
    TC_ASSIGN_OR_RETURN(const auto ignores, model.Bool("ignore_merges"));
    if (ignores.value_or(false)) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: \"ignore_merges\" of a vocabulary over characters is "
                  "not in this version",
                  path);
    }
    TC_RETURN_IF_ERROR(ReadSpmSteps(whole, draft.vocab));
    TC_RETURN_IF_ERROR(ReadTokens(model, whole, draft));
    TC_RETURN_IF_ERROR(CompleteCharVocab(model, draft));
  }
  ReadPostProcessor(whole.Find("post_processor"), draft);
  return draft;
}

}  // namespace thermocline::importer
