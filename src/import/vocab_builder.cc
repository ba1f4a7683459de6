#include "import/vocab_builder.h"

#include "base/quote.h"

namespace thermocline::importer {
namespace {

using text::TokenId;
using text::TokenType;

// What other converters write.
constexpr float kUnusedScore = -10000.0f;

}  // namespace

Status VocabBuilder::Add(const std::string& path, const std::string& text,
                         uint64_t id, TokenType type, float score) {
  if (id >= rows_.size()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: token {} has the id {}, but the embedding has {} rows",
                path, Quote(text), id, rows_.size());
  }
  if (text.empty()) {
    return Fail(ErrorCode::kCorrupt, "{}: the token with id {} has no text",
                path, id);
  }
  const auto [known, is_new] = ids_.emplace(text, static_cast<TokenId>(id));
  const bool is_taken = !rows_[id].text.empty();
  if (is_new ? is_taken : static_cast<uint64_t>(known->second) != id) {
    return Fail(ErrorCode::kCorrupt,
                "{}: id {} and token {} do not belong to each other alone",
                path, id, Quote(text));
  }
  rows_[id] = {text, type, score};
  return {};
}

Status VocabBuilder::AddWithJsonId(const std::string& path,
                                   const std::string& text, const Json* id,
                                   TokenType type) {
  if (id == nullptr || !id->is_number_unsigned()) {
    return Fail(ErrorCode::kCorrupt, "{}: token {} has no id", path,
                Quote(text));
  }
  return Add(path, text, id->get<uint64_t>(), type);
}

void VocabBuilder::Forget(uint64_t id) {
  if (id >= rows_.size()) return;
  ids_.erase(rows_[id].text);
  rows_[id] = {};
}

std::optional<TokenId> VocabBuilder::Find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

TokenType VocabBuilder::TypeOf(TokenId id) const {
  return rows_[static_cast<size_t>(id)].type;
}

void VocabBuilder::SetType(TokenId id, TokenType type) {
  rows_[static_cast<size_t>(id)].type = type;
}

void VocabBuilder::SetScore(TokenId id, float score) {
  rows_[static_cast<size_t>(id)].score = score;
}

void VocabBuilder::ForEach(
    const std::function<void(TokenId id, const std::string& text)>& visit)
    const {
  for (size_t id = 0; id < rows_.size(); ++id) {
    if (!rows_[id].text.empty()) {
      visit(static_cast<TokenId>(id), rows_[id].text);
    }
  }
}

void VocabBuilder::FinishInto(text::Vocab& vocab) const {
  vocab.tokens.clear();
  vocab.types.clear();
  vocab.scores.clear();
  for (size_t id = 0; id < rows_.size(); ++id) {
    const Row& row = rows_[id];
    const bool is_used = !row.text.empty();
    vocab.tokens.push_back(is_used ? row.text : fmt::format("[PAD{}]", id));
    vocab.types.push_back(row.type);
    if (vocab.kind == text::VocabKind::kSpm) {
      vocab.scores.push_back(is_used ? row.score : kUnusedScore);
    }
  }
}

}  // namespace thermocline::importer
