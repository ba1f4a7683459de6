// Two sequences of a runtime, as tests of streams decode with them.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_STREAM_RIG_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_STREAM_RIG_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/runtime.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine::testing {

class StreamRig {
 public:
  using Logits = std::vector<float>;

  // Fails the calling test if there is no runtime.
  StreamRig(std::shared_ptr<const model::Model> model,
            const SessionOptions& options) {
    auto runtime = Runtime::Create(std::move(model), options);
    EXPECT_TRUE(runtime) << runtime.error().message;
    if (runtime) Take(*std::move(runtime));
  }
  explicit StreamRig(std::unique_ptr<Runtime> runtime) {
    Take(std::move(runtime));
  }

  // Tokens of their number, in passes as long as there may be.
  Status Decode(size_t sequence, Phase phase, size_t count, Logits& logits,
                const PassHooks& hooks = {}) {
    const auto tokens = RandomTokens(count, vocab_size(), count + sequence);
    return DecodeTokens(sequence, phase, tokens, logits, hooks);
  }

  Status DecodeTokens(size_t sequence, Phase phase,
                      std::span<const text::TokenId> tokens, Logits& logits,
                      const PassHooks& hooks = {}) {
    const auto most = static_cast<size_t>(runtime_->plan().engine.max_rows);
    logits.assign(tokens.size() * vocab_size(), 0.0f);
    for (size_t first = 0; first < tokens.size(); first += most) {
      const size_t num_rows = std::min(most, tokens.size() - first);
      const BatchRun run = {&sequences_[sequence],
                            tokens.subspan(first, num_rows), phase,
                            LogitsOf::kAll};
      TC_RETURN_IF_ERROR(
          engine().Run({{&run, 1}},
                       std::span(logits).subspan(first * vocab_size(),
                                                 num_rows * vocab_size()),
                       hooks));
    }
    return {};
  }

  // The same, behind what `all` has.
  void Add(size_t sequence, Phase phase, size_t count, Logits& all) {
    Logits logits;
    Append(Decode(sequence, phase, count, logits), logits, all);
  }

  // A prompt of sequence 1 beside two generated rows of sequence 0.
  void AddMixed(size_t num_prompt, Logits& all) {
    const auto tokens = RandomTokens(num_prompt + 2, vocab_size());
    const BatchRun runs[] = {
        {&sequences_[1], std::span(tokens).first(num_prompt), Phase::kPrompt,
         LogitsOf::kAll},
        {&sequences_[0], std::span(tokens).last(2), Phase::kGenerate,
         LogitsOf::kAll}};
    Logits logits(tokens.size() * vocab_size());
    Append(engine().Run({runs}, logits), logits, all);
  }

  Engine& engine() { return runtime_->engine(); }
  const Runtime& runtime() const { return *runtime_; }

 private:
  size_t vocab_size() { return engine().model().config().vocab_size; }

  void Take(std::unique_ptr<Runtime> runtime) {
    runtime_ = std::move(runtime);
    for (int i = 0; i < 2; ++i) sequences_.push_back(runtime_->NewSequence());
  }

  static void Append(const Status& status, const Logits& logits, Logits& all) {
    EXPECT_TRUE(status) << status.error().message;
    all.insert(all.end(), logits.begin(), logits.end());
  }

  std::unique_ptr<Runtime> runtime_;
  std::vector<KvSequence> sequences_;
};

// All that its stream read went straight to slots that the kernel knows, where
// that has registered them.
inline void ExpectReadToSlots(const Engine& engine) {
  const storage::BlockReader& reader = engine.stream()->reader();
  const storage::ReaderStats stats = reader.stats();
  EXPECT_GT(stats.num_reads, 0u);
  if (!reader.Describe().ends_with("registered buffers")) return;
  EXPECT_GT(stats.num_registered, 0u);
  EXPECT_GE(stats.num_registered + stats.num_bounced, stats.num_reads);
}

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_STREAM_RIG_H_
