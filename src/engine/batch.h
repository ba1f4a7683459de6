// What one pass through the model computes: rows of several sequences.
#ifndef THERMOCLINE_ENGINE_BATCH_H_
#define THERMOCLINE_ENGINE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/matmul.h"
#include "text/vocab.h"

namespace thermocline::engine {

class KvSequence;

// What a token is. It chooses which neurons are computed (LayerPlan) and by
// which kernels: a row's result depends on its own sequence and the phases of
// its tokens, never on the rows beside it or on how a prompt was cut.
enum class Phase : uint8_t {
  kPrompt,    // given: all of it is there at once
  kGenerate,  // chosen one by one, or guessed to be (drafts)
};
inline constexpr Phase kPhases[] = {Phase::kPrompt, Phase::kGenerate};
inline constexpr size_t kNumPhases = 2;

constexpr compute::ProductForm FormOf(Phase phase) {
  return phase == Phase::kPrompt ? compute::ProductForm::kBatch
                                 : compute::ProductForm::kRow;
}

enum class LogitsOf { kNone, kLast, kAll };

// Consecutive positions of one sequence, from its length() on.
struct BatchRun {
  KvSequence* sequence = nullptr;
  std::span<const text::TokenId> tokens;
  Phase phase = Phase::kPrompt;
  LogitsOf logits = LogitsOf::kLast;

  size_t num_logit_rows() const {
    return logits == LogitsOf::kNone   ? 0
           : logits == LogitsOf::kLast ? 1
                                       : tokens.size();
  }
};

// Prompts before those that generate; each sequence once. Views.
struct Batch {
  std::span<const BatchRun> runs;

  size_t num_rows() const {
    size_t num_rows = 0;
    for (const BatchRun& run : runs) num_rows += run.tokens.size();
    return num_rows;
  }
  // Logits come run by run, each [num_logit_rows(), V].
  size_t num_logit_rows() const {
    size_t num_rows = 0;
    for (const BatchRun& run : runs) num_rows += run.num_logit_rows();
    return num_rows;
  }
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_BATCH_H_
