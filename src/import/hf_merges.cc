#include "import/hf_merges.h"

#include <string_view>
#include <utility>

#include "base/quote.h"
#include "text/byte_text.h"
#include "text/pretokenizer.h"

namespace thermocline::importer {
namespace {

using text::TokenType;

struct PreOfArchitecture {
  std::string_view architecture;
  const char* pre;
};
constexpr PreOfArchitecture kPres[] = {{"opt", "gpt-2"}, {"qwen2", "qwen2"}};

constexpr text::EncodeOptions kPlainText = {.add_special = false,
                                            .parse_special = false};

// Tokens may hold spaces themselves, but not without end.
constexpr int kMaxSpaces = 64;

// OPT's tokens that mean something, where no other file of the folder says so.
constexpr const char* kOptSpecials[] = {"<s>", "<pad>", "</s>", "<unk>"};

Result<const char*> PreOf(const std::string& architecture,
                          const std::string& path) {
  for (const auto& known : kPres) {
    if (known.architecture == architecture) return known.pre;
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: which pre-tokenizer goes with vocab.json and merges.txt is "
              "not known for the architecture {}; tokenizer.json is needed",
              path, Quote(architecture));
}

Status ReadVocabJson(const NamedText& vocab, VocabBuilder& tokens) {
  TC_ASSIGN_OR_RETURN(const Json json, ParseJson(vocab.text, vocab.path));
  TC_RETURN_IF_ERROR(JsonFields::Of(json, vocab.path));
  for (const auto& [text, id] : json.items()) {
    TC_RETURN_IF_ERROR(
        tokens.AddWithJsonId(vocab.path, text, &id, TokenType::kNormal));
  }
  return {};
}

Status ReadMergesTxt(const NamedText& merges, VocabDraft& draft) {
  std::string_view rest = merges.text;
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    std::string line(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    auto merge = FindMerge(line, draft.tokens);
    if (!merge) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: line {}, {}, is not two tokens that make a third",
                  merges.path, number, Quote(line));
    }
    draft.vocab.merges.push_back(std::move(merge->text));
  }
  return {};
}

Result<std::string> JoinedMerge(const Json& merge, const JsonFields& model) {
  if (const auto* text = merge.get_ptr<const Json::string_t*>()) return *text;
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
      merge[1].is_string()) {
    return merge[0].get_ref<const std::string&>() + " " +
           merge[1].get_ref<const std::string&>();
  }
  return model.Wrong("merges", fmt::format("has {}, which is not a pair",
                                           Quote(merge.dump())));
}

}  // namespace

std::optional<Merge> FindMerge(std::string joined, const VocabBuilder& tokens) {
  size_t space = joined.find(' ', 1);
  for (int tries = 0; tries < kMaxSpaces && space != std::string::npos;
       ++tries, space = joined.find(' ', space + 1)) {
    const std::string_view left = std::string_view(joined).substr(0, space);
    const std::string_view right = std::string_view(joined).substr(space + 1);
    const auto left_id = tokens.Find(left);
    const auto right_id = left_id ? tokens.Find(right) : std::nullopt;
    const auto result =
        right_id ? tokens.Find(std::string(left).append(right)) : std::nullopt;
    if (result) return Merge{std::move(joined), *left_id, *right_id, *result};
  }
  return std::nullopt;
}

Result<std::vector<Merge>> ReadMerges(const JsonFields& model,
                                      const VocabBuilder& tokens) {
  const Json* list = model.Find("merges");
  if (list == nullptr || !list->is_array()) {
    return model.Wrong("merges", "must be a list");
  }
  std::vector<Merge> merges;
  merges.reserve(list->size());
  for (const Json& entry : *list) {
    TC_ASSIGN_OR_RETURN(const std::string joined, JoinedMerge(entry, model));
    auto merge = FindMerge(joined, tokens);
    if (!merge) {
      return model.Wrong("merges",
                         fmt::format("has {}, which is not two tokens that "
                                     "make a third",
                                     Quote(joined)));
    }
    merges.push_back(*std::move(merge));
  }
  return merges;
}

Status CheckMergesMakeWords(const text::Tokenizer& tokenizer,
                            const std::string& path) {
  const text::Vocab& vocab = tokenizer.vocab();
  TC_ASSIGN_OR_RETURN(const auto rules, text::PreTokenizer::Create(vocab.pre));
  for (text::TokenId id = 0; id < tokenizer.num_tokens(); ++id) {
    const auto i = static_cast<size_t>(id);
    if (vocab.types[i] != TokenType::kNormal) continue;
    const auto bytes = text::TextToBytes(vocab.tokens[i]);
    if (!bytes) continue;  // no text becomes it
    TC_ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode(*bytes, kPlainText));
    if (ids.size() == 1 && ids[0] == id) continue;
    size_t num_words = 0;
    TC_RETURN_IF_ERROR(rules.ForEachWord(
        *bytes, [&](std::string_view /*word*/) { ++num_words; }));
    if (num_words > 1) continue;
    return Fail(
        ErrorCode::kUnsupported,
        "{}: \"ignore_merges\" with the pre-tokenizer {} is not in this "
        "version: it matters for token {}, {}, which the merges do not "
        "make",
        path, vocab.pre, id, Quote(vocab.tokens[i]));
  }
  return {};
}

Result<VocabDraft> DraftOfMergesTxt(const NamedText& vocab,
                                    const NamedText& merges,
                                    const std::string& architecture,
                                    uint64_t num_rows) {
  VocabDraft draft = {VocabBuilder(num_rows), {}, {}, {}};
  draft.vocab.kind = text::VocabKind::kBpe;
  TC_ASSIGN_OR_RETURN(draft.vocab.pre, PreOf(architecture, merges.path));
  TC_RETURN_IF_ERROR(ReadVocabJson(vocab, draft.tokens));
  TC_RETURN_IF_ERROR(ReadMergesTxt(merges, draft));
  if (architecture != "opt") return draft;
  for (const char* text : kOptSpecials) {
    const auto id = draft.tokens.Find(text);
    if (id) draft.tokens.SetType(*id, TokenType::kControl);
  }
  draft.vocab.bos = draft.vocab.eos = draft.tokens.Find("</s>");
  draft.vocab.add_bos = true;
  return draft;
}

}  // namespace thermocline::importer
