#include "engine/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/remedy.h"
#include "compute/stage_times.h"
#include "compute/test_compute.h"
#include "engine/testing/tiny_model.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "model/test_model.h"
#include "os/memory.h"

namespace thermocline::engine {
namespace {

using testing::kRoundedNmse;
using testing::MakeTinyModel;
using testing::Nmse;
using testing::RandomTokens;
using testing::TinySpec;
using testing::WideSpec;

using Tokens = std::vector<text::TokenId>;

constexpr size_t kVocab = 50;

std::unique_ptr<Session> Open(const std::shared_ptr<const model::Model>& model,
                              const SessionOptions& options = {}) {
  auto session = Session::Create(model, options);
  EXPECT_TRUE(session.has_value()) << session.error().message;
  return session.has_value() ? *std::move(session) : nullptr;
}

std::vector<float> DecodeAll(Session& session, std::span<const int32_t> tokens,
                             Phase phase = Phase::kPrompt) {
  std::vector<float> logits(tokens.size() * kVocab);
  const Status status = session.Decode(tokens, phase, LogitsOf::kAll, logits);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return logits;
}

ErrorCode CodeOf(const Status& status) {
  EXPECT_FALSE(status.has_value());
  return status.has_value() ? ErrorCode::kIo : status.error().code;
}

// Mixed types, so that both forms of activations occur.
TinySpec MixedSpec() {
  TinySpec spec = WideSpec(DType::kQ4_0);
  spec.value_dtype = DType::kF16;
  return spec;
}

TEST(Session, BitEqualForEveryThreadCount) {
  const auto model = MakeTinyModel(MixedSpec());
  ASSERT_NE(model, nullptr);
  const Tokens tokens = RandomTokens(33, kVocab);
  for (const kernels::Isa isa : compute::testing::IsasOfModels()) {
    SessionOptions options;
    options.isa = isa;
    options.num_threads = 1;
    const auto expected = DecodeAll(*Open(model, options), tokens);
    for (const int num_threads : {2, 3, 7}) {
      options.num_threads = num_threads;
      const auto session = Open(model, options);
      EXPECT_EQ(session->num_threads(), num_threads);
      EXPECT_EQ(DecodeAll(*session, tokens), expected)
          << kernels::NameOf(isa) << " " << num_threads;
    }
  }
}

// Every cut of a prompt, and of what is generated, gives one result each; the
// two agree to rounding.
TEST(Session, BitEqualHoweverThePhasesAreCut) {
  const auto model = MakeTinyModel(MixedSpec());
  ASSERT_NE(model, nullptr);
  const Tokens tokens = RandomTokens(135, kVocab);
  for (const kernels::Isa isa : compute::testing::IsasOfModels()) {
    SCOPED_TRACE(std::string(kernels::NameOf(isa)));
    SessionOptions options;
    options.isa = isa;
    options.num_threads = 2;
    options.context = 192;
    std::vector<float> of_phase[kNumPhases];
    for (const Phase phase : kPhases) {
      std::vector<float>& expected = of_phase[static_cast<size_t>(phase)];
      for (const int64_t batch : {512, 1, 12, 64}) {
        options.batch = batch;
        const auto got = DecodeAll(*Open(model, options), tokens, phase);
        if (expected.empty()) expected = got;
        EXPECT_EQ(got, expected) << batch;
      }
      options.batch = 512;
      const auto session = Open(model, options);
      std::vector<float> pieces;
      for (size_t begin = 0; begin < tokens.size();) {
        const size_t count = std::min(1 + begin % 40, tokens.size() - begin);
        const auto piece =
            DecodeAll(*session, std::span(tokens).subspan(begin, count), phase);
        pieces.insert(pieces.end(), piece.begin(), piece.end());
        begin += count;
      }
      EXPECT_EQ(pieces, expected);
    }
    EXPECT_LE(Nmse(of_phase[0], std::span<const float>(of_phase[1])),
              kRoundedNmse);
  }
}

// Also where the head multiplies one row of many.
TEST(Session, LastLogitsAreTheLastOfAll) {
  const auto model = MakeTinyModel(MixedSpec());
  ASSERT_NE(model, nullptr);
  const Tokens tokens = RandomTokens(80, kVocab);
  for (const int64_t batch : {8, 20, 80}) {
    SessionOptions options;
    options.context = 160;
    options.batch = batch;
    const auto all = DecodeAll(*Open(model, options), tokens);
    const auto session = Open(model, options);
    std::vector<float> last(kVocab);
    ASSERT_TRUE(session->Prompt(tokens, LogitsOf::kLast, last).has_value());
    EXPECT_TRUE(std::equal(last.begin(), last.end(), all.end() - kVocab));
    EXPECT_EQ(session->position(), 80);
    ASSERT_TRUE(session->Prompt(tokens, LogitsOf::kNone, {}).has_value());
    EXPECT_EQ(session->position(), 160);
  }
}

TEST(Session, KvTypesRoundWithinBounds) {
  const auto model = MakeTinyModel(WideSpec(DType::kF32));
  ASSERT_NE(model, nullptr);
  const Tokens tokens = RandomTokens(40, kVocab);
  SessionOptions options;
  options.k_type = options.v_type = DType::kF32;
  const auto exact = DecodeAll(*Open(model, options), tokens);
  const auto nmse_of = [&](DType k_type, DType v_type) {
    options.k_type = k_type;
    options.v_type = v_type;
    return Nmse(DecodeAll(*Open(model, options), tokens),
                std::span<const float>(exact));
  };
  const double f16 = nmse_of(DType::kF16, DType::kF16);
  EXPECT_GT(f16, 0.0);
  EXPECT_LT(f16, 1e-6);
  const double q8 = nmse_of(DType::kQ8_0, DType::kQ8_0);
  EXPECT_GT(q8, f16);
  EXPECT_LT(q8, 1e-3);
  EXPECT_LT(nmse_of(DType::kQ8_0, DType::kF16), 1e-3);
  EXPECT_LT(nmse_of(DType::kF16, DType::kQ8_0), 1e-3);
}

void ExpectTruncateForgets(const std::shared_ptr<const model::Model>& model,
                           const SessionOptions& options) {
  ASSERT_NE(model, nullptr);
  const Tokens tokens = RandomTokens(12, kVocab);
  const Tokens others = RandomTokens(9, kVocab, 8);
  const auto session = Open(model, options);
  const auto expected = DecodeAll(*session, tokens);
  session->Truncate(4);
  EXPECT_EQ(session->position(), 4);
  DecodeAll(*session, others);
  session->Truncate(4);
  const auto again = DecodeAll(*session, std::span(tokens).subspan(4));
  EXPECT_TRUE(
      std::equal(again.begin(), again.end(), expected.begin() + 4 * kVocab));
  session->Truncate(0);
  EXPECT_EQ(DecodeAll(*session, tokens), expected);
}

TEST(Session, TruncateForgets) {
  ExpectTruncateForgets(MakeTinyModel(MixedSpec()), {.batch = 3});
}

TEST(Session, TruncateForgetsPositionsOfGroups) {
  ExpectTruncateForgets(
      MakeTinyModel(WideSpec(DType::kF32)),
      {.k_type = DType::kQ8_0, .v_type = DType::kQ8_0, .batch = 3});
}

TEST(Session, MemoryIsWhatWasPlanned) {
  const auto model = MakeTinyModel(TinySpec());
  ASSERT_NE(model, nullptr);
  const SessionOptions options;
  const auto session = Open(model, options);
  const auto need = PlanMemory(model->config(), options);
  ASSERT_TRUE(need.has_value());
  EXPECT_EQ(session->memory().host.kv, need->host.kv);
  EXPECT_EQ(session->memory().host.scratch, need->host.scratch);
  EXPECT_EQ(session->context(), 64);
  EXPECT_EQ(session->isa(), kernels::BestIsa());
  EXPECT_EQ(&session->model(), model.get());
}

// What is generated has its bytes counted, alone or together; prompts do not.
TEST(Session, BytesOfNeuronsCountForWhatIsGenerated) {
  TinySpec spec = WideSpec(DType::kQ8_0);
  testing::UseArchitecture("mixtral", spec);
  spec.activation = "relu";
  const auto model = testing::OpenTinyModel(spec, {.bundle_at_load = true});
  ASSERT_TRUE(model.has_value()) << model.error().message;
  compute::StageTimes times;
  const auto session =
      Open(*model, {.num_threads = 1, .ffn = FfnMode::kExact, .times = &times});
  const compute::StageTotals& neurons = times.of(compute::Stage::kNeurons);
  DecodeAll(*session, Tokens{2, 3, 4});
  EXPECT_GT(neurons.num_calls, 0u);
  EXPECT_EQ(neurons.num_bytes, 0u);
  DecodeAll(*session, Tokens{1}, Phase::kGenerate);
  const uint64_t of_one = neurons.num_bytes;
  EXPECT_GT(of_one, 0u);
  DecodeAll(*session, Tokens{1, 1}, Phase::kGenerate);
  EXPECT_GT(neurons.num_bytes, 2 * of_one);
}

TEST(Session, RefusesBadTokensAndStaysWhereItWas) {
  const auto model = MakeTinyModel(TinySpec());
  ASSERT_NE(model, nullptr);
  const auto session = Open(model);
  DecodeAll(*session, Tokens{1, 2, 3});
  std::vector<float> logits(kVocab);
  for (const int32_t bad : {-1, 50, INT32_MAX, INT32_MIN}) {
    const Status status =
        session->Prompt(Tokens{4, bad}, LogitsOf::kLast, logits);
    EXPECT_EQ(CodeOf(status), ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find(std::to_string(bad)),
              std::string::npos);
  }
  EXPECT_EQ(CodeOf(session->Prompt({}, LogitsOf::kLast, logits)),
            ErrorCode::kInvalidArgument);
  const Status too_many =
      session->Prompt(RandomTokens(62, kVocab), LogitsOf::kLast, logits);
  EXPECT_EQ(CodeOf(too_many), ErrorCode::kResourceExhausted);
  EXPECT_NE(too_many.error().message.find("62"), std::string::npos);
  EXPECT_NE(too_many.error().message.find("61"), std::string::npos);
  EXPECT_EQ(session->position(), 3);
  // Exactly full is fine; one more is not.
  EXPECT_TRUE(session->Prompt(RandomTokens(61, kVocab), LogitsOf::kLast, logits)
                  .has_value());
  EXPECT_EQ(CodeOf(session->Prompt(Tokens{1}, LogitsOf::kLast, logits)),
            ErrorCode::kResourceExhausted);
}

TEST(Session, NamesTheLayerThatIsNotFinite) {
  for (const char* tensor : {"blk.1.attn_v.weight", "blk.1.ffn_down.weight",
                             "blk.1.attn_norm.weight"}) {
    TinySpec spec;
    spec.num_layers = 3;
    spec.edit = [&](const std::string& name, std::span<float> values) {
      if (name == tensor) values[40] = std::nanf("");
    };
    const auto model = MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    const auto session = Open(model);
    std::vector<float> logits(kVocab);
    const Status status =
        session->Prompt(Tokens{1, 2}, LogitsOf::kLast, logits);
    EXPECT_EQ(CodeOf(status), ErrorCode::kCorrupt);
    const std::string& message = status.error().message;
    EXPECT_NE(message.find("layer 1"), std::string::npos) << message;
    EXPECT_EQ(status.error().advice.remedy, Remedy::kCheckOrWideKv);
    EXPECT_EQ(session->position(), 0);
  }
}

TEST(Session, NamesEmbeddingAndHeadThatAreNotFinite) {
  const auto message_with = [](const std::string& tensor) {
    TinySpec spec;
    spec.edit = [&](const std::string& name, std::span<float> values) {
      if (name == tensor) {
        values[96 + 5] = std::numeric_limits<float>::infinity();  // row 1
      }
    };
    const auto model = MakeTinyModel(spec);
    std::vector<float> logits(kVocab);
    const auto session = Open(model);
    const Status status = session->Prompt(Tokens{1}, LogitsOf::kLast, logits);
    EXPECT_EQ(CodeOf(status), ErrorCode::kCorrupt);
    return status.has_value() ? std::string() : status.error().message;
  };
  EXPECT_NE(message_with("token_embd.weight").find("embedding"),
            std::string::npos);
  EXPECT_NE(message_with("output.weight").find("head"), std::string::npos);
}

TEST(Session, CancelStopsBetweenLayersAndRestoresThePosition) {
  const auto model = MakeTinyModel(TinySpec());
  ASSERT_NE(model, nullptr);
  std::atomic<bool> cancel = false;
  SessionOptions options;
  options.cancel = &cancel;
  options.batch = 4;
  int num_calls = 0;
  uint64_t last_done = 0;
  options.progress = [&](std::string_view, uint64_t done, uint64_t total) {
    EXPECT_EQ(total, 20u);
    EXPECT_LE(done, total);
    EXPECT_GE(done, last_done);
    last_done = done;
    if (++num_calls == 5) cancel = true;  // in the third of five batches
  };
  const auto session = Open(model, options);
  const Tokens tokens = RandomTokens(20, kVocab);
  std::vector<float> logits(kVocab);
  EXPECT_EQ(CodeOf(session->Prompt(tokens, LogitsOf::kLast, logits)),
            ErrorCode::kCancelled);
  EXPECT_EQ(num_calls, 5);
  EXPECT_EQ(session->position(), 0);
  cancel = false;
  last_done = 0;
  EXPECT_TRUE(session->Prompt(tokens, LogitsOf::kLast, logits).has_value());
  const auto expected = DecodeAll(*Open(model), tokens);
  EXPECT_TRUE(
      std::equal(logits.begin(), logits.end(), expected.end() - kVocab));
}

TEST(Session, RefusesMoreThanTheRamBeforeAllocating) {
  const auto model = MakeTinyModel(TinySpec());
  ASSERT_NE(model, nullptr);
  SessionOptions options;
  // 2 layers * 32 wide * (K, V) * 2 bytes: 256 bytes a position.
  options.context =
      static_cast<int64_t>(os::ReadMemoryInfo().total_bytes / 256 + 1);
  const auto session = Session::Create(model, options);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(session.error().message.find("RAM"), std::string::npos);
}

TEST(Session, RefusesOptionsThatDoNotFitTheModel) {
  const auto model = MakeTinyModel(TinySpec());  // heads of 16
  ASSERT_NE(model, nullptr);
  SessionOptions options;
  options.k_type = DType::kQ8_0;
  const auto session = Session::Create(model, options);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(session.error().message.find("16"), std::string::npos);
}

// Why there is no session of a file that lies `shift` bytes behind an aligned
// place of memory.
Error RefusalOfShifted(const std::string& file, size_t shift) {
  const std::string bytes = std::string(shift, ' ') + file;
  auto parsed = gguf::File::Parse(
      std::as_bytes(std::span(bytes)).subspan(shift), "shifted");
  if (!parsed) return parsed.error();
  const auto model = model::Model::FromFile(*std::move(parsed));
  if (!model) return model.error();
  const auto session = Session::Create(*model, {});
  return session ? Error{} : session.error();
}

TEST(Session, RefusesFloatsThatAreNotAligned) {
  std::ifstream file(std::string(TC_TEST_DATA) + "/golden/qwen2-bias-f16.gguf",
                     std::ios::binary);
  const Error refused =
      RefusalOfShifted({std::istreambuf_iterator<char>(file), {}}, 1);
  EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.message.find("shifted"), std::string::npos);
}

// One of a layer's is enough: either it lies apart from the others, or they do.
TEST(Session, RefusesOneNormThatIsNotAligned) {
  gguf::TestFile file = model::TestModel();
  const std::string norm = "blk.1.attn_norm.weight";
  file.alignment = 2;
  file.SetU32("general.alignment", 2);
  constexpr size_t kBehindAll = 64 << 10;
  file.RemoveTensor(norm)
      .AppendTensorInfo(norm, {32}, 0, kBehindAll + 2)
      .AppendData(kBehindAll);
  for (const size_t shift : {0, 2}) {
    const Error refused = RefusalOfShifted(file.Bytes(), shift);
    EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
    EXPECT_NE(refused.message.find("4 bytes"), std::string::npos);
  }
}

TEST(Session, WarnsPastTheTrainedContext) {
  const auto model = MakeTinyModel(TinySpec());
  ASSERT_NE(model, nullptr);
  std::string warnings;
  SetLogSink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) warnings += line;
  });
  SessionOptions options;
  options.context = 64;
  Open(model, options);
  EXPECT_EQ(warnings, "");
  options.context = 65;
  const auto session = Open(model, options);
  SetLogSink({});
  EXPECT_NE(warnings.find("65"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("64"), std::string::npos) << warnings;
  DecodeAll(*session, RandomTokens(65, kVocab));
}

}  // namespace
}  // namespace thermocline::engine
