#include "eval/mc_encode.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/remedy.h"

namespace thermocline::eval {
namespace {

// BOS where the vocabulary asks for it, and never EOS: the text goes on.
Result<Tokens> Encode(const text::Tokenizer& tokenizer,
                      const std::string& text) {
  TC_ASSIGN_OR_RETURN(Tokens tokens,
                      tokenizer.Encode(text, {.add_special = false}));
  if (const auto bos = tokenizer.vocab().added_bos()) {
    tokens.insert(tokens.begin(), *bos);
  }
  return tokens;
}

Result<McTokens> EncodeItem(const text::Tokenizer& tokenizer,
                            const McItem& item, std::string_view examples) {
  McTokens tokens;
  std::vector<std::string> texts;
  for (const std::string& context : item.contexts) {
    texts.push_back(std::string(examples) + context);
    TC_ASSIGN_OR_RETURN(Tokens ids, Encode(tokenizer, texts.back()));
    if (ids.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "the context has no tokens");
    }
    tokens.contexts.push_back(std::move(ids));
  }
  for (size_t i = 0; i < item.continuations.size(); ++i) {
    const std::string& text = texts[texts.size() == 1 ? 0 : i];
    TC_ASSIGN_OR_RETURN(Tokens ids,
                        Encode(tokenizer, text + item.continuations[i]));
    const size_t num_context = tokens.context(i).size();
    if (ids.size() <= num_context) {
      return Fail(ErrorCode::kInvalidArgument,
                  "choice {} adds no token to its context: this vocabulary "
                  "joins the two",
                  i);
    }
    ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(num_context));
    tokens.continuations.push_back(std::move(ids));
  }
  return tokens;
}

// The same, no longer than is wanted.
Result<McTokens> EncodeShortItem(const text::Tokenizer& tokenizer,
                                 const McItem& item,
                                 const McEncodeOptions& options) {
  TC_ASSIGN_OR_RETURN(McTokens tokens,
                      EncodeItem(tokenizer, item, options.examples));
  const int64_t need = tokens.num_positions();
  if (need <= options.max_positions) return tokens;
  return Fail(ErrorCode::kResourceExhausted,
              Advice{options.examples.empty() ? Remedy::kContext
                                              : Remedy::kContextOrShots,
                     need},
              "needs {} positions, the context has {}", need,
              options.max_positions);
}

}  // namespace

int64_t McTokens::num_positions() const {
  size_t longest = 0;
  for (size_t i = 0; i < continuations.size(); ++i) {
    longest =
        std::max(longest, context(i).size() + continuations[i].size() - 1);
  }
  return static_cast<int64_t>(longest);
}

Result<std::vector<McTokens>> EncodeMcTask(const text::Tokenizer& tokenizer,
                                           const McTask& task,
                                           const McEncodeOptions& options) {
  std::vector<McTokens> items;
  for (const McItem& item : task.items) {
    if (options.cancel != nullptr && options.cancel->load()) {
      return Fail(ErrorCode::kCancelled, "interrupted");
    }
    ReportProgress(options.progress, "tokenizing items", items.size(),
                   task.items.size());
    auto tokens = EncodeShortItem(tokenizer, item, options);
    if (!tokens.has_value()) {
      return Annotate(fmt::format("{}: line {}", task.path, item.line),
                      tokens.error());
    }
    items.push_back(*std::move(tokens));
  }
  ReportProgress(options.progress, "tokenizing items", items.size(),
                 items.size());
  return items;
}

}  // namespace thermocline::eval
