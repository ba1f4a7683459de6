// Kernels with a mistake put in, which the checker or a test has to notice.
// x_mutants.txt says which, tools/cuda_mutants.py makes them.
#ifndef THERMOCLINE_KERNELS_CUDA_TEST_MUTANTS_H_
#define THERMOCLINE_KERNELS_CUDA_TEST_MUTANTS_H_

namespace thermocline::cuda {

// A test declares those of a launch function as
//   std::span<const Mutant<decltype(&LaunchX)>> MutantsOfLaunchX();
// and those of an overload of Launch (launch.h) as
//   std::span<const Mutant<LaunchFn<kernels::XArgs>>> MutantsOfX();
template <typename Launch>
struct Mutant {
  const char* name;
  Launch launch;
};

template <typename Args>
using LaunchFn = void (*)(const Args& args, void* stream);

}  // namespace thermocline::cuda

#endif  // THERMOCLINE_KERNELS_CUDA_TEST_MUTANTS_H_
