#include "text/chat_template.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/quote.h"
#include "text/jinja_scan.h"

namespace thermocline::text {
namespace {

struct Row {
  ChatTemplate format;
  // A model's template has all of these texts and none of those; "\n" of its
  // source and the line end that it stands for are the same.
  std::array<std::string_view, 3> has;
  std::array<std::string_view, 3> lacks;
  // The row is for vocabularies with this special token; empty: for any.
  std::string_view token;
};

constexpr std::array<std::string_view, 3> kNothing = {};

// What two headers of answers must share at least to be the same.
constexpr size_t kMinHeaderBytes = 4;

// The first row that fits counts: what is special comes before what is general.
constexpr Row kRows[] = {
    {{.name = "chatml",
      .before_system = "<|im_start|>system\n",
      .after_system = "<|im_end|>\n",
      .before_user = "<|im_start|>user\n",
      .after_user = "<|im_end|>\n<|im_start|>assistant\n",
      .after_answer = "<|im_end|>\n",
      .stop = "<|im_end|>"},
     {"<|im_start|>"},
     {"<|im_sep|>"},  // Phi-4's own format
     ""},
    {{.name = "llama2",
      .before_system = "<<SYS>>\n",
      .after_system = "\n<</SYS>>\n\n",
      .before_user = "[INST] ",
      .after_user = " [/INST]",
      .after_answer = " {eos}{bos}",
      .stop = "[INST]",
      .system_in_user = true,
      .trims = true},
     {"[INST]", "<<SYS>>"},
     kNothing,
     ""},
    {{.name = "llama3",
      .before_system = "<|start_header_id|>system<|end_header_id|>\n\n",
      .after_system = "<|eot_id|>",
      .before_user = "<|start_header_id|>user<|end_header_id|>\n\n",
      .after_user = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
                    "\n\n",
      .after_answer = "<|eot_id|>",
      .stop = "<|eot_id|>",
      .trims = true},
     {"<|start_header_id|>", "<|eot_id|>"},
     kNothing,
     ""},
    // Where [INST] is one token, the tokenizer puts the space behind it that a
    // SentencePiece model wants, and none where there is to be none (Tekken).
    {{.name = "mistral",
      .before_system = "[SYSTEM_PROMPT]",
      .after_system = "[/SYSTEM_PROMPT]",
      .before_user = "[INST]",
      .after_user = "[/INST]",
      .after_answer = "{eos}",
      .stop = "[INST]"},
     {"[INST]"},
     kNothing,
     "[SYSTEM_PROMPT]"},
    {{.name = "mistral",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "[INST]",
      .after_user = "[/INST]",
      .after_answer = "{eos}",
      .stop = "[INST]",
      .system_in_user = true},
     {"[INST]"},
     kNothing,
     "[INST]"},
    {{.name = "mistral",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "[INST] ",
      .after_user = " [/INST]",
      .after_answer = "{eos}",
      .stop = "[INST]",
      .system_in_user = true},
     {"[INST]"},
     kNothing,
     ""},
    {{.name = "phi3",
      .before_system = "<|system|>\n",
      .after_system = "<|end|>\n",
      .before_user = "<|user|>\n",
      .after_user = "<|end|>\n<|assistant|>\n",
      .after_answer = "<|end|>\n",
      .stop = "<|end|>"},
     {"<|assistant|>", "<|end|>"},
     {"'<|assistant|>' }}", "'<|assistant|>'}}"},  // Phi-4-mini: no line ends
     ""},
    {{.name = "gemma",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "<start_of_turn>user\n",
      .after_user = "<end_of_turn>\n<start_of_turn>model\n",
      .after_answer = "<end_of_turn>\n",
      .stop = "<end_of_turn>",
      .system_in_user = true,
      .trims = true},
     {"<start_of_turn>"},
     kNothing,
     ""},
    {{.name = "zephyr",
      .before_system = "<|system|>\n",
      .after_system = "{eos}\n",
      .before_user = "<|user|>\n",
      .after_user = "{eos}\n<|assistant|>\n",
      .after_answer = "{eos}\n",
      .stop = "<|user|>"},
     {"<|user|>", "<|assistant|>", "content'] + eos_token"},
     {"content'] + '\n'", "content'] }}"},  // Tulu's, Tulu 2's
     ""},
    {{.name = "tulu",
      .before_system = "<|system|>\n",
      .after_system = "\n",
      .before_user = "<|user|>\n",
      .after_user = "\n<|assistant|>\n",
      .after_answer = "{eos}\n",
      .stop = "<|user|>"},
     {"'<|user|>\n' + message['content'] + '\n'", "'<|assistant|>\n'",
      "eos_token"},
     kNothing,
     ""},
    {{.name = "openchat",
      .before_system = "GPT4 Correct System: ",
      .after_system = "<|end_of_turn|>",
      .before_user = "GPT4 Correct User: ",
      .after_user = "<|end_of_turn|>GPT4 Correct Assistant:",
      .after_answer = "<|end_of_turn|>",
      .stop = "<|end_of_turn|>"},
     {"GPT4 Correct ", "<|end_of_turn|>"},
     kNothing,
     ""},
    {{.name = "vicuna",
      .before_system = "",
      .after_system = " ",
      .before_user = "USER: ",
      .after_user = " ASSISTANT:",
      .after_answer = "{eos}",
      .stop = "USER:"},
     {"USER: ", "ASSISTANT:"},
     // Those with line ends where Vicuna 1.1 has spaces.
     {"content'] + '\n'", "SYSTEM: "},
     ""},
    {{.name = "alpaca",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "### Instruction:\n",
      .after_user = "\n\n### Response:\n",
      .after_answer = "{eos}\n\n",
      .stop = "### Instruction:"},
     {"### Instruction:", "### Response:"},
     {"<|EOT|>"},  // DeepSeek Coder's
     ""},
    {{.name = "deepseek",
      .before_system = "",
      .after_system = "",
      .before_user = "<｜User｜>",
      .after_user = "<｜Assistant｜>",
      .after_answer = "{eos}",
      .stop = "<｜User｜>"},
     {"<｜User｜>", "<｜Assistant｜>"},
     kNothing,
     "<｜User｜>"},
    // DeepSeek Coder. Its own default system prompt ends with the line end.
    {{.name = "deepseek",
      .before_system = "",
      .after_system = "\n",
      .before_user = "### Instruction:\n",
      .after_user = "\n### Response:\n",
      .after_answer = "\n<|EOT|>\n",
      .stop = "<|EOT|>"},
     {"### Instruction:", "<|EOT|>"},
     kNothing,
     "<|EOT|>"},
    // DeepSeek LLM and V2.
    {{.name = "deepseek",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "User: ",
      .after_user = "\n\nAssistant:",
      .after_answer = "{eos}",
      .stop = "User:"},
     {"'User: ' +", "'Assistant: ' +", "eos_token"},
     kNothing,
     ""},
};

bool HasSpecialToken(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<std::string>& tokens = tokenizer.vocab().tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == text && tokenizer.IsSpecial(static_cast<TokenId>(i))) {
      return true;
    }
  }
  return false;
}

bool FitsVocabulary(const Row& row, const Tokenizer& tokenizer) {
  return row.token.empty() || HasSpecialToken(tokenizer, row.token);
}

bool FitsTemplate(const Row& row, std::string_view source) {
  const auto is_in = [source](std::string_view text) {
    return source.find(text) != std::string_view::npos;
  };
  return std::ranges::all_of(row.has, is_in) &&
         std::ranges::none_of(row.lacks, [&](std::string_view text) {
           return !text.empty() && is_in(text);
         });
}

// Files have line ends in texts as "\n" and as themselves.
std::string WithLineEnds(std::string_view jinja) {
  std::string source;
  for (size_t i = 0; i < jinja.size(); ++i) {
    const bool is_escape = jinja.substr(i, 2) == "\\n";
    source += is_escape ? '\n' : jinja[i];
    i += is_escape ? 1 : 0;
  }
  return source;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

// The text of one of a format's pieces.
std::string Markup(std::string_view piece, const Vocab& vocab) {
  const auto text_of = [&vocab](std::optional<TokenId> id) {
    return id ? std::string_view(vocab.tokens[static_cast<size_t>(*id)]) : "";
  };
  std::string text(piece);
  for (const auto& [name, id] :
       {std::pair("{bos}", vocab.bos), std::pair("{eos}", vocab.eos)}) {
    const size_t at = text.find(name);
    if (at != std::string::npos) text.replace(at, 5, text_of(id));
  }
  return text;
}

}  // namespace

std::vector<std::string_view> ChatTemplateNames() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    if (names.empty() || names.back() != row.format.name) {
      names.push_back(row.format.name);
    }
  }
  return names;
}

const ChatTemplate* FindChatTemplate(std::string_view name,
                                     const Tokenizer& tokenizer) {
  for (const Row& row : kRows) {
    if (row.format.name == name && FitsVocabulary(row, tokenizer)) {
      return &row.format;
    }
  }
  return nullptr;
}

const ChatTemplate* RecognizeChatTemplate(std::string_view jinja,
                                          const Tokenizer& tokenizer) {
  const std::string source = WithLineEnds(jinja);
  for (const Row& row : kRows) {
    if (FitsTemplate(row, source) && FitsVocabulary(row, tokenizer)) {
      return &row.format;
    }
  }
  return nullptr;
}

Result<std::string> AnswerStartOf(const ChatTemplate& format,
                                  std::string_view jinja, const Vocab& vocab) {
  const auto prompt = GenerationPromptOf(jinja);
  if (!prompt) return std::string();
  // White space differs harmlessly: the answer is shown without it.
  const std::string markup = Markup(format.after_user, vocab);
  if (Trim(markup).ends_with(Trim(*prompt))) return std::string();
  const std::string_view header = *prompt;
  for (size_t length = header.size(); length > 0; --length) {
    const std::string_view known = header.substr(0, length);
    if (!std::string_view(markup).ends_with(known)) continue;
    if (Trim(known).size() < kMinHeaderBytes) break;
    const std::string_view rest = header.substr(length);
    return Trim(rest).empty() ? std::string() : std::string(rest);
  }
  return Fail(ErrorCode::kUnsupported,
              "begins answers by {}, where the format {} has {}", Quote(header),
              format.name, Quote(markup));
}

std::vector<TextPart> RenderTurn(const ChatTemplate& format, const Vocab& vocab,
                                 const ChatTurn& turn) {
  std::vector<TextPart> parts;
  const auto add_markup = [&](std::string_view piece) {
    parts.push_back({Markup(piece, vocab), /*is_markup=*/true});
  };
  const auto add_content = [&](std::string_view text) {
    parts.push_back({std::string(format.trims ? Trim(text) : text),
                     /*is_markup=*/false});
  };
  const auto add_system = [&] {
    if (turn.system.empty()) return;
    add_markup(format.before_system);
    add_content(turn.system);
    add_markup(format.after_system);
  };
  if (!turn.is_first) add_markup(format.after_answer);
  if (turn.is_first && !format.system_in_user) add_system();
  add_markup(format.before_user);
  if (turn.is_first && format.system_in_user) add_system();
  add_content(turn.user);
  parts.push_back({Markup(format.after_user, vocab).append(turn.answer_start),
                   /*is_markup=*/true});
  return parts;
}

Result<std::vector<TokenId>> ReservedTokens(const ChatTemplate& format,
                                            const Tokenizer& tokenizer) {
  std::vector<TextPart> parts;
  for (const std::string_view piece :
       {format.before_system, format.after_system, format.before_user,
        format.after_user, format.after_answer}) {
    parts.push_back({Markup(piece, tokenizer.vocab()), /*is_markup=*/true});
  }
  TC_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                      tokenizer.EncodeParts(parts, {}));
  std::erase_if(tokens,
                [&tokenizer](TokenId id) { return !tokenizer.IsSpecial(id); });
  const Vocab& vocab = tokenizer.vocab();
  for (const auto& id : {vocab.bos, vocab.eos, vocab.eot, vocab.eom}) {
    if (id) tokens.push_back(*id);
  }
  std::ranges::sort(tokens);
  tokens.erase(std::ranges::unique(tokens).begin(), tokens.end());
  return tokens;
}

}  // namespace thermocline::text
