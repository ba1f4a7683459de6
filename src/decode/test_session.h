// A session that says what a test tells it to, over a small vocabulary.
#ifndef THERMOCLINE_DECODE_TEST_SESSION_H_
#define THERMOCLINE_DECODE_TEST_SESSION_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "engine/session.h"
#include "model/model.h"

namespace thermocline::decode {

using Tokens = std::vector<text::TokenId>;

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::shared_ptr<const model::Model> Stories() {
  static const auto model = model::Model::Open(std::string(TC_TEST_DATA) +
                                               "/models/stories260K.gguf");
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return *model;
}

inline GenerateOptions Greedy() {
  GenerateOptions options;
  options.sampler.temperature = 0.0f;
  return options;
}

// Prefers the tokens of a script, one after each Decode call.
class ScriptedSession final : public engine::Session {
 public:
  ScriptedSession(std::shared_ptr<const model::Model> model, Tokens script,
                  int64_t context = 100)
      : model_(std::move(model)),
        script_(std::move(script)),
        context_(context) {}

  Status Decode(std::span<const text::TokenId> tokens, engine::Phase /*phase*/,
                engine::LogitsOf which, std::span<float> logits) override {
    EXPECT_EQ(which, engine::LogitsOf::kLast);
    if (fail_at_call == num_calls++) {
      return Fail(fail_code, "scripted failure");
    }
    decoded.insert(decoded.end(), tokens.begin(), tokens.end());
    held.insert(held.end(), tokens.begin(), tokens.end());
    std::ranges::fill(logits, 0.0f);
    if (next_ < script_.size()) {
      logits[static_cast<size_t>(script_[next_++])] = 10.0f;
    }
    logits[second_choice] += 5.0f;
    return {};
  }
  int64_t position() const override {
    return static_cast<int64_t>(held.size());
  }
  int64_t context() const override { return context_; }
  int num_threads() const override { return 1; }
  kernels::Isa isa() const override { return kernels::Isa::kScalar; }
  engine::FfnMode ffn() const override { return engine::FfnMode::kDense; }
  const engine::MemoryPlan& memory() const override { return need_; }
  const engine::Placement& placement() const override { return placement_; }
  const model::Model& model() const override { return *model_; }
  void Truncate(int64_t length) override {
    ASSERT_LE(length, position());
    held.resize(static_cast<size_t>(length));
  }

  Tokens decoded;  // by all calls
  Tokens held;     // those at the positions
  size_t second_choice = 3;
  int num_calls = 0;
  int fail_at_call = -1;
  ErrorCode fail_code = ErrorCode::kCorrupt;

 private:
  std::shared_ptr<const model::Model> model_;
  Tokens script_;
  size_t next_ = 0;
  int64_t context_;
  engine::MemoryPlan need_;
  engine::Placement placement_;
};

// Ids of a text without BOS and without the space put in front.
inline Tokens Ids(const std::string& text) {
  const auto model = Stories();
  Tokens ids;
  for (const char c : text) {
    for (text::TokenId id = 0; id < model->tokenizer()->num_tokens(); ++id) {
      if (model->tokenizer()->Piece(id, false) == std::string(1, c)) {
        ids.push_back(id);
        break;
      }
    }
  }
  EXPECT_EQ(ids.size(), text.size());
  return ids;
}

}  // namespace thermocline::decode

#endif  // THERMOCLINE_DECODE_TEST_SESSION_H_
