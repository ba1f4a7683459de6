// What a sparse FFN tells about the neurons that it computes.
#ifndef THERMOCLINE_ENGINE_FFN_ACTIVITY_H_
#define THERMOCLINE_ENGINE_FFN_ACTIVITY_H_

#include <cstdint>
#include <functional>
#include <span>

namespace thermocline::engine {

// Told what each token computed in each layer: the active neurons' indices,
// ascending (those that a predictor chose, whether or not they fired). Called
// by the thread that decodes; dense layers are not reported.
using ActivityFn = std::function<void(int64_t layer_idx, int64_t position,
                                      std::span<const uint32_t> active)>;

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_ACTIVITY_H_
