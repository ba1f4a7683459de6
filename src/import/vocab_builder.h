// Collects a vocabulary's tokens, which come by text, in any order.
#ifndef THERMOCLINE_IMPORT_VOCAB_BUILDER_H_
#define THERMOCLINE_IMPORT_VOCAB_BUILDER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "import/json.h"
#include "text/vocab.h"

namespace thermocline::importer {

// A file's text and its name for messages.
struct NamedText {
  std::string path;
  std::string text;
};

class VocabBuilder {
 public:
  // `num_rows` of the embedding: more tokens than that are an error.
  explicit VocabBuilder(uint64_t num_rows) : rows_(num_rows) {}

  // The same token again only changes type and score. kCorrupt, naming `path`
  // and the token: no text, no row for the id, another token with this id or
  // this text.
  Status Add(const std::string& path, const std::string& text, uint64_t id,
             text::TokenType type, float score = 0.0f);
  // The same for an id in JSON, which may be anything.
  Status AddWithJsonId(const std::string& path, const std::string& text,
                       const Json* id, text::TokenType type);
  // Takes the id's name away, if it has one.
  void Forget(uint64_t id);

  std::optional<text::TokenId> Find(std::string_view text) const;
  // Requires a token with this id.
  text::TokenType TypeOf(text::TokenId id) const;
  void SetType(text::TokenId id, text::TokenType type);
  void SetScore(text::TokenId id, float score);

  uint64_t num_rows() const { return rows_.size(); }
  // Requires a row for the id.
  bool IsNamed(uint64_t id) const { return !rows_[id].text.empty(); }
  // Every token that was added, by id.
  void ForEach(const std::function<void(text::TokenId id,
                                        const std::string& text)>& visit) const;

  // Sets tokens, types and, for SPM, scores. Rows that no token has are named
  // [PADn] and unused.
  void FinishInto(text::Vocab& vocab) const;

 private:
  struct Row {
    std::string text;  // empty: nobody's
    text::TokenType type = text::TokenType::kUnused;
    float score = 0.0f;
  };
  std::vector<Row> rows_;
  std::unordered_map<std::string, text::TokenId, KeyedHash, std::equal_to<>>
      ids_;
};

// A vocabulary as far as its own file tells.
struct VocabDraft {
  VocabBuilder tokens;
  // Everything but tokens, scores and types. Special tokens and flags are what
  // counts where the folder's other files say nothing.
  text::Vocab vocab;
  // The special tokens that the file puts around a text, if it says so.
  std::optional<text::TokenId> first, last;
  // The file takes a word that is a token whole ("ignore_merges"), the
  // pre-tokenizer that vocab names does not: CheckMergesMakeWords must pass.
  bool takes_whole_words = false;
};

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_VOCAB_BUILDER_H_
