// Small prepared models whose records stay in the file, for tests.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_STREAMED_RECORDS_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_STREAMED_RECORDS_H_

#include <gtest/gtest.h>

#include <cstddef>

#include "engine/runtime.h"
#include "engine/testing/test_prepared_file.h"
#include "engine/testing/test_stream_rig.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine::testing {

// Prompts, generated rows one by one and some together, and a prompt beside
// generated rows.
class StreamedRig : public StreamRig {
 public:
  using StreamRig::StreamRig;
  StreamRig::Logits All() {
    StreamRig::Logits all;
    Add(0, Phase::kPrompt, 20, all);
    for (const size_t count : {1, 1, 5}) Add(0, Phase::kGenerate, count, all);
    AddMixed(11, all);
    Add(1, Phase::kGenerate, 1, all);
    return all;
  }
};

inline TinySpec StreamedSpec(FfnMode mode) {
  TinySpec spec;
  spec.num_layers = 3;
  spec.activation = "relu";
  if (mode == FfnMode::kFast) {
    spec.predictor_rank = 8;
    spec.lookahead = 1;
  }
  if (mode == FfnMode::kThreshold) {
    spec.activation = "silu";
    spec.thresholds = {0.05f, 0.1f, 0.02f};
  }
  return spec;
}

inline SessionOptions StreamedOptions(FfnMode mode, int num_threads,
                                      bool dense_prompts) {
  return {.num_threads = num_threads,
          .num_sequences = 2,
          .ffn = mode,
          .dense_prompts = dense_prompts};
}

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_STREAMED_RECORDS_H_
