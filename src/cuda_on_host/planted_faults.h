// Kernels that each make one mistake, for the tests of the checker.
#ifndef THERMOCLINE_CUDA_ON_HOST_PLANTED_FAULTS_H_
#define THERMOCLINE_CUDA_ON_HOST_PLANTED_FAULTS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace thermocline::cuda_on_host {

struct PlantedFault {
  std::string_view name;
  std::string_view message;  // a part of what the checker has to say
  // `memory`: 256 bytes of the device, all zero, which are all it may touch.
  void (*launch)(float* memory);
};

std::span<const PlantedFault> PlantedFaults();
// The same without the mistake: the checker has nothing to say.
std::span<const PlantedFault> SoundKernels();

}  // namespace thermocline::cuda_on_host

#endif  // THERMOCLINE_CUDA_ON_HOST_PLANTED_FAULTS_H_
