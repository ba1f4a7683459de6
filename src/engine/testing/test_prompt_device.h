// For tests: sessions whose prompts the reference device computes.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_PROMPT_DEVICE_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_PROMPT_DEVICE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "engine/testing/tiny_model.h"
#include "npu/test_static_model.h"

namespace thermocline::engine::testing {

// Graphs of a few rows, from one row on, unchecked.
inline SessionOptions WithPrompts(std::shared_ptr<npu::StaticDevice> device,
                                  SessionOptions options = {}) {
  options.num_threads = 2;
  options.prompts.is_wanted = true;
  options.prompts.devices = {std::move(device)};
  options.prompts.graphs.rows = {8};
  options.prompts.least_rows = 1;
  options.prompts.check = PromptCheck::kOff;
  return options;
}

inline std::shared_ptr<npu::StaticDevice> ReferenceDevice() {
  return npu::MakeReferenceDevice();
}

// A session and what a test does with it: all logits, one after the other.
class PromptRig {
 public:
  // Fails the calling test if there is no session.
  PromptRig(std::shared_ptr<const model::Model> model,
            const SessionOptions& options) {
    auto session = Session::Create(std::move(model), options);
    EXPECT_TRUE(session.has_value()) << session.error().message;
    TC_CHECK(session.has_value());
    session_ = *std::move(session);
  }

  // Tokens of their number and of where they come.
  Status Decode(Phase phase, size_t count) {
    const size_t vocab_size = session_->model().config().vocab_size;
    const auto seed = static_cast<uint64_t>(session_->position()) + count;
    std::vector<float> rows(count * vocab_size);
    TC_RETURN_IF_ERROR(session_->Decode(RandomTokens(count, vocab_size, seed),
                                        phase, LogitsOf::kAll, rows));
    logits_.insert(logits_.end(), rows.begin(), rows.end());
    return {};
  }
  void Prompt(size_t count) { Expect(Decode(Phase::kPrompt, count)); }

  // The likeliest tokens, each behind the last.
  std::vector<text::TokenId> Generate(size_t count) {
    const size_t vocab_size = session_->model().config().vocab_size;
    std::vector<text::TokenId> tokens;
    for (size_t i = 0; i < count; ++i) {
      const auto best = std::max_element(
          logits_.end() - static_cast<std::ptrdiff_t>(vocab_size),
          logits_.end());
      tokens.push_back(static_cast<text::TokenId>(
          best - logits_.end() + static_cast<std::ptrdiff_t>(vocab_size)));
      std::vector<float> row(vocab_size);
      Expect(session_->Generate({&tokens.back(), 1}, LogitsOf::kLast, row));
      logits_.insert(logits_.end(), row.begin(), row.end());
    }
    return tokens;
  }

  Session& session() { return *session_; }
  const std::vector<float>& logits() const { return logits_; }

 private:
  static void Expect(const Status& status) {
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }

  std::unique_ptr<Session> session_;
  std::vector<float> logits_;
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_PROMPT_DEVICE_H_
