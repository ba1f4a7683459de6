// Finds tokens that are written out in text, before any other tokenisation.
#ifndef THERMOCLINE_TEXT_SPECIAL_TOKENS_H_
#define THERMOCLINE_TEXT_SPECIAL_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "text/vocab.h"

namespace thermocline::text {

struct SpecialMatch {
  uint32_t begin, end;  // byte offsets
  TokenId token;
};

// An Aho-Corasick automaton over the tokens' texts. Immutable after Create, so
// safe from any number of threads.
class SpecialTokenFinder {
 public:
  // `tokens` are ids into `texts`; empty texts never match, and of equal texts
  // the first counts. kUnsupported: more than 1 MiB of text in all, which no
  // real vocabulary has.
  static Result<SpecialTokenFinder> Create(
      const std::vector<std::string>& texts,
      const std::vector<TokenId>& tokens);

  // The matches in order, none overlapping. Where they would, the longest token
  // wins wherever it is, then the leftmost. Linear in the text for a given
  // vocabulary. Requires text.size() < 2^32.
  std::vector<SpecialMatch> Find(std::string_view text) const;

 private:
  using Node = uint32_t;  // index into nodes_; 0 is the root
  struct NodeData {
    uint32_t length;     // of the text that leads here
    Node fallback = 0;   // the longest proper suffix of that text
    Node longest = 0;    // the longest suffix (or all) that is a token; 0: none
    TokenId token = -1;  // which one this is
  };
  struct Hit {  // some token ends here
    uint32_t end;
    Node node;
  };

  void Insert(std::string_view text, TokenId token);
  void LinkFallbacks();
  Node Child(Node node, uint8_t byte) const;  // 0: none
  Node Step(Node node, uint8_t byte) const;
  std::vector<Hit> Scan(std::string_view text) const;

  std::array<Node, 256> first_ = {};  // the root's children
  std::unordered_map<uint64_t, Node, KeyedHash> children_;  // node * 256 + byte
  std::vector<NodeData> nodes_ = {NodeData{0}};
};

}  // namespace thermocline::text

#endif  // THERMOCLINE_TEXT_SPECIAL_TOKENS_H_
