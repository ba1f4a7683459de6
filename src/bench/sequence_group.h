// Sequences of one engine that generate together, pass after pass.
#ifndef THERMOCLINE_BENCH_SEQUENCE_GROUP_H_
#define THERMOCLINE_BENCH_SEQUENCE_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "bench/greedy_choice.h"
#include "bench/token_progress.h"
#include "engine/runtime.h"
#include "model/model.h"
#include "text/vocab.h"

namespace thermocline::bench {

// What one sequence computes.
struct SequenceStory {
  std::vector<text::TokenId> prompt;
  // One for each pass. Empty, with a prompt: the model's own continuation.
  std::vector<text::TokenId> generated;
};

// kCorrupt names the first sequence whose logits have another hash together
// with others than alone.
Status CheckAsAlone(std::span<const uint64_t> alone,
                    std::span<const uint64_t> together);

// Owns     runtime and sequences. Keeps the model alive, borrows the progress.
// Threads  one caller at a time.
class SequenceGroup {
 public:
  // For at most options.num_sequences sequences. Errors of Runtime::Create.
  static Result<std::unique_ptr<SequenceGroup>> Create(
      std::shared_ptr<const model::Model> model,
      const engine::SessionOptions& options, TokenProgress* progress);

  const engine::Runtime& runtime() const { return *runtime_; }
  // With what the model has gone on with, once they have started.
  std::span<const SequenceStory> stories() const { return stories_; }

  // Computes each story alone: its prompt, and then num_passes tokens, whose
  // logits are what Generate's must be. Errors of Engine::Run; kCorrupt: logits
  // are not finite. Requires num_passes > 0, at most as many stories as there
  // are sequences, and in each story so many generated tokens or none.
  Status Start(std::vector<SequenceStory> stories, int64_t num_passes);

  // The first num_sequences stories from behind their prompts, a token of each
  // in every pass. The seconds that the passes took. kCorrupt: CheckAsAlone.
  Result<double> Generate(size_t num_sequences);

 private:
  SequenceGroup(std::shared_ptr<const model::Model> model,
                std::unique_ptr<engine::Runtime> runtime,
                const engine::SessionOptions& options, TokenProgress* progress);

  size_t vocab_size() const;
  Status Prefill(size_t idx);
  Status GenerateAlone(size_t idx);
  // Of the sequences [first, first + count): the seconds of their pass. Folds
  // its logits into hashes_.
  Result<double> RunPass(size_t first, size_t count, size_t pass);

  std::shared_ptr<const model::Model> model_;
  std::unique_ptr<engine::Runtime> runtime_;
  engine::PassHooks hooks_;
  TokenProgress* progress_;
  GreedyChoice choice_;
  std::vector<engine::KvSequence> sequences_;
  std::vector<SequenceStory> stories_;
  size_t num_passes_ = 0;
  std::vector<uint64_t> alone_;   // [stories_] hashes of logits
  std::vector<uint64_t> hashes_;  // [stories_] of those that are under way
  std::vector<engine::BatchRun> runs_;
  std::vector<float> logits_;
};

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_SEQUENCE_GROUP_H_
