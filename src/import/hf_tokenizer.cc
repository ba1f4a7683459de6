#include "import/hf_tokenizer.h"

#include <filesystem>
#include <utility>

#include "base/units.h"
#include "import/hf_merges.h"
#include "import/hf_special_tokens.h"
#include "import/hf_tiktoken.h"
#include "import/hf_tokenizer_json.h"
#include "import/json.h"
#include "import/lfs_pointer.h"
#include "import/sentencepiece.h"
#include "os/file.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace thermocline::importer {
namespace {

constexpr uint64_t kMaxFileBytes = 512 * kMiB;

// The object in a file; an empty one if there is no file. `path` is set to
// what messages should name.
Result<Json> ParseObject(const std::optional<NamedText>& file,
                         const std::string& fallback_path, std::string& path) {
  path = file ? file->path : fallback_path;
  if (!file) return Json::object();
  TC_ASSIGN_OR_RETURN(Json json, ParseJson(file->text, path));
  TC_RETURN_IF_ERROR(JsonFields::Of(json, path));
  return json;
}

// The small files, parsed.
struct SmallFiles {
  std::string config_path, map_path, added_path;
  Json config, map, added;

  static Result<SmallFiles> Parse(const TokenizerSources& sources,
                                  const std::string& fallback_path) {
    SmallFiles files;
    TC_ASSIGN_OR_RETURN(files.config, ParseObject(sources.config, fallback_path,
                                                  files.config_path));
    TC_ASSIGN_OR_RETURN(files.map, ParseObject(sources.special_tokens_map,
                                               fallback_path, files.map_path));
    TC_ASSIGN_OR_RETURN(
        files.added,
        ParseObject(sources.added_tokens, fallback_path, files.added_path));
    return files;
  }
};

// A vocabulary, the file it is from, and whether that file has the added
// tokens too.
struct Chosen {
  VocabDraft draft;
  std::string path;
  bool is_complete = false;
};

Result<Chosen> ChooseVocabulary(const TokenizerSources& sources) {
  const auto& model = sources.tokenizer_model;
  if (model && LooksLikeSentencePiece(model->text)) {
    TC_ASSIGN_OR_RETURN(const auto parsed,
                        ParseSentencePiece(model->text, model->path));
    TC_ASSIGN_OR_RETURN(auto draft, DraftOfSentencePiece(parsed, model->path,
                                                         sources.num_rows));
    return Chosen{std::move(draft), model->path};
  }
  if (const auto& json = sources.tokenizer_json) {
    TC_ASSIGN_OR_RETURN(auto draft,
                        DraftOfTokenizerJson(*json, sources.num_rows));
    return Chosen{std::move(draft), json->path, true};
  }
  if (const auto& table = model ? model : sources.tiktoken) {
    TC_ASSIGN_OR_RETURN(
        auto draft,
        DraftOfTiktoken(*table, sources.architecture, sources.num_rows));
    return Chosen{std::move(draft), table->path};
  }
  if (sources.vocab_json && sources.merges_txt) {
    TC_ASSIGN_OR_RETURN(
        auto draft, DraftOfMergesTxt(*sources.vocab_json, *sources.merges_txt,
                                     sources.architecture, sources.num_rows));
    return Chosen{std::move(draft), sources.vocab_json->path};
  }
  return Fail(ErrorCode::kNotFound,
              "{}: there is no tokenizer: neither tokenizer.json nor "
              "tokenizer.model, qwen.tiktoken, or vocab.json with merges.txt",
              sources.folder);
}

Status AddMoreTokens(const TokenizerSources& sources, const SmallFiles& files,
                     Chosen& chosen) {
  VocabDraft& draft = chosen.draft;
  TC_ASSIGN_OR_RETURN(const auto config,
                      JsonFields::Of(files.config, files.config_path));
  if (chosen.is_complete) return AddFromDecoder(config, false, draft);
  TC_ASSIGN_OR_RETURN(const auto added,
                      JsonFields::Of(files.added, files.added_path));
  TC_RETURN_IF_ERROR(AddFromAddedTokens(added, draft));
  TC_RETURN_IF_ERROR(AddFromDecoder(config, true, draft));
  // What the others lack: it may be older than they are.
  return sources.tokenizer_json
             ? AddFromTokenizerJson(*sources.tokenizer_json, draft)
             : Status();
}

Result<ChatTemplates> ReadTemplates(const TokenizerSources& sources,
                                    const SmallFiles& files) {
  // Newer folders keep the template in a file of its own.
  if (sources.chat_template_jinja) {
    return ChatTemplates{{"default", sources.chat_template_jinja->text}};
  }
  if (sources.chat_template_json) {
    std::string path;
    TC_ASSIGN_OR_RETURN(const Json json,
                        ParseObject(sources.chat_template_json, "", path));
    TC_ASSIGN_OR_RETURN(const auto fields, JsonFields::Of(json, path));
    return ReadChatTemplates(fields);
  }
  TC_ASSIGN_OR_RETURN(const auto config,
                      JsonFields::Of(files.config, files.config_path));
  return ReadChatTemplates(config);
}

// A file that may be absent.
Result<std::optional<NamedText>> ReadIfThere(const std::string& path) {
  if (!os::HasEntry(path)) return std::nullopt;
  TC_ASSIGN_OR_RETURN(auto text, os::ReadFile(path, kMaxFileBytes));
  TC_RETURN_IF_ERROR(CheckDownloaded(text, path));
  text.erase(0, text.size() - text::WithoutByteOrderMark(text).size());
  return NamedText{path, std::move(text)};
}

}  // namespace

Result<HfTokenizer> ParseHfTokenizer(const TokenizerSources& sources) {
  TC_ASSIGN_OR_RETURN(Chosen chosen, ChooseVocabulary(sources));
  VocabDraft& draft = chosen.draft;
  TC_ASSIGN_OR_RETURN(const auto files,
                      SmallFiles::Parse(sources, chosen.path));
  TC_RETURN_IF_ERROR(AddMoreTokens(sources, files, chosen));
  TC_ASSIGN_OR_RETURN(const auto config,
                      JsonFields::Of(files.config, files.config_path));
  TC_ASSIGN_OR_RETURN(const auto map,
                      JsonFields::Of(files.map, files.map_path));
  TC_RETURN_IF_ERROR(ReadSpecialTokens(
      {config, map, sources.bos_id, sources.pad_id, sources.eos_ids}, draft));
  HfTokenizer tokenizer;
  TC_ASSIGN_OR_RETURN(tokenizer.chat_templates, ReadTemplates(sources, files));
  tokenizer.vocab = std::move(draft.vocab);
  draft.tokens.FinishInto(tokenizer.vocab);
  const auto checked = text::Tokenizer::Create(tokenizer.vocab);
  if (!checked) return Annotate(chosen.path, checked.error());
  if (draft.takes_whole_words) {
    TC_RETURN_IF_ERROR(CheckMergesMakeWords(**checked, chosen.path));
  }
  return tokenizer;
}

Result<TokenizerSources> ReadTokenizerFiles(const std::string& folder) {
  TokenizerSources sources;
  sources.folder = folder;
  const std::pair<const char*, std::optional<NamedText>*> files[] = {
      {"tokenizer.model", &sources.tokenizer_model},
      {"tokenizer.json", &sources.tokenizer_json},
      {"qwen.tiktoken", &sources.tiktoken},
      {"vocab.json", &sources.vocab_json},
      {"merges.txt", &sources.merges_txt},
      {"added_tokens.json", &sources.added_tokens},
      {"tokenizer_config.json", &sources.config},
      {"special_tokens_map.json", &sources.special_tokens_map},
      {"chat_template.json", &sources.chat_template_json},
      {"chat_template.jinja", &sources.chat_template_jinja}};
  for (const auto& [name, slot] : files) {
    TC_ASSIGN_OR_RETURN(
        *slot, ReadIfThere((std::filesystem::path(folder) / name).string()));
  }
  return sources;
}

}  // namespace thermocline::importer
