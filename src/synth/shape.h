// The extents of the models that synthetic ones are made like.
#ifndef THERMOCLINE_SYNTH_SHAPE_H_
#define THERMOCLINE_SYNTH_SHAPE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/architectures.h"

namespace thermocline::synth {

struct SynthShape {
  std::string_view name;          // for --like: "llama-7b"
  std::string_view architecture;  // of model/architectures.h
  uint64_t width;                 // D
  uint64_t ffn_width;             // F
  uint64_t num_layers;            // L
  uint64_t num_heads;             // H
  uint64_t num_kv_heads;
  uint64_t vocab_size;    // V
  uint64_t context;       // positions
  double rope_base;       // not used with learned positions
  uint64_t num_experts;   // E; 0: one FFN for all tokens
  uint64_t experts_used;  // of them, by each token
  bool two_norms;         // of a parallel block: attention has its own
  uint64_t head_size;     // 0: the head's share of the width
  uint64_t rope_size;     // dimensions of a head that turn; 0: all
  // What of the model is not as in its original, because it does not run or
  // would change what is written; empty: nothing.
  std::string_view note;

  const model::Architecture& arch() const {
    return *model::FindArchitecture(architecture);
  }
  uint64_t head_width() const {  // K
    return head_size > 0 ? head_size : width / num_heads;
  }
  uint64_t rope_width() const {
    return rope_size > 0 ? rope_size : head_width();
  }
  uint64_t attention_width() const { return head_width() * num_heads; }
  uint64_t kv_width() const { return head_width() * num_kv_heads; }
  // N: F, or F * E of a mixture.
  uint64_t num_neurons() const {
    return ffn_width * (num_experts > 0 ? num_experts : 1);
  }
  uint64_t parts_per_neuron() const { return arch().gated ? 3 : 2; }
};

std::span<const SynthShape> SynthShapes();

// Null if there is none of this name.
const SynthShape* FindSynthShape(std::string_view name);

// "tiny, llama-1b, ...": for messages.
std::string ListSynthShapes();

// "gpt-oss-20b: experts in a llama's body", a line for each shape with a note.
std::string ListSynthNotes();

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_SHAPE_H_
