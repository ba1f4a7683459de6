#include "text/tiktoken.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/keyed_hash.h"
#include "text/byte_text.h"
#include "text/merge_table.h"

namespace thermocline::text {
namespace {

struct Entry {
  std::string bytes;
  uint32_t rank;
};

int Base64Digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

// Padded base64, nothing else; nullopt if it is not.
std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t num_padding = text.ends_with("==") ? 2 : text.ends_with('=');
  text.remove_suffix(num_padding);
  std::string bytes;
  uint32_t buffer = 0;
  int num_bits = 0;
  for (const char c : text) {
    const int digit = Base64Digit(c);
    if (digit < 0) return std::nullopt;
    buffer = (buffer << 6 | static_cast<uint32_t>(digit)) & 0xffff;
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes.push_back(static_cast<char>(buffer >> num_bits));
    }
  }
  const bool has_stray_bits = (buffer & ((1u << num_bits) - 1)) != 0;
  if (has_stray_bits) return std::nullopt;
  return bytes;
}

std::optional<Entry> ParseLine(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::optional<std::string> bytes = DecodeBase64(line.substr(0, space));
  const std::string_view number = line.substr(space + 1);
  uint32_t rank = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), rank);
  if (!bytes || error != std::errc() || number.empty() ||
      end != number.data() + number.size()) {
    return std::nullopt;
  }
  return Entry{*std::move(bytes), rank};
}

std::string_view TakeLine(std::string_view* text) {
  const size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// The tokens' bytes by rank.
Result<std::vector<std::string>> ParseTokens(std::string_view file) {
  std::vector<Entry> entries;
  for (size_t line_number = 1; !file.empty(); ++line_number) {
    const std::string_view line = TakeLine(&file);
    if (line.empty()) continue;
    std::optional<Entry> entry = ParseLine(line);
    if (!entry) {
      return Fail(ErrorCode::kCorrupt,
                  "tiktoken table: line {} is not base64, space, rank",
                  line_number);
    }
    entries.push_back(*std::move(entry));
  }
  std::vector<std::string> tokens(entries.size());
  std::unordered_set<std::string_view, KeyedHash> seen;
  for (Entry& entry : entries) {
    if (entry.rank >= tokens.size() || !tokens[entry.rank].empty()) {
      return Fail(ErrorCode::kCorrupt,
                  "tiktoken table: rank {} is there twice, or beyond the {} "
                  "tokens (a truncated file?)",
                  entry.rank, tokens.size());
    }
    tokens[entry.rank] = std::move(entry.bytes);
    if (!seen.insert(tokens[entry.rank]).second) {
      return Fail(ErrorCode::kCorrupt,
                  "tiktoken table: rank {} has the bytes of another",
                  entry.rank);
    }
  }
  return tokens;
}

// Finds the merges of tokens that come in the order of their ranks.
class MergeFinder {
 public:
  using Pair = std::pair<uint32_t, uint32_t>;  // ranks of left and right

  explicit MergeFinder(const std::vector<std::string>& tokens)
      : tokens_(tokens) {
    for (uint32_t rank = 0; rank < tokens.size(); ++rank) {
      ranks_.emplace(tokens[rank], rank);
    }
  }

  std::optional<uint32_t> RankOf(std::string_view bytes) const {
    const auto found = ranks_.find(bytes);
    if (found == ranks_.end()) return std::nullopt;
    return found->second;
  }

  // That of a token of two bytes or more; nullopt: no merge makes it. Requires
  // a token for every byte.
  std::optional<Pair> Next(uint32_t rank) {
    const std::optional<Pair> pair = PairOf(rank);
    if (pair) merges_.Add(pair->first, pair->second, rank);
    return pair;
  }

 private:
  // Of longer tokens than any real one it is not looked for: that takes the
  // square of the length.
  static constexpr size_t kMostBytes = 512;

  // With the merges of all lower ranks in the table, what is left of a token's
  // bytes are the two sides of its own. Where more is left, tokens of higher
  // ranks come between: 678 of Llama 3's are made so.
  std::optional<Pair> PairOf(uint32_t rank) {
    symbols_.clear();
    for (const char& c : tokens_[rank]) symbols_.push_back(*RankOf({&c, 1}));
    merges_.Apply(&symbols_, &merger_);
    if (symbols_.size() == 2) return Pair{symbols_[0], symbols_[1]};
    if (tokens_[rank].size() > kMostBytes) return std::nullopt;
    return LastPair(tokens_[rank].size());
  }

  // Merges symbols_, which make up so many bytes, wherever the result is a
  // token, of any rank. The pair that makes the whole.
  std::optional<Pair> LastPair(size_t num_bytes) {
    std::optional<Pair> last;
    merger_.Run(&symbols_,
                [&](uint32_t, uint32_t left,
                    uint32_t right) -> std::optional<PairMerge> {
                  const std::string bytes = tokens_[left] + tokens_[right];
                  const auto rank = RankOf(bytes);
                  if (!rank) return std::nullopt;
                  if (bytes.size() == num_bytes) last = {left, right};
                  return PairMerge{*rank, *rank};
                });
    return last;
  }

  const std::vector<std::string>& tokens_;
  std::unordered_map<std::string_view, uint32_t, KeyedHash> ranks_;
  MergeTable merges_;
  PairMerger merger_;
  std::vector<MergeTable::Symbol> symbols_;
};

}  // namespace

Result<TiktokenTable> ParseTiktoken(std::string_view file) {
  TC_ASSIGN_OR_RETURN(const std::vector<std::string> tokens, ParseTokens(file));
  MergeFinder finder(tokens);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (!finder.RankOf({&c, 1})) {
      return Fail(ErrorCode::kCorrupt,
                  "tiktoken table: no token for byte {} (a truncated file?)",
                  byte);
    }
  }
  TiktokenTable table;
  for (const std::string& bytes : tokens) {
    table.tokens.push_back(BytesToText(bytes));
  }
  for (uint32_t rank = 0; rank < tokens.size(); ++rank) {
    if (tokens[rank].size() < 2) continue;
    if (const auto pair = finder.Next(rank)) {
      table.merges.push_back(table.tokens[pair->first] + " " +
                             table.tokens[pair->second]);
    }
  }
  return table;
}

}  // namespace thermocline::text
