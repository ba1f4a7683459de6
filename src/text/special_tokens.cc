#include "text/special_tokens.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/check.h"
#include "base/units.h"

namespace thermocline::text {
namespace {

// Several times what real vocabularies have. The automaton takes up to 64 times
// this.
constexpr size_t kMaxTokenTextBytes = kMiB;

}  // namespace

Result<SpecialTokenFinder> SpecialTokenFinder::Create(
    const std::vector<std::string>& texts, const std::vector<TokenId>& tokens) {
  SpecialTokenFinder finder;
  size_t num_bytes = 0;
  for (const TokenId token : tokens) {
    const std::string& text = texts[static_cast<size_t>(token)];
    num_bytes += text.size();
    if (num_bytes > kMaxTokenTextBytes) {
      return Fail(ErrorCode::kUnsupported,
                  "the vocabulary has more than {} of control and user-defined "
                  "tokens (token {} is {} long)",
                  FormatBytes(kMaxTokenTextBytes), token,
                  FormatBytes(text.size()));
    }
    if (!text.empty()) finder.Insert(text, token);
  }
  finder.LinkFallbacks();
  return finder;
}

void SpecialTokenFinder::Insert(std::string_view text, TokenId token) {
  Node node = 0;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    Node child = Child(node, byte);
    if (child == 0) {
      child = static_cast<Node>(nodes_.size());
      nodes_.push_back({nodes_[node].length + 1});
      if (node == 0) {
        first_[byte] = child;
      } else {
        children_[uint64_t{node} << 8 | byte] = child;
      }
    }
    node = child;
  }
  if (nodes_[node].token < 0) nodes_[node].token = token;
}

void SpecialTokenFinder::LinkFallbacks() {
  // A fallback is shorter than its node, so nodes are linked by length.
  struct Edge {
    Node parent, child;
    uint8_t byte;
  };
  std::vector<Edge> edges;
  edges.reserve(nodes_.size());
  for (size_t byte = 0; byte < first_.size(); ++byte) {
    if (first_[byte] != 0) {
      edges.push_back({0, first_[byte], static_cast<uint8_t>(byte)});
    }
  }
  for (const auto& [key, child] : children_) {
    edges.push_back(
        {static_cast<Node>(key >> 8), child, static_cast<uint8_t>(key)});
  }
  std::sort(edges.begin(), edges.end(), [this](const Edge& a, const Edge& b) {
    return nodes_[a.child].length < nodes_[b.child].length;
  });
  for (const Edge& edge : edges) {
    NodeData& node = nodes_[edge.child];
    if (edge.parent != 0) {
      node.fallback = Step(nodes_[edge.parent].fallback, edge.byte);
    }
    node.longest = node.token >= 0 ? edge.child : nodes_[node.fallback].longest;
  }
}

SpecialTokenFinder::Node SpecialTokenFinder::Child(Node node,
                                                   uint8_t byte) const {
  if (node == 0) return first_[byte];
  const auto child = children_.find(uint64_t{node} << 8 | byte);
  return child == children_.end() ? 0 : child->second;
}

SpecialTokenFinder::Node SpecialTokenFinder::Step(Node node,
                                                  uint8_t byte) const {
  while (true) {
    const Node child = Child(node, byte);
    if (child != 0 || node == 0) return child;
    node = nodes_[node].fallback;
  }
}

std::vector<SpecialTokenFinder::Hit> SpecialTokenFinder::Scan(
    std::string_view text) const {
  std::vector<Hit> hits;
  Node node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    node = Step(node, static_cast<uint8_t>(text[i]));
    if (nodes_[node].longest != 0) {
      hits.push_back({static_cast<uint32_t>(i + 1), nodes_[node].longest});
    }
  }
  return hits;
}

std::vector<SpecialMatch> SpecialTokenFinder::Find(
    std::string_view text) const {
  TC_CHECK(text.size() <= UINT32_MAX);
  std::vector<SpecialMatch> matches;
  std::vector<Hit> hits = Scan(text);
  if (hits.empty()) return matches;
  std::vector<bool> taken(text.size());
  // One round per length, longest first. What is taken so far is at least as
  // long, so it overlaps a hit only if it covers one of the hit's ends.
  while (!hits.empty()) {
    uint32_t length = 0;
    for (const Hit& hit : hits) {
      length = std::max(length, nodes_[hit.node].length);
    }
    size_t num_kept = 0;
    for (Hit hit : hits) {
      if (nodes_[hit.node].length == length) {
        const uint32_t begin = hit.end - length;
        if (!taken[begin] && !taken[hit.end - 1]) {
          matches.push_back({begin, hit.end, nodes_[hit.node].token});
          std::fill(taken.begin() + begin, taken.begin() + hit.end, true);
        }
        hit.node = nodes_[nodes_[hit.node].fallback].longest;
      }
      if (hit.node != 0 && !taken[hit.end - 1]) hits[num_kept++] = hit;
    }
    hits.resize(num_kept);
  }
  std::sort(matches.begin(), matches.end(),
            [](const SpecialMatch& a, const SpecialMatch& b) {
              return a.begin < b.begin;
            });
  return matches;
}

}  // namespace thermocline::text
