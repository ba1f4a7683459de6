// The half of check.h that looks at problems.
#include <string>
#include <string_view>
#include <utility>

#include "planner/check.h"

namespace thermocline::planner {
namespace {

using Wide = unsigned __int128;

constexpr double kMaxBytes = 0x1p60;  // of one object, and of all together

template <typename... Args>
tl::unexpected<Error> BadProblem(fmt::format_string<Args...> format,
                                 Args&&... args) {
  return Fail(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

bool IsBetween(double value, double low, double high) {
  return value >= low && value <= high;  // no NaN is
}

Status CheckHardware(const Hardware& hardware) {
  const std::pair<std::string_view, double> rates[] = {
      {"device's rate", hardware.device_rate},
      {"host's rate", hardware.host_rate},
      {"bus's rate", hardware.bus_rate},
      {"link's rate up", hardware.up_rate},
      {"link's rate down", hardware.down_rate}};
  for (const auto& [name, rate] : rates) {
    if (rate > 0.0 && rate <= 1e18) continue;
    return BadProblem("the {} is {}; it must be more than 0", name, rate);
  }
  const std::pair<std::string_view, double> times[] = {
      {"copy", hardware.copy_seconds},
      {"launch", hardware.launch_seconds},
      {"round trip", hardware.sync_seconds}};
  for (const auto& [name, seconds] : times) {
    if (IsBetween(seconds, 0.0, 1e6)) continue;
    return BadProblem("a {} takes {} s; it must be 0 or more", name, seconds);
  }
  return {};
}

class ProblemChecker {
 public:
  explicit ProblemChecker(const Problem& problem) : problem_(problem) {}

  Status Check() {
    TC_RETURN_IF_ERROR(CheckHardware(problem_.hardware));
    if (!IsBetween(problem_.fixed_seconds, 0.0, 1e6)) {
      return BadProblem("a token's fixed time is {} s; it must be 0 or more",
                        problem_.fixed_seconds);
    }
    TC_RETURN_IF_ERROR(CheckPart("the head", problem_.head));
    for (size_t i = 0; i < problem_.layers.size(); ++i) {
      TC_RETURN_IF_ERROR(CheckLayer(i));
    }
    if (all_bytes_ <= static_cast<Wide>(kMaxBytes)) return {};
    return BadProblem(
        "all that could be on the device takes more than {} bytes", kMaxBytes);
  }

 private:
  Status CheckPart(std::string_view what, const Part& part) {
    if (!IsBetween(part.host_read, 0.0, kMaxBytes) ||
        !IsBetween(part.device_read, 0.0, kMaxBytes)) {
      return BadProblem(
          "{} reads {} bytes on the host, {} on the device; both must "
          "be 0 or more",
          what, part.host_read, part.device_read);
    }
    if (part.kv_bytes > part.bytes ||
        !IsBetween(part.kv_read, 0.0, part.device_read)) {
      return BadProblem(
          "{} has {} bytes of keys and values, of which {} are read; it has {} "
          "bytes in all, of which {} are read",
          what, part.kv_bytes, part.kv_read, part.bytes, part.device_read);
    }
    if (!IsBetween(part.hidden_seconds, 0.0, problem_.hardware.sync_seconds)) {
      return BadProblem("{} hides {} s of a round trip of {} s", what,
                        part.hidden_seconds, problem_.hardware.sync_seconds);
    }
    return AddBytes(what, part.bytes);
  }

  Status AddBytes(std::string_view what, uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(kMaxBytes)) {
      return BadProblem("{} takes {} bytes, more than {}", what, bytes,
                        kMaxBytes);
    }
    all_bytes_ += bytes + kPieceBytes;
    return {};
  }

  Status CheckLayer(size_t layer_idx) {
    const Layer& layer = problem_.layers[layer_idx];
    const std::string of = fmt::format(" of layer {}", layer_idx);
    TC_RETURN_IF_ERROR(CheckPart("the attention" + of, layer.attention));
    TC_RETURN_IF_ERROR(CheckPart("the predictor" + of, layer.predictor));
    TC_RETURN_IF_ERROR(CheckPart("the FFN" + of, layer.matrices));
    const int num_forms = static_cast<int>(layer.matrices.exists()) +
                          static_cast<int>(!layer.neurons.frequency.empty()) +
                          static_cast<int>(!layer.experts.experts.empty());
    if (num_forms > 1) {
      return BadProblem(
          "layer {} has more than one of matrices, neurons and "
          "experts",
          layer_idx);
    }
    TC_RETURN_IF_ERROR(CheckNeurons(of, layer.neurons));
    return CheckExperts(of, layer.experts);
  }

  Status CheckNeurons(const std::string& of, const Neurons& neurons) {
    for (const double read : {neurons.host.tested, neurons.host.rest,
                              neurons.device.tested, neurons.device.rest}) {
      if (IsBetween(read, 0.0, kMaxBytes)) continue;
      return BadProblem("a neuron{} reads {} bytes; it must be 0 or more", of,
                        read);
    }
    if (neurons.tested_per_fired != 0.0 &&
        !IsBetween(neurons.tested_per_fired, 1.0, 1e9)) {
      return BadProblem(
          "neurons{} are tested {} times for each that fires; it must "
          "be 0, for all, or 1 or more",
          of, neurons.tested_per_fired);
    }
    if (!IsBetween(neurons.host_lead_seconds, 0.0,
                   problem_.hardware.sync_seconds)) {
      return BadProblem(
          "the host begins {} s late with the neurons{}; a round trip takes {} "
          "s",
          neurons.host_lead_seconds, of, problem_.hardware.sync_seconds);
    }
    for (size_t i = 0; i < neurons.frequency.size(); ++i) {
      const float frequency = neurons.frequency[i];
      if (frequency >= 0.0f && frequency <= 1.0f) continue;
      return BadProblem("the frequency of neuron {}{} is {}; it must be 0 to 1",
                        i, of, frequency);
    }
    if (neurons.frequency.size() > 0xffffffffu) {
      return BadProblem("there are {} neurons{}", neurons.frequency.size(), of);
    }
    const Wide all = Wide{neurons.record_bytes} * neurons.frequency.size() +
                     neurons.other_bytes;
    if (all > static_cast<Wide>(kMaxBytes)) {
      return BadProblem("the neurons{} take more than {} bytes", of, kMaxBytes);
    }
    return AddBytes("all", static_cast<uint64_t>(all));
  }

  Status CheckExperts(const std::string& of, const Experts& experts) {
    for (size_t i = 0; i < experts.experts.size(); ++i) {
      const Expert& expert = experts.experts[i];
      const std::string what = fmt::format("expert {}{}", i, of);
      TC_RETURN_IF_ERROR(CheckPart(what, {.bytes = expert.bytes,
                                          .host_read = expert.host_read,
                                          .device_read = expert.device_read}));
      if (expert.frequency >= 0.0f && expert.frequency <= 1.0f) continue;
      return BadProblem("the frequency of {} is {}; it must be 0 to 1", what,
                        expert.frequency);
    }
    return {};
  }

  const Problem& problem_;
  Wide all_bytes_ = 0;
};

}  // namespace

Status CheckProblem(const Problem& problem) {
  return ProblemChecker(problem).Check();
}

}  // namespace thermocline::planner
