#include "import/sentencepiece.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/quote.h"
#include "text/utf8.h"

namespace thermocline::importer {
namespace {

using text::TokenType;

enum WireType : uint64_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kFixed32 = 5
};

struct Field {
  uint64_t number = 0;
  uint64_t type = 0;
  uint64_t value = 0;      // kVarint, kFixed32
  std::string_view bytes;  // kBytes
};

// The fields of one message, one after the other.
class FieldReader {
 public:
  FieldReader(std::string_view message, std::string_view file,
              const std::string& path)
      : rest_(message), file_(file), path_(path) {}

  bool at_end() const { return rest_.empty(); }

  Result<Field> Next() {
    Field field;
    TC_ASSIGN_OR_RETURN(const uint64_t tag, TakeVarint());
    field.number = tag >> 3;
    field.type = tag & 7;
    switch (field.type) {
      case kVarint: {
        TC_ASSIGN_OR_RETURN(field.value, TakeVarint());
        return field;
      }
      case kFixed64: {
        TC_RETURN_IF_ERROR(Take(8));
        return field;
      }
      case kBytes: {
        TC_ASSIGN_OR_RETURN(const uint64_t size, TakeVarint());
        TC_ASSIGN_OR_RETURN(field.bytes, Take(size));
        return field;
      }
      case kFixed32: {
        TC_ASSIGN_OR_RETURN(const auto bytes, Take(4));
        uint32_t value = 0;
        std::memcpy(&value, bytes.data(), sizeof(value));
        field.value = value;
        return field;
      }
      default:
        return Malformed("a field of an unknown kind");
    }
  }

  tl::unexpected<Error> Malformed(std::string_view what) const {
    return Fail(ErrorCode::kCorrupt,
                "{}: {} at byte {} (not a SentencePiece model, or cut off?)",
                path_, what, rest_.data() - file_.data());
  }

 private:
  Result<uint64_t> TakeVarint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return Malformed("a number without an end");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return Malformed("a number that is too long");
  }

  Result<std::string_view> Take(uint64_t size) {
    if (size > rest_.size()) return Malformed("too few bytes for a field");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  std::string_view file_;
  const std::string& path_;
};

// Calls `visit` for each field of `message`.
template <typename Visit>
Status ForEachField(std::string_view message, std::string_view file,
                    const std::string& path, const Visit& visit) {
  FieldReader reader(message, file, path);
  while (!reader.at_end()) {
    TC_ASSIGN_OR_RETURN(const Field field, reader.Next());
    TC_RETURN_IF_ERROR(visit(field, reader));
  }
  return {};
}

Status ReadPiece(std::string_view message, std::string_view file,
                 const std::string& path, SentencePieceModel& model) {
  SentencePiece piece;
  TC_RETURN_IF_ERROR(ForEachField(
      message, file, path,
      [&](const Field& field, const FieldReader& reader) -> Status {
        if (field.number == 1 && field.type == kBytes) {
          piece.text = field.bytes;
          if (!text::IsValidUtf8(piece.text)) {
            return reader.Malformed("a piece that is not UTF-8");
          }
        } else if (field.number == 2 && field.type == kFixed32) {
          const auto bits = static_cast<uint32_t>(field.value);
          std::memcpy(&piece.score, &bits, sizeof(bits));
        } else if (field.number == 3 && field.type == kVarint) {
          // The format's numbers are those of GGUF.
          if (field.value < 1 ||
              field.value > static_cast<uint64_t>(TokenType::kByte)) {
            return reader.Malformed("a piece of an unknown type");
          }
          piece.type = static_cast<TokenType>(field.value);
        }
        return {};
      }));
  model.pieces.push_back(std::move(piece));
  return {};
}

Status ReadTrainer(std::string_view message, std::string_view file,
                   const std::string& path, SentencePieceModel& model) {
  const std::pair<uint64_t, int64_t*> numbers[] = {{3, &model.model_type},
                                                   {40, &model.unk_id},
                                                   {41, &model.bos_id},
                                                   {42, &model.eos_id},
                                                   {43, &model.pad_id}};
  return ForEachField(message, file, path,
                      [&](const Field& field, const FieldReader&) -> Status {
                        if (field.type != kVarint) return {};
                        for (const auto& [number, slot] : numbers) {
                          if (field.number != number) continue;
                          *slot = static_cast<int64_t>(field.value);
                        }
                        if (field.number == 24) {
                          model.treat_whitespace_as_suffix = field.value != 0;
                        }
                        return {};
                      });
}

Status ReadNormalizer(std::string_view message, std::string_view file,
                      const std::string& path, SentencePieceModel& model) {
  std::string name;
  bool changes_text = false;
  TC_RETURN_IF_ERROR(
      ForEachField(message, file, path,
                   [&](const Field& field, const FieldReader&) -> Status {
                     const bool flag = field.value != 0;
                     if (field.number == 1) name = field.bytes;
                     if (field.number == 2) changes_text = !field.bytes.empty();
                     if (field.number == 3) model.add_dummy_prefix = flag;
                     if (field.number == 4) {
                       model.remove_extra_whitespaces = flag;
                     }
                     if (field.number == 5) model.escape_whitespaces = flag;
                     return {};
                   }));
  if (changes_text) model.normalizer = name.empty() ? "without a name" : name;
  return {};
}

std::string NameOfModelType(int64_t type) {
  constexpr const char* kNames[] = {"unigram", "bpe", "word", "char"};
  return type >= 1 && type <= 4 ? kNames[type - 1] : std::to_string(type);
}

// What text/ does not do but other engines leave out as well.
void WarnOfWhatIsLeftOut(const SentencePieceModel& model,
                         const std::string& path) {
  if (!model.normalizer.empty()) {
    LogWarning(
        "{}: the tokenizer normalises text first ({}); that is left out, so "
        "text that is not in that form is cut otherwise",
        path, Quote(model.normalizer));
  }
  if (model.remove_extra_whitespaces) {
    LogWarning("{}: the tokenizer drops repeated spaces; they are kept", path);
  }
}

}  // namespace

bool LooksLikeSentencePiece(std::string_view file) {
  return file.starts_with('\n');  // the tag of the first piece
}

Result<SentencePieceModel> ParseSentencePiece(std::string_view file,
                                              const std::string& path) {
  SentencePieceModel model;
  TC_RETURN_IF_ERROR(ForEachField(
      file, file, path, [&](const Field& field, const FieldReader&) -> Status {
        if (field.type != kBytes) return {};
        switch (field.number) {
          case 1:
            return ReadPiece(field.bytes, file, path, model);
          case 2:
            return ReadTrainer(field.bytes, file, path, model);
          case 3:
            return ReadNormalizer(field.bytes, file, path, model);
          default:
            return {};
        }
      }));
  if (model.pieces.empty()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: has no pieces (not a SentencePiece model?)", path);
  }
  return model;
}

Result<VocabDraft> DraftOfSentencePiece(const SentencePieceModel& model,
                                        const std::string& path,
                                        uint64_t num_rows) {
  if (model.model_type != 2) {
    return Fail(ErrorCode::kUnsupported,
                "{}: the SentencePiece model is of the type {}; only bpe is in "
                "this version",
                path, NameOfModelType(model.model_type));
  }
  if (model.treat_whitespace_as_suffix || !model.escape_whitespaces) {
    return Fail(ErrorCode::kUnsupported,
                "{}: the SentencePiece model does not write a space in front "
                "of a word as U+2581",
                path);
  }
  if (model.pieces.size() > num_rows) {
    return Fail(ErrorCode::kCorrupt,
                "{}: there are {} tokens, but the embedding has {} rows", path,
                model.pieces.size(), num_rows);
  }
  WarnOfWhatIsLeftOut(model, path);
  VocabDraft draft = {VocabBuilder(num_rows), {}, {}, {}};
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    TC_RETURN_IF_ERROR(
        draft.tokens.Add(path, piece.text, id, piece.type, piece.score));
  }
  text::Vocab& vocab = draft.vocab;
  vocab.kind = text::VocabKind::kSpm;
  vocab.pre = "default";  // as other converters write it; SPM has none
  vocab.add_bos = true;
  vocab.add_space_prefix = model.add_dummy_prefix;
  for (const auto& [id, slot] : {std::pair(model.unk_id, &text::Vocab::unk),
                                 std::pair(model.bos_id, &text::Vocab::bos),
                                 std::pair(model.eos_id, &text::Vocab::eos),
                                 std::pair(model.pad_id, &text::Vocab::pad)}) {
    if (id < 0) continue;
    if (static_cast<uint64_t>(id) >= model.pieces.size()) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: special token {} is none of the {} tokens", path, id,
                  model.pieces.size());
    }
    vocab.*slot = static_cast<text::TokenId>(id);
  }
  return draft;
}

}  // namespace thermocline::importer
