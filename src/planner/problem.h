// What of a model is to be placed on a device or on the host, and what each
// choice costs: plain numbers, no model and no device.
#ifndef THERMOCLINE_PLANNER_PROBLEM_H_
#define THERMOCLINE_PLANNER_PROBLEM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/math.h"

namespace thermocline::planner {

// Bytes per second and seconds, measured or stated; rates are more than 0.
struct Hardware {
  double device_rate = 1.0;  // of the device's memory
  double host_rate = 1.0;    // of the host's threads, alone on the bus
  double bus_rate = 1.0;     // of the host's DRAM: its threads and all copies
  double up_rate = 1.0;      // of the link, host to device
  double down_rate = 1.0;
  double copy_seconds = 0.0;    // of each copy beside its bytes
  double launch_seconds = 0.0;  // of a part's operations beside their bytes
  // T_sync: what a round trip to the device costs inside a layer while nobody
  // computes: its input up, its result down, waking the host.
  double sync_seconds = 0.0;
  // Of these, from the end of the device's work to the host's going on.
  double answer_seconds = 0.0;
};

// A round trip with so many bytes each way, and what waiting for it costs
// besides: what sync_seconds is made of.
inline double RoundTripSeconds(const Hardware& hardware, double up_bytes,
                               double down_bytes, double wake_seconds) {
  return 2.0 * hardware.copy_seconds + up_bytes / hardware.up_rate +
         down_bytes / hardware.down_rate + wake_seconds;
}

// What whoever asks has said of a part.
enum class Rule : uint8_t {
  kHost,    // never on the device, or it cannot be there
  kOpen,    // where it is worth more
  kDevice,  // there, or there is no placement
};

// A part that lies in one place whole. On the device it costs a round trip
// (sync_seconds) and launch_seconds beside its bytes. Default: there is none.
struct Part {
  Rule rule = Rule::kHost;
  uint64_t bytes = 0;        // it takes on the device, its keys and values too
  double host_read = 0.0;    // bytes read per token, if on the host
  double device_read = 0.0;  // if on the device
  // Of these, what is no weights: keys and values, which are on the device
  // wherever the weights lie that it computes with.
  uint64_t kv_bytes = 0;
  double kv_read = 0.0;

  // Of its round trip there, what passes while the next step runs already: of a
  // predictor that begins its layer's neurons.
  double hidden_seconds = 0.0;

  bool exists() const { return host_read > 0.0 || bytes > 0; }
};

// What a token reads of one neuron that is tested, and besides if it fires.
struct NeuronRead {
  double tested = 0.0;
  double rest = 0.0;
};

// The neurons of one FFN, those of one layer all alike but for their frequency.
struct Neurons {
  Rule rule = Rule::kHost;
  uint64_t record_bytes = 0;  // of one on the device
  uint64_t other_bytes = 0;   // there besides, once there is any
  NeuronRead host, device;
  // Share of the tokens for which a neuron fires, 0 to 1. [F]
  std::vector<float> frequency;
  // How often one is tested per time that it fires: a predictor's candidates
  // (1 or more; never more than once a token). 0: every neuron is tested for
  // every token.
  double tested_per_fired = 1.0;
  // How much later than the device the host begins with its share: a predictor
  // on the device tells the host last.
  double host_lead_seconds = 0.0;

  size_t count() const { return frequency.size(); }
  // Share of the tokens for which a neuron of this frequency is tested.
  double TestedShare(float fires) const {
    if (tested_per_fired == 0.0) return 1.0;
    return std::min(1.0, tested_per_fired * static_cast<double>(fires));
  }
  // Bytes per token that are to be expected of it.
  double Expected(const NeuronRead& read, float fires) const {
    return read.tested * TestedShare(fires) +
           read.rest * static_cast<double>(fires);
  }
};

struct Expert {
  uint64_t bytes = 0;        // on the device
  double host_read = 0.0;    // of one that is chosen
  double device_read = 0.0;  // likewise
  float frequency = 0.0f;    // share of the tokens for which it is chosen
};

struct Experts {
  Rule rule = Rule::kHost;
  std::vector<Expert> experts;  // [E], or none
};

// A layer has at most one of matrices, neurons and experts.
struct Layer {
  Part attention;
  Part predictor;
  Part matrices;  // a dense FFN, whole
  Neurons neurons;
  Experts experts;
};

struct Problem {
  Hardware hardware;
  std::vector<Layer> layers;
  Part head;
  // Of the device's memory, for what is placed: activations are taken off.
  uint64_t budget = 0;
  // Of a token, wherever anything lies: norms, sampling.
  double fixed_seconds = 0.0;
};

// Devices allocate in pieces of so many bytes.
inline constexpr uint64_t kPieceBytes = 256;

// How bytes add up: each part and each expert is an allocation of its own, the
// neurons of a layer are one together, and each allocation is rounded up to
// whole pieces. Nothing else takes memory. A layer's share of the keys and
// values is part of its attention's bytes; who makes the problem makes the
// shares add up.
constexpr uint64_t InPieces(uint64_t num_bytes) {
  return RoundUp(num_bytes, kPieceBytes);
}
inline uint64_t NeuronBytes(const Neurons& neurons, uint64_t count) {
  return count == 0
             ? 0
             : InPieces(neurons.other_bytes + count * neurons.record_bytes);
}

// How the engine works with a placement.
enum class Scheme : uint8_t {
  // Stepped hybrid: each part is computed where it lies, the FFN by both at
  // once.
  kSparse,
  kDense,  // the same, all neurons for every token, no predictors
  // The device computes everything that it can, densely. Layers lie there whole
  // or not at all: of the others, and of the head, it reads the weights over
  // the link as it computes.
  kStream,
  kFetch,  // the same, active neurons only
};

inline bool ReadsOverLink(Scheme scheme) {
  return scheme == Scheme::kStream || scheme == Scheme::kFetch;
}

// What lies on the device of one layer.
struct LayerPlace {
  bool attention = false;
  bool predictor = false;
  bool matrices = false;
  std::vector<uint32_t> neurons;  // ascending
  std::vector<uint32_t> experts;  // ascending

  bool operator==(const LayerPlace&) const = default;
};

struct Placement {
  Scheme scheme = Scheme::kSparse;
  std::vector<LayerPlace> layers;  // [L]
  bool head = false;

  bool operator==(const Placement&) const = default;
};

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_PROBLEM_H_
