#include "import/hf_tiktoken.h"

#include <array>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "text/tiktoken.h"

namespace thermocline::importer {
namespace {

// As from Llama 3.1 on; 3.0 has reserved tokens in the place of some.
constexpr std::array<const char*, 11> kLlama3Specials = {
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|reserved_special_token_2|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>"};
constexpr size_t kNumLlama3Specials = 256;
constexpr int kFirstReservedAfter = 3;  // its number, behind those above

std::vector<std::string> Llama3Specials() {
  std::vector<std::string> names(kLlama3Specials.begin(),
                                 kLlama3Specials.end());
  for (int i = kFirstReservedAfter; names.size() < kNumLlama3Specials; ++i) {
    names.push_back(fmt::format("<|reserved_special_token_{}|>", i));
  }
  return names;
}

void DescribeLlama3(VocabDraft& draft) {
  draft.vocab.pre = "llama-bpe";
  draft.vocab.bos = draft.tokens.Find("<|begin_of_text|>");
  draft.vocab.eos = draft.tokens.Find("<|end_of_text|>");
  draft.vocab.eot = draft.tokens.Find("<|eot_id|>");
  draft.vocab.eom = draft.tokens.Find("<|eom_id|>");
  draft.vocab.add_bos = true;
}

void DescribeQwen2(VocabDraft& draft) {
  draft.vocab.pre = "qwen2";
  draft.vocab.eos = draft.vocab.pad = draft.tokens.Find("<|endoftext|>");
  draft.vocab.eot = draft.tokens.Find("<|im_end|>");
}

}  // namespace

Result<VocabDraft> DraftOfTiktoken(const NamedText& table,
                                   const std::string& architecture,
                                   uint64_t num_rows) {
  const bool is_llama3 = architecture == "llama";
  if (!is_llama3 && architecture != "qwen2") {
    return Fail(ErrorCode::kUnsupported,
                "{}: which pre-tokenizer and special tokens go with a tiktoken "
                "table is not known for the architecture {}; tokenizer.json is "
                "needed",
                table.path, Quote(architecture));
  }
  auto parsed = text::ParseTiktoken(table.text);
  if (!parsed) return Annotate(table.path, parsed.error());
  const std::vector<std::string> specials =
      is_llama3 ? Llama3Specials()
                : std::vector<std::string>{"<|endoftext|>", "<|im_start|>",
                                           "<|im_end|>"};
  const size_t num_tokens = parsed->tokens.size() + specials.size();
  if (num_tokens > num_rows) {
    return Fail(ErrorCode::kCorrupt,
                "{}: there are {} tokens, but the embedding has {} rows",
                table.path, num_tokens, num_rows);
  }
  VocabDraft draft = {VocabBuilder(num_rows), {}, {}, {}};
  draft.vocab.kind = text::VocabKind::kBpe;
  draft.vocab.merges = std::move(parsed->merges);
  uint64_t id = 0;
  for (const std::string& token : parsed->tokens) {
    TC_RETURN_IF_ERROR(
        draft.tokens.Add(table.path, token, id++, text::TokenType::kNormal));
  }
  for (const std::string& token : specials) {
    TC_RETURN_IF_ERROR(
        draft.tokens.Add(table.path, token, id++, text::TokenType::kControl));
  }
  is_llama3 ? DescribeLlama3(draft) : DescribeQwen2(draft);
  return draft;
}

}  // namespace thermocline::importer
