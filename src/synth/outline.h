// What synthetic models' files say beside their matrices, and models of that
// alone: for plans of what is not there.
#ifndef THERMOCLINE_SYNTH_OUTLINE_H_
#define THERMOCLINE_SYNTH_OUTLINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "model/profile_file.h"
#include "synth/tensors.h"
#include "synth/weights.h"

namespace thermocline::synth {

// The tokens of an expected profile.
inline constexpr uint64_t kExpectedTokens = 1'000'000;

// For how many of them each neuron would fire [N], by what was asked for:
// nothing is run.
std::vector<uint32_t> ExpectedCounts(const SynthWeights& weights,
                                     uint64_t layer_idx);

// What a file of this layout says in keys, but for its vocabulary. Errors of
// the writer and of OutlineOf.
Status AddSynthKeys(const SynthWeights& weights, SynthLayout layout,
                    gguf::Writer& writer);

// What is put into prepared files as their profile. Errors of OutlineOf.
Result<model::ProfileFile> ExpectedProfile(const SynthWeights& weights);

// The prepared file, without vocabulary, of which the matrices read as zeros
// and take no memory: a model of the same fingerprint, the same sizes and the
// same profile. kResourceExhausted: the system refuses the addresses.
Result<std::unique_ptr<gguf::File>> OutlineOf(const SynthWeights& weights);

}  // namespace thermocline::synth

#endif  // THERMOCLINE_SYNTH_OUTLINE_H_
