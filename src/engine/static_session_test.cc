// A session on static graphs is like one on the host, whatever the form of keys
// and values.
#include "engine/static_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/testing/test_prompt_device.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::MakeTinyModel;
using testing::Nmse;
using testing::RandomTokens;
using testing::ReferenceDevice;

std::shared_ptr<const model::Model> TwoLayers() {
  return MakeTinyModel({.dtype = DType::kF16});
}

std::unique_ptr<Session> OnReference(npu::KvForm kv,
                                     StaticSessionOptions options = {}) {
  options.graphs.kv = kv;
  options.graphs.rows = {1};
  if (kv == npu::KvForm::kAppend) options.graphs.rows = {1, 8};
  options.graphs.context = 64;
  options.graphs.contexts = {64};
  return MakeStaticSession(TwoLayers(), ReferenceDevice(), options).value();
}

// Logits of a talk with a turn that is taken back.
std::vector<float> TalkOf(Session& session) {
  const size_t vocab_size = session.model().config().vocab_size;
  std::vector<float> all;
  const auto decode = [&](size_t count, Phase phase) {
    std::vector<float> rows(count * vocab_size);
    const Status status = session.Decode(RandomTokens(count, vocab_size, count),
                                         phase, LogitsOf::kAll, rows);
    EXPECT_TRUE(status.has_value()) << status.error().message;
    all.insert(all.end(), rows.begin(), rows.end());
  };
  decode(13, Phase::kPrompt);
  decode(1, Phase::kGenerate);
  session.Truncate(9);
  decode(4, Phase::kPrompt);
  decode(1, Phase::kGenerate);
  EXPECT_EQ(session.position(), 14);
  return all;
}

TEST(StaticSessionTest, LogitsAreTheHosts) {
  const auto host =
      Session::Create(TwoLayers(), {.num_threads = 1, .ffn = FfnMode::kDense});
  const std::vector<float> expected = TalkOf(**host);
  for (const npu::KvForm kv : {npu::KvForm::kAppend, npu::KvForm::kScatter,
                               npu::KvForm::kRoll, npu::KvForm::kStateful}) {
    const auto session = OnReference(kv);
    EXPECT_LT(Nmse(TalkOf(*session), expected), 1e-5) << npu::NameOf(kv);
    EXPECT_THAT(session->prompt_device(), HasSubstr("reference"));
    EXPECT_GT(session->memory().host.graphs, 0u);
  }
}

// All of a context may come in one call; and no token is as the file has it.
TEST(StaticSessionTest, WhatItTakesAndReads) {
  const auto model = TwoLayers();
  const auto session = OnReference(npu::KvForm::kAppend);
  EXPECT_EQ(session->memory().host.scratch,
            65 * model->config().width * sizeof(float));
  const npu::StaticOptions graphs = {
      .rows = {1, 8}, .context = 64, .contexts = {64}, .has_head = true};
  EXPECT_EQ(session->device_token_bytes(5), npu::TokenBytes(*model, graphs, 5));
  const auto host = Session::Create(model, {.num_threads = 1});
  EXPECT_EQ((*host)->device_token_bytes(5), std::nullopt);
  EXPECT_THAT(session->prompt_device(),
              HasSubstr(" of its own for each shape"));
}

TEST(StaticSessionTest, TokensThatCannotBe) {
  const auto session = OnReference(npu::KvForm::kAppend);
  std::vector<float> logits(session->model().config().vocab_size);
  const auto code = [&](const std::vector<text::TokenId>& tokens) {
    const Status status = session->Prompt(tokens, LogitsOf::kLast, logits);
    EXPECT_EQ(session->position(), 0);
    return status.error().code;
  };
  EXPECT_EQ(code({}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({-1}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({1, 50}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(std::vector<text::TokenId>(65, 1)),
            ErrorCode::kResourceExhausted);
}

TEST(StaticSessionTest, ACancelledPromptLeavesTheSessionAsItWas) {
  std::atomic<bool> cancel = true;
  for (const npu::KvForm kv : {npu::KvForm::kAppend, npu::KvForm::kRoll}) {
    cancel = true;
    const auto session = OnReference(kv, {.cancel = &cancel});
    std::vector<float> logits(session->model().config().vocab_size);
    const Status status = session->Prompt(std::vector<text::TokenId>{1, 2},
                                          LogitsOf::kLast, logits);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
    EXPECT_EQ(session->position(), 0);
    cancel = false;
    EXPECT_TRUE(session->Prompt(std::vector<text::TokenId>{1, 2},
                                LogitsOf::kLast, logits));
  }
}

TEST(StaticSessionTest, LogitsThatAreNotFiniteAreAnError) {
  const auto model = MakeTinyModel(
      {.dtype = DType::kF16,
       .edit = [](const std::string& name, std::span<float> values) {
         if (name != "output_norm.weight") return;
         for (float& value : values) value = 3e38f;
       }});
  StaticSessionOptions options;
  options.graphs.rows = {1};
  options.graphs.context = 64;
  const auto session = MakeStaticSession(model, ReferenceDevice(), options);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  std::vector<float> logits(model->config().vocab_size);
  const Status status = (*session)->Prompt(std::vector<text::TokenId>{1, 2},
                                           LogitsOf::kLast, logits);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("the logits are not finite"));
  EXPECT_EQ((*session)->position(), 0);
}

// Beyond its table the file has something else.
TEST(StaticSessionTest, AContextHasThePositionsThatTheModelLearned) {
  testing::TinySpec spec;
  testing::UseArchitecture("opt", spec);
  const auto model = MakeTinyModel(spec);
  StaticSessionOptions options;
  options.graphs.context = 0;
  EXPECT_EQ(
      MakeStaticSession(model, ReferenceDevice(), options).error().message,
      "a context of 0 positions: there is at least one");
  for (const int64_t beyond : {0, 1}) {
    options.graphs.context = model->config().num_positions + beyond;
    const auto made = MakeStaticSession(model, ReferenceDevice(), options);
    ASSERT_EQ(made.has_value(), beyond == 0);
    if (beyond == 0) continue;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(made.error().message, HasSubstr("this model learned"));
  }
}

TEST(StaticSessionTest, ABudgetIsKeptToBeforeAnythingIsMade) {
  const auto enough = OnReference(npu::KvForm::kAppend)->memory().host.total();
  for (const uint64_t less : {0, 1}) {
    StaticSessionOptions options = {.budget = {.ram = enough - less}};
    options.graphs.rows = {1, 8};
    options.graphs.context = 64;
    options.graphs.contexts = {64};
    const auto made =
        MakeStaticSession(TwoLayers(), ReferenceDevice(), options);
    ASSERT_EQ(made.has_value(), less == 0);
    if (less == 0) continue;
    EXPECT_EQ(made.error().code, ErrorCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace thermocline::engine
