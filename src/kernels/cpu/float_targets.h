// Which Highway targets the float kernels are compiled for. Include before
// hwy/foreach_target.h.
//
// Every .cc of the float kernels is compiled once per target by
// foreach_target.h, into namespace N_AVX2, N_AVX3 or N_NEON, and the table
// takes pointers to those functions by name: Highway's own dispatch would
// choose anew on every call, and one choice for the whole process.
//
// AVX2 serves AVX-VNNI and AVX3 all AVX-512 ISAs: the float kernels have no use
// for what VNNI and AMX machines add. Highway always compiles its baseline too
// (EMU128 on x86-64); the files leave it empty.
#ifndef THERMOCLINE_KERNELS_CPU_FLOAT_TARGETS_H_
#define THERMOCLINE_KERNELS_CPU_FLOAT_TARGETS_H_

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
// All targets, even if the compiler's flags say that the best one is there.
#ifndef HWY_COMPILE_ONLY_STATIC
#define HWY_COMPILE_ALL_ATTAINABLE
#endif
// No instruction that isa.cc does not ask the CPU for.
#define HWY_DISABLE_PCLMUL_AES

#include "hwy/detect_targets.h"
#include "kernels/isa.h"

#if HWY_TARGETS & HWY_AVX2
#define TC_CALL_AVX2(function, ...) N_AVX2::function(__VA_ARGS__)
#else
#define TC_CALL_AVX2(function, ...)
#endif
#if HWY_TARGETS & HWY_AVX3
#define TC_CALL_AVX3(function, ...) N_AVX3::function(__VA_ARGS__)
#else
#define TC_CALL_AVX3(function, ...)
#endif
#if HWY_TARGETS & HWY_NEON
#define TC_CALL_NEON(function, ...) N_NEON::function(__VA_ARGS__)
#else
#define TC_CALL_NEON(function, ...)
#endif

// Calls `function` of the namespace that belongs to `isa`, if there is one.
#define TC_CALL_FOR_ISA(isa, function, ...) \
  switch (isa) {                            \
    case Isa::kAvx2:                        \
    case Isa::kAvxVnni:                     \
      TC_CALL_AVX2(function, __VA_ARGS__);  \
      break;                                \
    case Isa::kAvx512:                      \
    case Isa::kAvx512Vnni:                  \
    case Isa::kAmx:                         \
      TC_CALL_AVX3(function, __VA_ARGS__);  \
      break;                                \
    case Isa::kNeonDotprod:                 \
      TC_CALL_NEON(function, __VA_ARGS__);  \
      break;                                \
    case Isa::kScalar:                      \
      break;                                \
  }

#endif  // THERMOCLINE_KERNELS_CPU_FLOAT_TARGETS_H_
