#include "planner/check.h"

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace thermocline::planner {
namespace {

// Added up here and nowhere else, so that a mistake of the solvers' sums shows.
using WideBytes = unsigned __int128;

template <typename... Args>
tl::unexpected<Error> BadPlacement(fmt::format_string<Args...> format,
                                   Args&&... args) {
  return Fail(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

// What a placement takes, from the problem alone.
class Auditor {
 public:
  explicit Auditor(const Problem& problem) : problem_(problem) {}

  Status Check(const Placement& placement, const Claims& claims) {
    if (placement.layers.size() != problem_.layers.size()) {
      return BadPlacement("a placement of {}, of a model of {}",
                          Plural(placement.layers.size(), "layer"),
                          Plural(problem_.layers.size(), "layer"));
    }
    if (!claims.least_there.empty() &&
        claims.least_there.size() != problem_.layers.size()) {
      return BadPlacement("least numbers of {}, of a model of {}",
                          Plural(claims.least_there.size(), "layer"),
                          Plural(problem_.layers.size(), "layer"));
    }
    keeps_rules_ = claims.keeps_rules;
    scheme_ = placement.scheme;
    TC_RETURN_IF_ERROR(CheckPlaced("the head", problem_.head, placement.head));
    for (size_t i = 0; i < problem_.layers.size(); ++i) {
      TC_RETURN_IF_ERROR(CheckLayerPlace(i, placement.layers[i]));
      if (claims.least_there.empty()) continue;
      TC_RETURN_IF_ERROR(
          CheckLeast(i, placement.layers[i], claims.least_there[i]));
    }
    TC_RETURN_IF_ERROR(CheckBytes(claims));
    return claims.seconds ? CheckSeconds(placement, *claims.seconds) : Status();
  }

 private:
  Status CheckPlaced(std::string_view what, const Part& part, bool is_there) {
    if (is_there && part.host_read == 0.0 && part.bytes == 0) {
      return BadPlacement("{} is placed on the device; there is none", what);
    }
    if (is_there && keeps_rules_ && part.rule == Rule::kHost) {
      return BadPlacement("{} is placed on the device, where it may not be",
                          what);
    }
    if (!is_there && keeps_rules_ && part.rule == Rule::kDevice) {
      return BadPlacement("{} is not placed on the device, where it is to be",
                          what);
    }
    if (is_there) placed_bytes_ += Pieces(part.bytes);
    return {};
  }

  Status CheckLayerPlace(size_t layer_idx, const LayerPlace& place) {
    const Layer& layer = problem_.layers[layer_idx];
    const std::string of = fmt::format(" of layer {}", layer_idx);
    TC_RETURN_IF_ERROR(
        CheckPlaced("the attention" + of, layer.attention, place.attention));
    TC_RETURN_IF_ERROR(
        CheckPlaced("the predictor" + of, layer.predictor, place.predictor));
    TC_RETURN_IF_ERROR(
        CheckPlaced("the FFN" + of, layer.matrices, place.matrices));
    TC_RETURN_IF_ERROR(CheckItems("neuron", of, place.neurons,
                                  layer.neurons.frequency.size(),
                                  layer.neurons.rule));
    TC_RETURN_IF_ERROR(CheckItems("expert", of, place.experts,
                                  layer.experts.experts.size(),
                                  layer.experts.rule));
    TC_RETURN_IF_ERROR(CheckWhole(layer_idx, place));
    if (!place.attention && crosses() && layer.attention.rule != Rule::kHost) {
      placed_bytes_ += Pieces(layer.attention.kv_bytes);
    }
    if (!place.neurons.empty()) {
      placed_bytes_ +=
          Pieces(WideBytes{layer.neurons.record_bytes} * place.neurons.size() +
                 layer.neurons.other_bytes);
    }
    for (const uint32_t expert : place.experts) {
      placed_bytes_ += Pieces(layer.experts.experts[expert].bytes);
    }
    return {};
  }

  Status CheckItems(std::string_view noun, const std::string& of,
                    std::span<const uint32_t> items, size_t count,
                    Rule rule) const {
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i] >= count) {
        return BadPlacement("{} {}{} is placed on the device; there are {}",
                            noun, items[i], of, count);
      }
      if (i > 0 && items[i] <= items[i - 1]) {
        return BadPlacement("{} {}{} is listed behind {} {}", noun, items[i],
                            of, noun, items[i - 1]);
      }
    }
    if (keeps_rules_ && rule == Rule::kHost && !items.empty()) {
      return BadPlacement(
          "{} {}{} is placed on the device, where it may not be", noun,
          items[0], of);
    }
    if (keeps_rules_ && rule == Rule::kDevice && items.size() < count) {
      return BadPlacement(
          "{} of the {} {}s{} are placed on the device, where all are "
          "to be",
          items.size(), count, noun, of);
    }
    return {};
  }

  bool crosses() const {
    return scheme_ == Scheme::kStream || scheme_ == Scheme::kFetch;
  }

  // All that a layer could have there, or nothing.
  Status CheckWhole(size_t layer_idx, const LayerPlace& place) const {
    if (!crosses()) return {};
    const Layer& layer = problem_.layers[layer_idx];
    size_t num_there = 0, num_all = 0;
    const auto count = [&](Rule rule, size_t all, size_t there) {
      num_there += there;
      if (rule != Rule::kHost) num_all += all;
    };
    count(layer.attention.rule, 1, place.attention);
    if (scheme_ == Scheme::kFetch) {
      count(layer.predictor.rule, 1, place.predictor);
    }
    count(layer.matrices.rule, 1, place.matrices);
    count(layer.neurons.rule, layer.neurons.frequency.size(),
          place.neurons.size());
    count(layer.experts.rule, layer.experts.experts.size(),
          place.experts.size());
    if (num_there == 0 || num_there == num_all) return {};
    return BadPlacement(
        "{} of {} things of layer {} are placed on the device: where others "
        "cross the link, layers are placed whole",
        num_there, num_all, layer_idx);
  }

  static Status CheckLeast(size_t layer_idx, const LayerPlace& place,
                           uint32_t least) {
    const size_t count = place.neurons.size() + place.experts.size();
    if (count == 0 || count >= least) return {};
    return BadPlacement(
        "{} of layer {} are placed on the device: fewer than {} do "
        "not pay for a round trip",
        count, layer_idx, least);
  }

  Status CheckBytes(const Claims& claims) const {
    const auto bytes = static_cast<uint64_t>(placed_bytes_);
    if (bytes > problem_.budget) {
      return Fail(ErrorCode::kResourceExhausted,
                  "the placement takes {} bytes on the device, more than the "
                  "budget of {}",
                  bytes, problem_.budget);
    }
    if (claims.device_bytes && *claims.device_bytes != bytes) {
      return BadPlacement(
          "the placement is said to take {} bytes on the device; it "
          "takes {}",
          *claims.device_bytes, bytes);
    }
    return {};
  }

  Status CheckSeconds(const Placement& placement, double said) const {
    const double seconds = AuditSeconds(problem_, placement);
    if (std::abs(said - seconds) <= 1e-9 * seconds) return {};
    return BadPlacement(
        "a token is said to take {} s; it is predicted to take "
        "{} s",
        said, seconds);
  }

  static WideBytes Pieces(WideBytes bytes) {
    return (bytes + (kPieceBytes - 1)) / kPieceBytes * kPieceBytes;
  }

  const Problem& problem_;
  WideBytes placed_bytes_ = 0;
  bool keeps_rules_ = true;
  Scheme scheme_ = Scheme::kSparse;
};

}  // namespace

Status CheckPlacement(const Problem& problem, const Placement& placement,
                      const Claims& claims) {
  return Auditor(problem).Check(placement, claims);
}

}  // namespace thermocline::planner
