#include "text/chat_template.h"

#include <string>

namespace thermocline::text {
namespace {

struct Row {
  ChatTemplate format;
  // The row is for vocabularies with this special token; empty: for any.
  std::string_view token;
};

// The first row that fits counts: what is special comes before what is general.
constexpr Row kRows[] = {
    {{.name = "chatml",
      .before_system = "<|im_start|>system\n",
      .after_system = "<|im_end|>\n",
      .before_user = "<|im_start|>user\n",
      .after_user = "<|im_end|>\n<|im_start|>assistant\n",
      .after_answer = "<|im_end|>\n",
      .stop = "<|im_end|>"},
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
     "[SYSTEM_PROMPT]"},
    {{.name = "mistral",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "[INST]",
      .after_user = "[/INST]",
      .after_answer = "{eos}",
      .stop = "[INST]",
      .system_in_user = true},
     "[INST]"},
    {{.name = "mistral",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "[INST] ",
      .after_user = " [/INST]",
      .after_answer = "{eos}",
      .stop = "[INST]",
      .system_in_user = true},
     ""},
    {{.name = "phi3",
      .before_system = "<|system|>\n",
      .after_system = "<|end|>\n",
      .before_user = "<|user|>\n",
      .after_user = "<|end|>\n<|assistant|>\n",
      .after_answer = "<|end|>\n",
      .stop = "<|end|>"},
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
     ""},
    {{.name = "zephyr",
      .before_system = "<|system|>\n",
      .after_system = "{eos}\n",
      .before_user = "<|user|>\n",
      .after_user = "{eos}\n<|assistant|>\n",
      .after_answer = "{eos}\n",
      .stop = "<|user|>"},
     ""},
    {{.name = "tulu",
      .before_system = "<|system|>\n",
      .after_system = "\n",
      .before_user = "<|user|>\n",
      .after_user = "\n<|assistant|>\n",
      .after_answer = "{eos}\n",
      .stop = "<|user|>"},
     ""},
    {{.name = "openchat",
      .before_system = "GPT4 Correct System: ",
      .after_system = "<|end_of_turn|>",
      .before_user = "GPT4 Correct User: ",
      .after_user = "<|end_of_turn|>GPT4 Correct Assistant:",
      .after_answer = "<|end_of_turn|>",
      .stop = "<|end_of_turn|>"},
     ""},
    {{.name = "vicuna",
      .before_system = "",
      .after_system = " ",
      .before_user = "USER: ",
      .after_user = " ASSISTANT:",
      .after_answer = "{eos}",
      .stop = "USER:"},
     ""},
    {{.name = "alpaca",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "### Instruction:\n",
      .after_user = "\n\n### Response:\n",
      .after_answer = "{eos}\n\n",
      .stop = "### Instruction:"},
     ""},
    {{.name = "deepseek",
      .before_system = "",
      .after_system = "",
      .before_user = "<｜User｜>",
      .after_user = "<｜Assistant｜>",
      .after_answer = "{eos}",
      .stop = "<｜User｜>"},
     "<｜User｜>"},
    // DeepSeek Coder. Its own default system prompt ends with the line end.
    {{.name = "deepseek",
      .before_system = "",
      .after_system = "\n",
      .before_user = "### Instruction:\n",
      .after_user = "\n### Response:\n",
      .after_answer = "\n<|EOT|>\n",
      .stop = "<|EOT|>"},
     "<|EOT|>"},
    // DeepSeek LLM and V2.
    {{.name = "deepseek",
      .before_system = "",
      .after_system = "\n\n",
      .before_user = "User: ",
      .after_user = "\n\nAssistant:",
      .after_answer = "{eos}",
      .stop = "User:"},
     ""},
};

bool FitsVocabulary(const Row& row, const Tokenizer& tokenizer) {
  return row.token.empty() || tokenizer.HasSpecial(row.token);
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

}  // namespace thermocline::text
