#include "text/jinja_scan.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "text/utf8.h"

namespace thermocline::text {
namespace {

constexpr std::string_view kPromptVariable = "add_generation_prompt";

std::string_view TrimBoth(std::string_view text) {
  return WithoutTrailingSpace(SkipWhiteSpace(text));
}

// A tag: where it begins and ends, signs and braces included.
struct Tag {
  size_t begin, end;
  char brace;  // the second one: {, % or #
};

// Where the closing braces of a tag that is open from `at` on begin; strings
// are passed over. npos: nowhere.
size_t FindClose(std::string_view jinja, size_t at, std::string_view close) {
  if (close == "#}") return jinja.find(close, at);
  char quote = 0;
  for (; at < jinja.size(); ++at) {
    const char c = jinja[at];
    if (quote != 0 && c == '\\') {
      ++at;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (jinja.substr(at).starts_with(close)) {
      return at;
    }
  }
  return std::string_view::npos;
}

std::optional<Tag> NextTag(std::string_view jinja, size_t from) {
  for (size_t at = jinja.find('{', from); at != std::string_view::npos;
       at = jinja.find('{', at + 1)) {
    if (at + 1 >= jinja.size()) return std::nullopt;
    const char brace = jinja[at + 1];
    if (brace != '{' && brace != '%' && brace != '#') continue;
    const char close[] = {brace == '{' ? '}' : brace, '}', '\0'};
    const size_t end = FindClose(jinja, at + 2, close);
    if (end == std::string_view::npos) return std::nullopt;
    return Tag{at, end + 2, brace};
  }
  return std::nullopt;
}

// Text in front of a tag.
std::string_view CutBefore(std::string_view text, char sign, bool is_block,
                           bool begins_line) {
  if (sign == '-') return WithoutTrailingSpace(text);
  if (!is_block || sign == '+') return text;
  const size_t last = text.find_last_not_of(" \t");
  if (last == std::string_view::npos) return begins_line ? "" : text;
  return text[last] == '\n' ? text.substr(0, last + 1) : text;
}

// Text behind a tag.
std::string_view CutBehind(std::string_view text, char sign, bool is_block) {
  if (sign == '-') return SkipWhiteSpace(text);
  if (is_block && sign != '+' && text.starts_with('\n')) text.remove_prefix(1);
  return text;
}

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

// The word that `text` begins with; it moves behind it and the space there.
std::string_view TakeWord(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, IsWord);
  const auto word = text.substr(0, static_cast<size_t>(end - text.begin()));
  text = SkipWhiteSpace(text.substr(word.size()));
  return word;
}

std::string_view FirstWord(std::string_view text) { return TakeWord(text); }

// Whether a condition is true where a prompt for an answer is wanted.
bool AsksForPrompt(std::string_view condition) {
  const size_t at = condition.find(kPromptVariable);
  return at != std::string_view::npos &&
         !WithoutTrailingSpace(condition.substr(0, at)).ends_with("not");
}

// "x is defined", and more that must be true too.
bool AsksWhetherDefined(std::string_view condition) {
  const bool has_name = !TakeWord(condition).empty();
  return has_name && TakeWord(condition) == "is" &&
         TakeWord(condition) == "defined" &&
         (condition.empty() || FirstWord(condition) == "and");
}

// Reads one branch of an if, and what is in it.
class BranchReader {
 public:
  explicit BranchReader(std::span<const JinjaNode> nodes) : nodes_(nodes) {}

  // The text of the branch that begins at node `at`, up to its end.
  std::optional<std::string> Read(size_t at) {
    at_ = at;
    if (!ReadOn(/*is_taken=*/true)) return std::nullopt;
    return text_;
  }

 private:
  // Up to the else or end of this branch, where at_ then is. False: what is
  // written depends on more than literals.
  bool ReadOn(bool is_taken) {
    for (; at_ < nodes_.size(); ++at_) {
      const JinjaNode& node = nodes_[at_];
      if (node.kind == JinjaKind::kText) {
        if (is_taken) text_ += node.text;
      } else if (node.kind == JinjaKind::kExpression) {
        const auto literal = LiteralOf(node.text);
        if (is_taken && !literal) return false;
        if (is_taken) text_ += *literal;
      } else if (IsEnd(FirstWord(node.text))) {
        return true;
      } else if (!ReadStatement(node.text, is_taken)) {
        return false;
      }
    }
    return false;  // never closed
  }

  static bool IsEnd(std::string_view word) {
    return word == "else" || word == "elif" || word == "endif";
  }

  bool ReadStatement(std::string_view statement, bool is_taken) {
    const std::string_view word = TakeWord(statement);
    if (word == "set") return statement.find('=') != std::string_view::npos;
    if (word != "if" || !AsksWhetherDefined(statement)) return false;
    if (depth_ == kMaxDepth) return false;
    ++depth_;
    const bool is_read = ReadCondition(is_taken);
    --depth_;
    return is_read;
  }

  // A condition that is false, from its if to its end.
  bool ReadCondition(bool is_taken) {
    ++at_;
    if (!ReadOn(/*is_taken=*/false)) return false;
    if (FirstWord(nodes_[at_].text) == "elif") return false;
    if (FirstWord(nodes_[at_].text) == "endif") return true;
    ++at_;
    return ReadOn(is_taken) && FirstWord(nodes_[at_].text) == "endif";
  }

  static constexpr int kMaxDepth = 16;

  std::span<const JinjaNode> nodes_;
  size_t at_ = 0;
  int depth_ = 0;  // of conditions inside the branch
  std::string text_;
};

// Of {{ 'text' if add_generation_prompt else '' }}.
std::optional<std::string> ConditionalLiteral(std::string_view expression) {
  const size_t at = expression.find(" if ");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = expression.substr(at + 4);
  const size_t end = std::min(rest.find(" else "), rest.size());
  if (!AsksForPrompt(rest.substr(0, end))) return std::nullopt;
  return LiteralOf(expression.substr(0, at));
}

// Moves `text` behind the string literal that it begins with, and appends what
// that stands for. False: there is none.
bool TakeString(std::string_view& text, std::string& value) {
  if (!text.starts_with('"') && !text.starts_with('\'')) return false;
  const char quote = text.front();
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      text.remove_prefix(i + 1);
      return true;
    }
    if (text[i] != '\\' || i + 1 == text.size()) {
      value += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n' || c == 't' || c == 'r') {
      value += c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
    } else if (c == '\\' || c == '"' || c == '\'') {
      value += c;
    } else {
      value.append(1, '\\').append(1, c);
    }
  }
  return false;
}

}  // namespace

std::vector<JinjaNode> ScanJinja(std::string_view jinja) {
  std::vector<JinjaNode> nodes;
  size_t done = 0;
  char sign = 0;  // of the tag before the text
  bool behind_block = false;
  bool begins_line = true;  // the text does
  while (true) {
    const std::optional<Tag> tag = NextTag(jinja, done);
    const size_t end = tag ? tag->begin : jinja.size();
    std::string_view text = jinja.substr(done, end - done);
    const bool has_line_end = text.find('\n') != std::string_view::npos;
    text = CutBehind(text, sign, behind_block);
    const bool is_block = tag && tag->brace != '{';
    if (tag) {
      const char before = jinja[tag->begin + 2];
      text = CutBefore(text, before, is_block, begins_line || has_line_end);
    }
    if (!text.empty()) nodes.push_back({JinjaKind::kText, std::string(text)});
    if (!tag) return nodes;
    std::string_view inside =
        jinja.substr(tag->begin + 2, tag->end - tag->begin - 4);
    sign = inside.empty() ? '\0' : inside.back();
    if (inside.starts_with('-') || inside.starts_with('+')) {
      inside.remove_prefix(1);
    }
    if (inside.ends_with('-') || inside.ends_with('+')) inside.remove_suffix(1);
    if (tag->brace != '#') {
      nodes.push_back(
          {tag->brace == '{' ? JinjaKind::kExpression : JinjaKind::kStatement,
           std::string(TrimBoth(inside))});
    }
    done = tag->end;
    behind_block = is_block;
    begins_line = false;
  }
}

std::optional<std::string> LiteralOf(std::string_view expression) {
  std::string value;
  expression = TrimBoth(expression);
  while (TakeString(expression, value)) {
    expression = SkipWhiteSpace(expression);
    if (expression.empty()) return value;
    if (!expression.starts_with('+')) return std::nullopt;
    expression = SkipWhiteSpace(expression.substr(1));
  }
  return std::nullopt;
}

std::optional<std::string> GenerationPromptOf(std::string_view jinja) {
  const std::vector<JinjaNode> nodes = ScanJinja(jinja);
  for (size_t i = nodes.size(); i-- > 0;) {
    std::string_view text = nodes[i].text;
    if (nodes[i].kind == JinjaKind::kText ||
        text.find(kPromptVariable) == std::string_view::npos) {
      continue;
    }
    std::optional<std::string> prompt;
    if (nodes[i].kind == JinjaKind::kExpression) {
      prompt = ConditionalLiteral(text);
    } else if (FirstWord(text) == "if" && AsksForPrompt(text)) {
      prompt = BranchReader(nodes).Read(i + 1);
    } else {
      continue;
    }
    if (!prompt || !TrimBoth(*prompt).empty()) return prompt;
  }
  return std::nullopt;
}

}  // namespace thermocline::text
