#include "text/reasoning_marks.h"

#include <algorithm>

#include "text/utf8.h"

namespace thermocline::text {
namespace {

// A model has one of these ways. More special ones come first: a template that
// writes channels may mention <think> in what it replaces.
constexpr ReasoningMarks kWays[] = {
    {"<|channel|>analysis<|message|>",
     "<|end|>",
     {"<|start|>assistant", "<|channel|>final<|message|>"}},
    {"<|channel>thought", "<channel|>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>",
     "<|END_THINKING|>",
     {"<|START_RESPONSE|>", "<|START_TEXT|>"}},
    {"<think>", "</think>"},
};

}  // namespace

ReasoningMarks FindReasoningMarks(std::string_view source,
                                  const Tokenizer* tokenizer) {
  const auto is_in_source = [source](std::string_view mark) {
    return source.find(mark) != std::string_view::npos;
  };
  for (const ReasoningMarks& marks : kWays) {
    if (is_in_source(marks.begin) && is_in_source(marks.end)) return marks;
  }
  if (tokenizer == nullptr) return {};
  for (const ReasoningMarks& marks : kWays) {
    if (tokenizer->HasSpecial(marks.begin) &&
        tokenizer->HasSpecial(marks.end)) {
      return marks;
    }
  }
  return {};
}

bool OpensReasoning(const ReasoningMarks& marks,
                    std::span<const TextPart> prompt) {
  // Marks that are mentioned further up, as in a system prompt, are not open.
  if (marks.empty() || prompt.empty() || !prompt.back().is_markup) return false;
  return WithoutTrailingSpace(prompt.back().text).ends_with(marks.begin);
}

Result<std::vector<TokenId>> TokensOf(const ReasoningMarks& marks,
                                      const Tokenizer& tokenizer) {
  std::vector<TextPart> parts;
  for (const std::string_view mark : {marks.begin, marks.end, marks.between[0],
                                      marks.between[1], marks.between[2]}) {
    parts.push_back({std::string(mark), /*is_markup=*/true});
  }
  TC_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                      tokenizer.EncodeParts(parts, {}));
  std::erase_if(tokens,
                [&tokenizer](TokenId id) { return !tokenizer.IsSpecial(id); });
  std::ranges::sort(tokens);
  tokens.erase(std::ranges::unique(tokens).begin(), tokens.end());
  return tokens;
}

}  // namespace thermocline::text
