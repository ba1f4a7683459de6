// Which ISAs a test of whole models runs.
#ifndef THERMOCLINE_ENGINE_TESTING_ISAS_H_
#define THERMOCLINE_ENGINE_TESTING_ISAS_H_

#include <vector>

#include "kernels/isa.h"

namespace thermocline::engine::testing {

// All that this machine has. In a sanitizer's build, twenty times slower, the
// best alone: there the kernels of the others have their own tests.
inline std::vector<kernels::Isa> IsasOfModels() {
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return {kernels::BestIsa()};
#else
  return kernels::SupportedIsas();
#endif
}

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_ISAS_H_
