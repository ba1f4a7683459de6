#include "import/hf_spm_json.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/quote.h"
#include "text/utf8.h"
#include "text/vocab_rules.h"

namespace thermocline::importer {
namespace {

using text::TokenId;
using text::TokenType;

constexpr std::string_view kSpace = "\u2581";
constexpr size_t kMaxPieceBytes = 256;  // longer ones are not looked into

// What the steps do to spaces.
struct SpaceRules {
  bool is_escaped = false;
  bool is_put_in_front = false;
  bool is_first_only = false;  // not behind special tokens
  bool has_idle_cutter = false;
};

tl::unexpected<Error> UnknownStep(const JsonFields& step,
                                  std::string_view type) {
  return Fail(ErrorCode::kUnsupported,
              "{}: a step {} with these settings is not known of a tokenizer "
              "made by SentencePiece",
              step.path(), Quote(type));
}

// {"String": " "} by U+2581.
bool ReplacesSpaces(const JsonFields& step) {
  const Json* pattern = step.Find("pattern");
  const Json* content = step.Find("content");
  return pattern != nullptr && content != nullptr && *content == kSpace &&
         *pattern == Json{{"String", " "}};
}

Status ReadNormalizer(const Json& json, const std::string& path,
                      SpaceRules& rules) {
  TC_ASSIGN_OR_RETURN(const auto step, JsonFields::Of(json, path));
  TC_ASSIGN_OR_RETURN(const auto type, step.RequireString("type"));
  if (type == "Sequence") {
    const Json* list = step.Find("normalizers");
    if (list == nullptr || !list->is_array()) {
      return step.Wrong("normalizers", "must be a list");
    }
    for (const Json& inner : *list) {
      TC_RETURN_IF_ERROR(ReadNormalizer(inner, path, rules));
    }
    return {};
  }
  if (type == "Prepend") {
    TC_ASSIGN_OR_RETURN(const auto prefix, step.RequireString("prepend"));
    if (prefix != kSpace) return UnknownStep(step, type);
    rules.is_put_in_front = true;
    return {};
  }
  if (type != "Replace" || !ReplacesSpaces(step)) {
    return UnknownStep(step, type);
  }
  rules.is_escaped = true;
  return {};
}

// At spaces, of which the normalizer has left none, whatever becomes of them;
// not between all that is none.
bool CutsNothing(const JsonFields& step, const SpaceRules& rules) {
  const Json* pattern = step.Find("pattern");
  const Json* inverts = step.Find("invert");
  if (inverts != nullptr && *inverts != false) return false;
  return rules.is_escaped && pattern != nullptr &&
         *pattern == Json{{"String", " "}};
}

Status ReadCutter(const Json& json, const std::string& path,
                  SpaceRules& rules) {
  TC_ASSIGN_OR_RETURN(const auto step, JsonFields::Of(json, path));
  TC_ASSIGN_OR_RETURN(const auto type, step.RequireString("type"));
  if (type == "Split" && CutsNothing(step, rules)) {
    rules.has_idle_cutter = true;
    return {};
  }
  if (type != "Metaspace") return UnknownStep(step, type);
  TC_ASSIGN_OR_RETURN(const auto replacement, step.String("replacement"));
  // Where it cuts at spaces too, runs of them cannot merge.
  TC_ASSIGN_OR_RETURN(const auto cuts, step.Bool("split"));
  if (replacement.value_or(std::string(kSpace)) != kSpace ||
      cuts.value_or(true)) {
    return UnknownStep(step, type);
  }
  TC_ASSIGN_OR_RETURN(const auto scheme, step.String("prepend_scheme"));
  TC_ASSIGN_OR_RETURN(const auto older, step.Bool("add_prefix_space"));
  rules.is_escaped = true;
  rules.is_put_in_front = scheme ? *scheme != "never" : older.value_or(true);
  rules.is_first_only = scheme == "first";
  return {};
}

bool IsOnlySpaces(std::string_view text) {
  while (text.starts_with(kSpace)) text.remove_prefix(kSpace.size());
  return text.empty();
}

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// The merges that make one token: ranks from first to last.
struct Span {
  TokenId result;
  size_t first;
  size_t last;
};

std::vector<Span> SpansOf(std::span<const Merge> merges) {
  std::vector<Span> spans;  // by first rank
  std::unordered_map<uint64_t, size_t, KeyedHash> index;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [entry, is_new] =
        index.emplace(static_cast<uint64_t>(merges[rank].result), spans.size());
    if (is_new) spans.push_back({merges[rank].result, rank, rank});
    spans[entry->second].last = rank;
  }
  return spans;
}

// Pairs of tokens that make another, but are not among the merges.
uint64_t CountMissing(std::span<const Merge> merges,
                      const VocabBuilder& tokens) {
  std::unordered_set<uint64_t, KeyedHash> pairs;
  for (const Merge& merge : merges) {
    pairs.insert(PairKey(merge.left, merge.right));
  }
  uint64_t num_missing = 0;
  tokens.ForEach([&](TokenId id, const std::string& text) {
    if (tokens.TypeOf(id) != TokenType::kNormal ||
        text.size() > kMaxPieceBytes) {
      return;
    }
    const std::string_view view = text;
    for (size_t at = text::Utf8CharLength(view); at > 0 && at < view.size();
         at += std::max<size_t>(text::Utf8CharLength(view.substr(at)), 1)) {
      const auto left = tokens.Find(view.substr(0, at));
      const auto right =
          left ? tokens.Find(view.substr(at)) : std::optional<TokenId>();
      if (right && !pairs.contains(PairKey(*left, *right))) ++num_missing;
    }
  });
  return num_missing;
}

}  // namespace

Status ReadSpmSteps(const JsonFields& tokenizer, text::Vocab& vocab) {
  SpaceRules rules;
  if (const Json* normalizer = tokenizer.Find("normalizer")) {
    TC_RETURN_IF_ERROR(
        ReadNormalizer(*normalizer, tokenizer.path() + ": normalizer", rules));
  }
  if (const Json* cutter = tokenizer.Find("pre_tokenizer")) {
    TC_RETURN_IF_ERROR(
        ReadCutter(*cutter, tokenizer.path() + ": pre_tokenizer", rules));
  }
  if (!rules.is_escaped) {
    return Fail(ErrorCode::kUnsupported,
                "{}: no step writes U+2581 for spaces, as SentencePiece's "
                "tokenizers do",
                tokenizer.path());
  }
  if (rules.has_idle_cutter && rules.is_put_in_front) {
    return Fail(ErrorCode::kUnsupported,
                "{}: steps that put U+2581 in front and cut at spaces are not "
                "known of a tokenizer together",
                tokenizer.path());
  }
  vocab.kind =
      rules.has_idle_cutter ? text::VocabKind::kCharBpe : text::VocabKind::kSpm;
  // As other converters write it: neither has one.
  vocab.pre = rules.has_idle_cutter ? "" : "default";
  vocab.add_space_prefix = rules.is_put_in_front;
  vocab.space_prefix_once = rules.is_first_only;
  return {};
}

Status CompleteCharVocab(const JsonFields& model, VocabDraft& draft) {
  VocabBuilder& tokens = draft.tokens;
  TC_ASSIGN_OR_RETURN(auto merges, ReadMerges(model, tokens));
  TC_ASSIGN_OR_RETURN(const auto unknown, model.String("unk_token"));
  draft.vocab.unk = unknown ? tokens.Find(*unknown) : std::nullopt;
  if (draft.vocab.unk) tokens.SetType(*draft.vocab.unk, TokenType::kUnknown);
  tokens.ForEach([&](TokenId id, const std::string& text) {
    if (tokens.TypeOf(id) == TokenType::kNormal && text::ParseByteToken(text)) {
      tokens.SetType(id, TokenType::kByte);
    } else if (tokens.TypeOf(id) == TokenType::kUserDefined) {
      tokens.SetScore(id, text::kAddedTokenScore);  // they part the text
    }
  });
  if (draft.vocab.kind == text::VocabKind::kCharBpe) {
    for (Merge& merge : merges) {
      draft.vocab.merges.push_back(std::move(merge.text));
    }
    return {};
  }
  const uint64_t num_inexact = SetScores(merges, tokens);
  if (num_inexact > 0) {
    LogWarning(
        "{}: the merges are not those of a SentencePiece model ({} differ): "
        "rare words may be cut otherwise than in training",
        model.path(), num_inexact);
  }
  return {};
}

uint64_t SetScores(std::span<const Merge> merges, VocabBuilder& tokens) {
  const std::vector<Span> spans = SpansOf(merges);
  uint64_t num_inexact = CountMissing(merges, tokens);
  float score = 1.0f;
  size_t end = 0;  // of the tokens with this score
  bool is_tied = false;
  for (size_t i = 0; i < spans.size(); ++i) {
    is_tied = i > 0 && spans[i].first < end;
    if (!is_tied) score -= 1.0f;
    end = std::max(end, spans[i].last + 1);
    tokens.SetScore(spans[i].result, score);
    const auto& text = merges[spans[i].first].text;
    if (is_tied && !IsOnlySpaces(std::string(text).erase(text.find(' '), 1))) {
      ++num_inexact;
    }
  }
  std::vector<bool> is_made(tokens.num_rows());
  for (const Span& span : spans)
    is_made[static_cast<size_t>(span.result)] = true;
  tokens.ForEach([&](TokenId id, const std::string&) {
    if (!is_made[static_cast<size_t>(id)] &&
        tokens.TypeOf(id) == TokenType::kNormal) {
      tokens.SetScore(id, score - 1.0f);
    }
  });
  return num_inexact;
}

}  // namespace thermocline::importer
