#include "model/vocab_metadata.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace thermocline::model {
namespace {

using text::TokenType;
using text::Vocab;
using text::VocabKind;

Vocab RoundTrip(const Vocab& vocab) {
  const std::string path =
      fmt::format("{}vocab_{}.gguf", ::testing::TempDir(), getpid());
  auto writer = gguf::Writer::Create(path);
  EXPECT_TRUE(writer) << writer.error().message;
  const Status status = WriteVocab(vocab, **writer);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_TRUE((*writer)->Start());
  EXPECT_TRUE((*writer)->Finish());
  const auto file = gguf::File::Open(path);
  unlink(path.c_str());
  EXPECT_TRUE(file) << file.error().message;
  const auto read = ReadVocab(**file);
  EXPECT_TRUE(read) << read.error().message;
  return **read;
}

void ExpectSame(const Vocab& a, const Vocab& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.pre, b.pre);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.scores, b.scores);
  EXPECT_EQ(a.types, b.types);
  EXPECT_EQ(a.merges, b.merges);
  EXPECT_EQ(a.bos, b.bos);
  EXPECT_EQ(a.eos, b.eos);
  EXPECT_EQ(a.eot, b.eot);
  EXPECT_EQ(a.eom, b.eom);
  EXPECT_EQ(a.unk, b.unk);
  EXPECT_EQ(a.pad, b.pad);
  EXPECT_EQ(a.add_bos, b.add_bos);
  EXPECT_EQ(a.add_eos, b.add_eos);
  EXPECT_EQ(a.add_space_prefix, b.add_space_prefix);
  EXPECT_EQ(a.space_prefix_once, b.space_prefix_once);
  EXPECT_EQ(a.lstrip, b.lstrip);
  EXPECT_EQ(a.rstrip, b.rstrip);
}

TEST(WriteVocab, RoundTripOfEverything) {
  Vocab vocab;
  vocab.kind = VocabKind::kSpm;
  vocab.pre = "default";
  vocab.tokens = {"<unk>", std::string("a\0b", 3), "\xff", "", "x", "y"};
  vocab.scores = {0, -1, 0.1f, 1e30f, -4, 5};
  vocab.types = {TokenType::kUnknown,     TokenType::kControl,
                 TokenType::kByte,        TokenType::kUnused,
                 TokenType::kUserDefined, TokenType::kNormal};
  vocab.bos = 5;
  vocab.eos = 4;
  vocab.eot = 3;
  vocab.eom = 2;
  vocab.unk = 1;
  vocab.pad = 0;
  vocab.add_bos = false;
  vocab.add_eos = true;
  vocab.add_space_prefix = false;
  vocab.space_prefix_once = true;
  vocab.lstrip = {1, 3};
  vocab.rstrip = {2};
  ExpectSame(RoundTrip(vocab), vocab);
}

TEST(WriteVocab, RoundTripOfAsLittleAsPossible) {
  // Against the reader's defaults: an SPM one without BOS, EOS and UNK, a BPE
  // one of a kind that usually puts BOS in front.
  Vocab spm;
  spm.kind = VocabKind::kSpm;
  spm.tokens = {"a", "b", "c", "d"};
  ExpectSame(RoundTrip(spm), spm);
  Vocab bpe;
  bpe.kind = VocabKind::kBpe;
  bpe.pre = "llama-bpe";
  bpe.tokens = {"a"};
  ExpectSame(RoundTrip(bpe), bpe);
  Vocab characters;
  characters.kind = VocabKind::kCharBpe;
  characters.tokens = {"a"};
  characters.add_bos = true;
  ExpectSame(RoundTrip(characters), characters);
}

TEST(WriteVocab, RoundTripOfARealOne) {
  const auto file = gguf::File::Open(std::string(TC_TEST_DATA) +
                                     "/tokenizers/ggml-vocab-gpt-2.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const auto vocab = ReadVocab(**file);
  ASSERT_TRUE(vocab && *vocab);
  ExpectSame(RoundTrip(**vocab), **vocab);
}

TEST(WriteVocab, PassesTheWritersErrorsOn) {
  const std::string path =
      fmt::format("{}vocab_twice_{}.gguf", ::testing::TempDir(), getpid());
  auto writer = gguf::Writer::Create(path);
  ASSERT_TRUE(writer);
  Vocab vocab;
  vocab.tokens = {"a"};
  ASSERT_TRUE(WriteVocab(vocab, **writer));
  EXPECT_FALSE(WriteVocab(vocab, **writer)) << "every key would be there twice";
}

}  // namespace
}  // namespace thermocline::model
