// One set of neurons as bytes: the unit of trace files. Byte by byte:
// docs/formats/trace.md.
#ifndef THERMOCLINE_NEURON_ACTIVE_SET_H_
#define THERMOCLINE_NEURON_ACTIVE_SET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace thermocline::neuron {

// Appends the set to `out`: as gaps or as bits, whichever is shorter. `set`
// ascends strictly and is < num_neurons, itself at most 2^31 (CHECKed).
// Cost: a few ns per member.
void AppendActiveSet(std::span<const uint32_t> set, uint32_t num_neurons,
                     std::vector<std::byte>& out);

// Reads a set from the front of `bytes` into `set`, and returns how many bytes
// it took. nullopt: they are no set of that many neurons, or it goes on behind
// them. Untrusted; allocates no more than num_neurons numbers.
std::optional<size_t> ReadActiveSet(std::span<const std::byte> bytes,
                                    uint32_t num_neurons,
                                    std::vector<uint32_t>& set);

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_ACTIVE_SET_H_
