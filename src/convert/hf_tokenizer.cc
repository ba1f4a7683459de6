#include "convert/hf_tokenizer.h"

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>

#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/quote.h"
#include "convert/hf_pretokenizer.h"
#include "convert/json.h"
#include "text/tokenizer.h"

namespace thermocline::convert {
namespace {

using text::TokenId;
using text::TokenType;
using text::Vocab;

constexpr size_t kMaxTemplateNameBytes = 1024;  // it becomes part of a key

tl::unexpected<Error> Unsupported(const std::string& path,
                                  std::string_view what) {
  return Fail(ErrorCode::kUnsupported,
              "{}: {} (only byte-level BPE is in this "
              "version)",
              path, what);
}

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
    return Unsupported(path, "unknown normalizer " + Quote(type));
  }
  for (const Json& step : *list) {
    TC_RETURN_IF_ERROR(CheckNormalizer(&step, path));
  }
  return {};
}

// The model must be BPE over bytes, and nothing else.
Status CheckModel(const JsonFields& model, const JsonFields& whole) {
  TC_ASSIGN_OR_RETURN(const auto type, model.RequireString("type"));
  if (type != "BPE") {
    return Unsupported(whole.path(), "the tokenizer is " + Quote(type));
  }
  TC_ASSIGN_OR_RETURN(const auto by_byte_tokens, model.Bool("byte_fallback"));
  if (by_byte_tokens.value_or(false) ||
      !HasStep(whole.Find("pre_tokenizer"), "ByteLevel", "pretokenizers") ||
      !HasStep(whole.Find("decoder"), "ByteLevel", "decoders")) {
    return Unsupported(whole.path(),
                       "the tokenizer is BPE over characters, as "
                       "SentencePiece makes it");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    TC_ASSIGN_OR_RETURN(const auto affix, model.String(key));
    if (affix && !affix->empty()) {
      return Unsupported(whole.path(),
                         fmt::format("key \"{}\" is {}", key, Quote(*affix)));
    }
  }
  return CheckNormalizer(whole.Find("normalizer"), whole.path());
}

// Collects tokens by id.
class VocabBuilder {
 public:
  VocabBuilder(uint64_t num_rows, const std::string& path)
      : path_(path), tokens_(num_rows), types_(num_rows, TokenType::kUnused) {}

  // An added token may repeat, and retype, one of the model.
  Status Add(const std::string& text, const Json* id, TokenType type) {
    if (id == nullptr || !id->is_number_unsigned()) {
      return Fail(ErrorCode::kCorrupt, "{}: token {} has no id", path_,
                  Quote(text));
    }
    const uint64_t row = id->get<uint64_t>();
    if (row >= tokens_.size()) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: token {} has the id {}, but the embedding has {} rows",
                  path_, Quote(text), row, tokens_.size());
    }
    const auto [known, is_new] = ids_.emplace(text, static_cast<TokenId>(row));
    const bool is_taken = types_[row] != TokenType::kUnused;
    if (is_new ? is_taken : static_cast<uint64_t>(known->second) != row) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: id {} and token {} do not belong to each other alone",
                  path_, row, Quote(text));
    }
    tokens_[row] = text;
    types_[row] = type;
    return {};
  }

  std::optional<TokenId> Find(const std::string& text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  void FinishInto(Vocab& vocab) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (types_[i] == TokenType::kUnused)
        tokens_[i] = fmt::format("[PAD{}]", i);
    }
    vocab.tokens = std::move(tokens_);
    vocab.types = std::move(types_);
  }

 private:
  std::string path_;
  std::vector<std::string> tokens_;
  std::vector<TokenType> types_;
  std::unordered_map<std::string, TokenId, KeyedHash, std::equal_to<>> ids_;
};

Status ReadTokens(const JsonFields& model, const JsonFields& whole,
                  VocabBuilder& builder) {
  const Json* vocab = model.Find("vocab");
  if (vocab == nullptr || !vocab->is_object()) {
    return model.Wrong("vocab", "must be an object");
  }
  for (const auto& [text, id] : vocab->items()) {
    TC_RETURN_IF_ERROR(builder.Add(text, &id, TokenType::kNormal));
  }
  const Json* added = whole.Find("added_tokens");
  if (added == nullptr) return {};
  if (!added->is_array()) return whole.Wrong("added_tokens", "must be a list");
  for (const Json& token : *added) {
    TC_ASSIGN_OR_RETURN(const auto fields,
                        JsonFields::Of(token, whole.path() + ": added_tokens"));
    TC_ASSIGN_OR_RETURN(const auto text, fields.RequireString("content"));
    TC_ASSIGN_OR_RETURN(const auto special, fields.Bool("special"));
    TC_RETURN_IF_ERROR(builder.Add(text, fields.Find("id"),
                                   special.value_or(false)
                                       ? TokenType::kControl
                                       : TokenType::kUserDefined));
  }
  return {};
}

// "left right", or ["left", "right"] in newer files. The byte alphabet has no
// space, so one space parts the two.
Result<std::string> ReadMerge(const Json& merge, const JsonFields& model,
                              const VocabBuilder& builder) {
  std::string joined;
  if (const auto* text = merge.get_ptr<const Json::string_t*>()) {
    joined = *text;
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    joined = merge[0].get_ref<const std::string&>() + " " +
             merge[1].get_ref<const std::string&>();
  }
  const size_t space = joined.find(' ');
  if (space == 0 || space + 1 >= joined.size() ||
      joined.find(' ', space + 1) != std::string::npos) {
    return model.Wrong("merges", fmt::format("has {}, which is not a pair",
                                             Quote(merge.dump())));
  }
  const std::string left = joined.substr(0, space);
  const std::string right = joined.substr(space + 1);
  for (const std::string& text : {left, right, left + right}) {
    if (builder.Find(text)) continue;
    return model.Wrong("merges", fmt::format("has {}, but {} is no token",
                                             Quote(joined), Quote(text)));
  }
  return joined;
}

Status ReadMerges(const JsonFields& model, const VocabBuilder& builder,
                  Vocab& vocab) {
  const Json* merges = model.Find("merges");
  if (merges == nullptr || !merges->is_array()) {
    return model.Wrong("merges", "must be a list");
  }
  for (const Json& merge : *merges) {
    TC_ASSIGN_OR_RETURN(auto joined, ReadMerge(merge, model, builder));
    vocab.merges.push_back(std::move(joined));
  }
  return {};
}

// A token by its text, given as a string or as an object with "content".
Result<std::optional<TokenId>> ReadSpecial(const JsonFields& config,
                                           const char* key,
                                           const VocabBuilder& builder) {
  const Json* value = config.Find(key);
  if (value == nullptr) return std::nullopt;
  std::string text;
  if (value->is_object()) {
    TC_ASSIGN_OR_RETURN(const auto fields,
                        JsonFields::Of(*value, config.path()));
    TC_ASSIGN_OR_RETURN(text, fields.RequireString("content"));
  } else {
    TC_ASSIGN_OR_RETURN(text, config.RequireString(key));
  }
  const auto id = builder.Find(text);
  if (!id) {
    return config.Wrong(key,
                        fmt::format("is {}, which is no token", Quote(text)));
  }
  return id;
}

// The special tokens that the post-processor puts around a text.
struct Frame {
  std::optional<TokenId> first, last;
};

void ReadTemplate(const Json& processor, const VocabBuilder& builder,
                  Frame& frame) {
  const auto list = processor.find("single");
  if (list == processor.end() || !list->is_array() || list->empty()) return;
  const auto special_at = [&](const Json& item) -> std::optional<TokenId> {
    if (!item.is_object() || !item.contains("SpecialToken")) {
      return std::nullopt;
    }
    const Json& special = item["SpecialToken"];
    if (!special.is_object() || !special.contains("id") ||
        !special["id"].is_string()) {
      return std::nullopt;
    }
    return builder.Find(special["id"].get<std::string>());
  };
  frame.first = special_at(list->front());
  frame.last = special_at(list->back());
}

void ReadPostProcessor(const Json* json, const VocabBuilder& builder,
                       Frame& frame) {
  if (json == nullptr || !json->is_object()) return;
  ReadTemplate(*json, builder, frame);
  const auto list = json->find("processors");
  if (list == json->end() || !list->is_array()) return;
  for (const Json& inner : *list) ReadPostProcessor(&inner, builder, frame);
}

Status ReadSpecials(const TokenizerSources& sources, const Json& config_json,
                    const Frame& frame, const VocabBuilder& builder,
                    Vocab& vocab) {
  const std::string path =
      sources.config ? sources.config->path : sources.tokenizer.path;
  TC_ASSIGN_OR_RETURN(const auto config, JsonFields::Of(config_json, path));
  TC_ASSIGN_OR_RETURN(vocab.bos, ReadSpecial(config, "bos_token", builder));
  TC_ASSIGN_OR_RETURN(vocab.eos, ReadSpecial(config, "eos_token", builder));
  TC_ASSIGN_OR_RETURN(vocab.unk, ReadSpecial(config, "unk_token", builder));
  TC_ASSIGN_OR_RETURN(vocab.pad, ReadSpecial(config, "pad_token", builder));
  for (const auto& [id, slot] : {std::pair(sources.bos_id, &vocab.bos),
                                 std::pair(sources.eos_id, &vocab.eos)}) {
    if (slot->has_value() || !id) continue;
    if (static_cast<uint64_t>(*id) < sources.num_rows) {
      *slot = static_cast<TokenId>(*id);
    } else {
      LogWarning("{}: special token {} is outside of the vocabulary: ignored",
                 path, *id);
    }
  }
  TC_ASSIGN_OR_RETURN(const auto add_bos, config.Bool("add_bos_token"));
  TC_ASSIGN_OR_RETURN(const auto add_eos, config.Bool("add_eos_token"));
  vocab.add_bos = vocab.bos && add_bos.value_or(frame.first == vocab.bos);
  vocab.add_eos = vocab.eos && add_eos.value_or(frame.last == vocab.eos);
  return {};
}

// One template, or a list of named ones.
Status ReadChatTemplates(const Json& config_json, const std::string& path,
                         HfTokenizer& tokenizer) {
  const auto found = config_json.find("chat_template");
  if (found == config_json.end() || found->is_null()) return {};
  if (found->is_string()) {
    tokenizer.chat_templates.emplace_back("default", found->get<std::string>());
    return {};
  }
  if (!found->is_array()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: key \"chat_template\" must be a text or a list of named "
                "texts",
                path);
  }
  std::set<std::string> names;
  for (const Json& entry : *found) {
    TC_ASSIGN_OR_RETURN(const auto fields,
                        JsonFields::Of(entry, path + ": chat_template"));
    TC_ASSIGN_OR_RETURN(auto name, fields.RequireString("name"));
    TC_ASSIGN_OR_RETURN(auto text, fields.RequireString("template"));
    if (name.size() > kMaxTemplateNameBytes) {
      return fields.Wrong("name",
                          fmt::format("has {} bytes; at most {} are possible",
                                      name.size(), kMaxTemplateNameBytes));
    }
    if (!names.insert(name).second) {
      return fields.Wrong("name",
                          fmt::format("is {} in two templates", Quote(name)));
    }
    const bool is_default = name == "default";
    auto& list = tokenizer.chat_templates;
    list.emplace(is_default ? list.begin() : list.end(), std::move(name),
                 std::move(text));
  }
  return {};
}

// A word that is a token is taken whole, or only where merges lead to it.
Status CheckIgnoreMerges(const JsonFields& model, const std::string& pre,
                         const std::string& path) {
  TC_ASSIGN_OR_RETURN(const auto ignores, model.Bool("ignore_merges"));
  if (!ignores.value_or(false) || pre == "llama3") return {};
  return Unsupported(
      path, fmt::format("\"ignore_merges\" with the pre-tokenizer {}", pre));
}

}  // namespace

Result<HfTokenizer> ParseHfTokenizer(const TokenizerSources& sources) {
  const std::string& path = sources.tokenizer.path;
  TC_ASSIGN_OR_RETURN(const Json json, ParseJson(sources.tokenizer.text, path));
  TC_ASSIGN_OR_RETURN(const auto whole, JsonFields::Of(json, path));
  const Json* model_json = whole.Find("model");
  if (model_json == nullptr) return whole.Wrong("model", "is missing");
  TC_ASSIGN_OR_RETURN(const auto model,
                      JsonFields::Of(*model_json, path + ": model"));
  TC_RETURN_IF_ERROR(CheckModel(model, whole));

  HfTokenizer tokenizer;
  Vocab& vocab = tokenizer.vocab;
  vocab.kind = text::VocabKind::kBpe;
  TC_ASSIGN_OR_RETURN(vocab.pre,
                      NameOfPreTokenizer(whole.Find("pre_tokenizer"), path));
  TC_RETURN_IF_ERROR(CheckIgnoreMerges(model, vocab.pre, path));
  VocabBuilder builder(sources.num_rows, path);
  TC_RETURN_IF_ERROR(ReadTokens(model, whole, builder));
  TC_RETURN_IF_ERROR(ReadMerges(model, builder, vocab));

  Json config = Json::object();
  if (sources.config) {
    TC_ASSIGN_OR_RETURN(config,
                        ParseJson(sources.config->text, sources.config->path));
  }
  Frame frame;
  ReadPostProcessor(whole.Find("post_processor"), builder, frame);
  TC_RETURN_IF_ERROR(ReadSpecials(sources, config, frame, builder, vocab));
  TC_RETURN_IF_ERROR(ReadChatTemplates(
      config, sources.config ? sources.config->path : path, tokenizer));
  builder.FinishInto(vocab);
  if (const auto checked = text::Tokenizer::Create(vocab); !checked) {
    return Annotate(path, checked.error());
  }
  return tokenizer;
}

}  // namespace thermocline::convert
