// The pass on the host: embed, layers, output norm, head.
#ifndef THERMOCLINE_ENGINE_FORWARD_HOST_FORWARD_H_
#define THERMOCLINE_ENGINE_FORWARD_HOST_FORWARD_H_

#include <memory>
#include <vector>

#include "compute/matmul.h"
#include "engine/ffn/ffn_layers.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/forward/forward.h"
#include "engine/forward/prompt_layers.h"
#include "engine/layer_plan.h"
#include "engine/scratch.h"
#include "engine/stream/layer_stream.h"
#include "model/model.h"

namespace thermocline::engine {

// All of it outlives the pass.
struct HostParts {
  const model::Model* model = nullptr;
  const compute::Compute* compute = nullptr;
  const Scratch* scratch = nullptr;
  // With the compute and scratch.ffn. What its device has, attention and head
  // too, is computed there for generated rows.
  FfnParts ffn;
  const std::vector<LayerPlan>* layers = nullptr;
  LayerStream* streamed = nullptr;  // null: all layers are in memory
  // Computes the layers of prompts that it takes, unless they are observed;
  // null: nobody but the host.
  PromptLayers* prompts = nullptr;
  size_t max_rows = 1;                    // of a pass
  SparseTotals* totals = nullptr;         // of generated rows
  const FfnObserver* observer = nullptr;  // null or empty: nobody looks
};

// Takes every run. Driven by model::Config: no copy per architecture. Per layer
//   x += Attention(norm(x));  x += FFN(norm(x))
// or, in a parallel block,
//   x += Attention(norm(x)) + FFN(norm2(x))
// with the rows of prompts first, then those that are generated; before both
// the rows of prompts that somebody else computes.
std::unique_ptr<Forward> MakeHostForward(const HostParts& parts);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FORWARD_HOST_FORWARD_H_
