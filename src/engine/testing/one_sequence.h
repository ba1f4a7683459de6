// An engine with one sequence, for tests that say how the engine is made.
#ifndef THERMOCLINE_ENGINE_TESTING_ONE_SEQUENCE_H_
#define THERMOCLINE_ENGINE_TESTING_ONE_SEQUENCE_H_

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/runtime.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine::testing {

class OneSequence {
 public:
  // edit: changes what the engine is made with, beyond `options`.
  OneSequence(std::shared_ptr<const model::Model> model,
              const SessionOptions& options,
              const std::function<void(EngineOptions&)>& edit)
      : plan_(PlanRuntime(model->config(), options).value()),
        vocab_size_(static_cast<size_t>(model->config().vocab_size)),
        pool_(os::ThreadPool::Create(
                  {.num_threads = plan_.num_threads, .pin = false})
                  .value()),
        kv_(KvPool::Create(plan_.kv, plan_.num_kv_pages).value()),
        sequence_(kv_.get(), plan_.engine.context) {
    edit(plan_.engine);
    engine_ = Engine::Create(std::move(model), plan_.engine, pool_.get());
  }

  // The logits of every token.
  Result<std::vector<float>> Run(const std::vector<text::TokenId>& tokens,
                                 Phase phase) {
    std::vector<float> logits(tokens.size() * vocab_size_);
    TC_RETURN_IF_ERROR(RunInto(tokens, phase, logits));
    return logits;
  }
  Status RunInto(std::span<const text::TokenId> tokens, Phase phase,
                 std::span<float> logits) {
    const BatchRun run = {&sequence_, tokens, phase, LogitsOf::kAll};
    return (*engine_)->Run({{&run, 1}}, logits);
  }

  // A prompt, then generated tokens, so many at a time.
  std::vector<float> RunAll(size_t num_prompt,
                            std::span<const size_t> generated) {
    const auto tokens = [&](size_t count, uint64_t seed) {
      return RandomTokens(count, static_cast<int64_t>(vocab_size_), seed);
    };
    std::vector<float> all = Run(tokens(num_prompt, 3), Phase::kPrompt).value();
    for (const size_t count : generated) {
      const auto more = Run(tokens(count, count), Phase::kGenerate).value();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  // Whether the engine could be made; else nothing below may be called.
  Status status() const {
    return engine_ ? Status() : Status(tl::unexpected(engine_.error()));
  }
  const Engine& engine() const { return **engine_; }
  Engine& engine() { return **engine_; }
  const KvSequence& sequence() const { return sequence_; }
  KvSequence& sequence() { return sequence_; }
  const KvPool& kv() const { return *kv_; }
  KvPool& kv() { return *kv_; }

 private:
  RuntimePlan plan_;
  size_t vocab_size_;
  std::unique_ptr<os::ThreadPool> pool_;
  std::unique_ptr<KvPool> kv_;
  KvSequence sequence_;
  Result<std::unique_ptr<Engine>> engine_;
};

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_ONE_SEQUENCE_H_
