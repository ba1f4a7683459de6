// The rotary embedding in config.json, in its older and newer spelling.
#ifndef THERMOCLINE_IMPORT_HF_ROPE_H_
#define THERMOCLINE_IMPORT_HF_ROPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/writer.h"
#include "import/json.h"

namespace thermocline::importer {

// What an absent rope_theta means.
inline constexpr double kUsualTheta = 1e4;

// Llama 3.1's scaling: long wavelengths are stretched, short ones kept.
struct Llama3Scaling {
  double factor;
  double low_freq_factor;
  double high_freq_factor;
  double original_context;

  bool operator==(const Llama3Scaling&) const = default;
};

struct HfRope {
  enum class Scaling { kNone, kLinear, kYarn, kLlama3 };
  Scaling scaling = Scaling::kNone;
  double theta = kUsualTheta;
  double rotated_share = 1.0;              // of a head, from its first element
  double factor = 1.0;                     // linear, YaRN
  int64_t original_context = 0;            // YaRN
  std::optional<double> attention_factor;  // YaRN: in place of the usual one
  Llama3Scaling llama3 = {};

  bool operator==(const HfRope&) const = default;
};

// Reads rope_theta, partial_rotary_factor and rope_scaling, or rope_parameters.
// kCorrupt;
// kUnsupported: a kind of scaling that does not run, named, or a form that is
// not known, which might change results. `usual_theta` and usual_rotated_share
// are what absent keys mean; without the latter heads rotate as a whole.
Result<HfRope> ReadHfRope(const JsonFields& fields, int64_t context_length,
                          double usual_theta = kUsualTheta,
                          std::optional<double> usual_rotated_share = {});

// Writes the keys under `prefix` ("llama."). Llama 3's scaling has none: it is
// the tensor of RopeFactors.
Status WriteHfRope(const HfRope& rope, const std::string& prefix,
                   gguf::Writer& writer);

// The divisors of the rotary frequencies, [rotated_width / 2].
std::vector<float> RopeFactors(const Llama3Scaling& scaling, double theta,
                               size_t rotated_width);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_ROPE_H_
