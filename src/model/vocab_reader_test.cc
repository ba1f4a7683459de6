#include "model/vocab_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/test_file.h"
#include "model/test_log.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::Raw;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using text::TokenType;
using text::Vocab;
using text::VocabKind;

TestFile Spm() {
  TestFile file;
  file.SetText("tokenizer.ggml.model", "llama")
      .SetTexts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
  return file;
}

TestFile Bpe(const std::string& pre = "gpt-2") {
  TestFile file;
  file.SetText("tokenizer.ggml.model", "gpt2")
      .SetText("tokenizer.ggml.pre", pre)
      .SetTexts("tokenizer.ggml.tokens", {"a", "b", "ab"})
      .SetTexts("tokenizer.ggml.merges", {"a b"});
  return file;
}

Vocab ReadTestVocab(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  const auto vocab = ReadVocab(**parsed.file);
  EXPECT_TRUE(vocab) << vocab.error().message;
  EXPECT_TRUE(*vocab);
  return **vocab;
}

Error VocabRefusal(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  const auto vocab = ReadVocab(**parsed.file);
  EXPECT_FALSE(vocab);
  return vocab ? Error() : vocab.error();
}

void ExpectCorruptVocab(TestFile file, const std::string& part) {
  const Error error = VocabRefusal(std::move(file));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt) << error.message;
  EXPECT_THAT(error.message, AllOf(HasSubstr("test.gguf"), HasSubstr(part)));
}

TEST(ReadVocab, SpmDefaults) {
  const Vocab vocab = ReadTestVocab(Spm());
  EXPECT_EQ(vocab.kind, VocabKind::kSpm);
  EXPECT_EQ(vocab.pre, "");
  EXPECT_THAT(vocab.tokens, ElementsAre("<unk>", "<s>", "</s>", "a"));
  EXPECT_THAT(vocab.scores, IsEmpty());
  EXPECT_THAT(vocab.types, IsEmpty());
  EXPECT_EQ(vocab.unk, 0);
  EXPECT_EQ(vocab.bos, 1);
  EXPECT_EQ(vocab.eos, 2);
  EXPECT_EQ(vocab.eot, std::nullopt);
  EXPECT_EQ(vocab.eom, std::nullopt);
  EXPECT_EQ(vocab.pad, std::nullopt);
  EXPECT_TRUE(vocab.add_bos);
  EXPECT_FALSE(vocab.add_eos);
  EXPECT_TRUE(vocab.add_space_prefix);
}

TEST(ReadVocab, BpeDefaults) {
  const Vocab vocab = ReadTestVocab(Bpe());
  EXPECT_EQ(vocab.kind, VocabKind::kBpe);
  EXPECT_EQ(vocab.pre, "gpt-2");
  EXPECT_THAT(vocab.merges, ElementsAre("a b"));
  EXPECT_EQ(vocab.bos, std::nullopt);
  EXPECT_EQ(vocab.eos, std::nullopt);
  EXPECT_EQ(vocab.unk, std::nullopt);
  EXPECT_FALSE(vocab.add_bos);
  EXPECT_FALSE(vocab.add_space_prefix);
}

TEST(ReadVocab, SomePreTokenizersPutBosInFront) {
  for (const char* pre : {"llama3", "llama-v3", "llama-bpe", "falcon3",
                          "falcon-h1", "lfm2", "tekken", "chameleon"}) {
    EXPECT_TRUE(ReadTestVocab(Bpe(pre)).add_bos) << pre;
  }
  EXPECT_FALSE(ReadTestVocab(Bpe("qwen2")).add_bos);
  EXPECT_FALSE(ReadTestVocab(
                   Bpe("llama3").SetBool("tokenizer.ggml.add_bos_token", false))
                   .add_bos);
}

TEST(ReadVocab, Gemma4) {
  const auto gemma = [] {
    return TestFile()
        .SetText("tokenizer.ggml.model", "gemma4")
        .SetTexts("tokenizer.ggml.tokens", {"a", "b", "ab"});
  };
  const auto whole = [&] {
    return gemma().SetTexts("tokenizer.ggml.merges", {"a b"});
  };
  const TestLog log;
  const Vocab vocab = ReadTestVocab(whole());
  EXPECT_EQ(vocab.kind, VocabKind::kCharBpe);
  EXPECT_THAT(vocab.merges, ElementsAre("a b"));
  EXPECT_EQ(vocab.bos, std::nullopt);
  EXPECT_EQ(vocab.unk, std::nullopt);
  EXPECT_TRUE(vocab.add_bos);
  EXPECT_FALSE(vocab.add_space_prefix);
  EXPECT_THAT(log.lines(), IsEmpty());
  EXPECT_TRUE(
      ReadTestVocab(whole().SetBool("tokenizer.ggml.add_bos_token", false))
          .add_bos);
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("add_bos_token")));
  ExpectCorruptVocab(gemma(), "tokenizer.ggml.merges");
}

TEST(ReadVocab, EverythingSet) {
  const Vocab vocab =
      ReadTestVocab(Spm()
                        .SetNumbers<float>("tokenizer.ggml.scores",
                                           ValueType::kF32, {0, -1, -2, -3.5f})
                        .SetNumbers<int32_t>("tokenizer.ggml.token_type",
                                             ValueType::kI32, {2, 3, 4, 6})
                        .SetU32("tokenizer.ggml.bos_token_id", 3)
                        .SetU32("tokenizer.ggml.eos_token_id", 0)
                        .SetU32("tokenizer.ggml.unknown_token_id", 1)
                        .SetU32("tokenizer.ggml.eot_token_id", 2)
                        .SetU32("tokenizer.ggml.eom_token_id", 1)
                        .SetU32("tokenizer.ggml.padding_token_id", 3)
                        .SetBool("tokenizer.ggml.add_bos_token", false)
                        .SetBool("tokenizer.ggml.add_eos_token", true)
                        .SetBool("tokenizer.ggml.add_space_prefix", false));
  EXPECT_THAT(vocab.scores, ElementsAre(0, -1, -2, -3.5f));
  EXPECT_THAT(vocab.types,
              ElementsAre(TokenType::kUnknown, TokenType::kControl,
                          TokenType::kUserDefined, TokenType::kByte));
  EXPECT_EQ(vocab.bos, 3);
  EXPECT_EQ(vocab.eos, 0);
  EXPECT_EQ(vocab.unk, 1);
  EXPECT_EQ(vocab.eot, 2);
  EXPECT_EQ(vocab.eom, 1);
  EXPECT_EQ(vocab.pad, 3);
  EXPECT_FALSE(vocab.add_bos);
  EXPECT_TRUE(vocab.add_eos);
  EXPECT_FALSE(vocab.add_space_prefix);
}

TEST(ReadVocab, FilesWithoutOne) {
  for (TestFile file :
       {TestFile(), TestFile().SetText("tokenizer.ggml.model", "none"),
        TestFile().SetText("tokenizer.ggml.model", "no_vocab")}) {
    const ParsedCopy parsed(file.Bytes());
    const auto vocab = ReadVocab(**parsed.file);
    ASSERT_TRUE(vocab) << vocab.error().message;
    EXPECT_FALSE(*vocab);
  }
}

TEST(ReadVocab, OtherTokenizersAreNamed) {
  for (const char* name : {"bert", "t5", "rwkv", "something"}) {
    const Error error =
        VocabRefusal(Spm().SetText("tokenizer.ggml.model", name));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr(name));
  }
}

TEST(ReadVocab, ArraysOfOtherLengthsOrTypes) {
  const std::string scores = "tokenizer.ggml.scores";
  const std::string types = "tokenizer.ggml.token_type";
  ExpectCorruptVocab(
      Spm().SetNumbers<float>(scores, ValueType::kF32, {1, 2, 3}), scores);
  ExpectCorruptVocab(
      Spm().SetNumbers<int32_t>(scores, ValueType::kI32, {1, 2, 3, 4}),
      "an array of i32; expected an array of f32");
  ExpectCorruptVocab(
      Spm().SetNumbers<int32_t>(types, ValueType::kI32, {1, 1, 1, 1, 1}),
      types);
  ExpectCorruptVocab(
      Spm().SetNumbers<float>(types, ValueType::kF32, {1, 1, 1, 1}), types);
  ExpectCorruptVocab(Spm().SetU32(types, 1),
                     "is u32; expected an array of i32");
  ExpectCorruptVocab(
      Bpe().SetNumbers<float>("tokenizer.ggml.merges", ValueType::kF32, {1}),
      "tokenizer.ggml.merges");
  ExpectCorruptVocab(Spm().SetNumbers<float>("tokenizer.ggml.tokens",
                                             ValueType::kF32, {1, 2, 3, 4}),
                     "tokenizer.ggml.tokens");
}

TEST(ReadVocab, TokenTypes) {
  const std::string key = "tokenizer.ggml.token_type";
  const auto with = [&](int32_t type) {
    return Spm().SetNumbers<int32_t>(key, ValueType::kI32, {1, 1, type, 1});
  };
  EXPECT_EQ(ReadTestVocab(with(0)).types[2], TokenType::kNormal);
  EXPECT_EQ(ReadTestVocab(with(5)).types[2], TokenType::kUnused);
  ExpectCorruptVocab(with(7), "token 2 has type 7");
  ExpectCorruptVocab(with(-1), "token 2 has type -1");
}

TEST(ReadVocab, MissingParts) {
  ExpectCorruptVocab(Spm().Remove("tokenizer.ggml.tokens"),
                     "there are no tokens");
  ExpectCorruptVocab(Spm().SetTexts("tokenizer.ggml.tokens", {}),
                     "there are no tokens");
  ExpectCorruptVocab(Bpe().Remove("tokenizer.ggml.merges"), "merges");
}

TEST(ReadVocab, SpecialIdsOutOfRangeAreDropped) {
  const std::string key = "tokenizer.ggml.bos_token_id";
  for (int64_t id : {int64_t{4}, int64_t{-2}, int64_t{1} << 31}) {
    TestLog log;
    const Vocab vocab = ReadTestVocab(Spm().Set(key, ValueType::kI64, Raw(id)));
    EXPECT_EQ(vocab.bos, std::nullopt);
    EXPECT_THAT(log.lines(), ElementsAre(HasSubstr(key)));
  }
}

TEST(ReadVocab, MinusOneMeansNone) {
  TestLog log;
  const Vocab vocab =
      ReadTestVocab(Spm()
                        .SetU32("tokenizer.ggml.bos_token_id", 4294967295u)
                        .Set("tokenizer.ggml.eos_token_id", ValueType::kI32,
                             Raw(int32_t{-1})));
  EXPECT_EQ(vocab.bos, std::nullopt);
  EXPECT_EQ(vocab.eos, std::nullopt);
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(ReadVocab, DefaultsStayInsideATinyVocabulary) {
  TestLog log;
  const Vocab vocab =
      ReadTestVocab(Spm().SetTexts("tokenizer.ggml.tokens", {"x"}));
  EXPECT_EQ(vocab.unk, 0);
  EXPECT_EQ(vocab.bos, std::nullopt);
  EXPECT_EQ(vocab.eos, std::nullopt);
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(ReadVocab, KeysOfOtherTypes) {
  ExpectCorruptVocab(Spm().SetText("tokenizer.ggml.bos_token_id", "1"),
                     "bos_token_id");
  ExpectCorruptVocab(Spm().SetU32("tokenizer.ggml.add_bos_token", 1),
                     "add_bos_token");
  ExpectCorruptVocab(Spm().SetU32("tokenizer.ggml.pre", 1),
                     "tokenizer.ggml.pre");
  ExpectCorruptVocab(Spm().SetU32("tokenizer.ggml.model", 1),
                     "tokenizer.ggml.model");
}

TEST(ReadVocab, IdsOfTokensThatSwallowSpaceExist) {
  for (const int32_t id : {-1, 1 << 20}) {
    ExpectCorruptVocab(
        Spm().SetNumbers<int32_t>("tokenizer.thermocline.lstrip",
                                  gguf::ValueType::kI32, {0, id}),
        "tokenizer.thermocline.lstrip");
  }
}

TEST(ReadVocab, RealFiles) {
  const std::string root = std::string(TC_TEST_DATA) + "/";
  const struct {
    const char* path;
    VocabKind kind;
    size_t num_tokens;
    size_t num_merges;
    const char* pre;
    int bos;
    int eos;
    bool add_bos;
  } cases[] = {
      {"tokenizers/ggml-vocab-llama-spm.gguf", VocabKind::kSpm, 32000, 0,
       "default", 1, 2, true},
      {"tokenizers/ggml-vocab-phi-3.gguf", VocabKind::kSpm, 32064, 0, "default",
       1, 32000, true},
      {"tokenizers/ggml-vocab-gpt-2.gguf", VocabKind::kBpe, 50257, 50000,
       "gpt-2", 50256, 50256, false},
      {"models/stories260K.gguf", VocabKind::kSpm, 512, 0, "", 1, 2, true},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.path);
    const auto file = gguf::File::Open(root + c.path);
    ASSERT_TRUE(file) << file.error().message;
    const auto read = ReadVocab(**file);
    ASSERT_TRUE(read && *read);
    const Vocab& vocab = **read;
    EXPECT_EQ(vocab.kind, c.kind);
    EXPECT_EQ(vocab.tokens.size(), c.num_tokens);
    EXPECT_EQ(vocab.types.size(), c.num_tokens);
    EXPECT_EQ(vocab.merges.size(), c.num_merges);
    EXPECT_EQ(vocab.pre, c.pre);
    EXPECT_EQ(vocab.bos, c.bos);
    EXPECT_EQ(vocab.eos, c.eos);
    EXPECT_EQ(vocab.add_bos, c.add_bos);
  }
}

}  // namespace
}  // namespace thermocline::model
