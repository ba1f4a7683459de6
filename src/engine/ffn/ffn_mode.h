// Which neurons of an FFN are computed: the modes of docs/ARCHITECTURE.md.
#ifndef THERMOCLINE_ENGINE_FFN_FFN_MODE_H_
#define THERMOCLINE_ENGINE_FFN_FFN_MODE_H_

#include <optional>
#include <string_view>

namespace thermocline::engine {

enum class FfnMode {
  kAuto,   // fast if the file brings predictors, else dense
  kDense,  // all neurons
  kFast,   // the candidates of a predictor, at every position
};

// Values of --ffn: "auto", "dense", "fast".
std::string_view NameOf(FfnMode mode);
std::optional<FfnMode> ParseFfnMode(std::string_view name);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_FFN_MODE_H_
