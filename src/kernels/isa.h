// Instruction sets that the CPU kernels are built for.
#ifndef THERMOCLINE_KERNELS_ISA_H_
#define THERMOCLINE_KERNELS_ISA_H_

#include <optional>
#include <string_view>
#include <vector>

namespace thermocline::kernels {

// In order of preference on its architecture, worst first.
enum class Isa {
  kScalar,       // kernels/ref: plain C++, the reference
  kAvx2,         // AVX2, FMA, F16C, BMI, BMI2
  kAvxVnni,      // the above and AVX-VNNI
  kAvx512,       // those of kAvx2 and AVX-512 F, BW, DQ, VL, CD
  kAvx512Vnni,   // the above and VNNI
  kAmx,          // the above, AVX-512 BF16, AMX tiles and AMX-BF16
  kNeonDotprod,  // Armv8.2 with dot product
};

// "scalar", "avx2", "avx-vnni", "avx512", "avx512-vnni", "amx", "neon-dotprod":
// values of --isa.
std::string_view NameOf(Isa isa);
std::optional<Isa> ParseIsa(std::string_view name);

// What this build holds and this CPU can run, worst first; always has kScalar.
// On a CPU with AMX the first call asks the OS to let the process use tiles,
// which it then does for all threads, until the end; kAmx is missing where the
// OS refuses (a signal stack that is too small for them).
std::vector<Isa> SupportedIsas();

// The last of SupportedIsas().
Isa BestIsa();

// Whether AMD made this CPU. Some kernels have a version for those, with the
// same results: AMD's read a few long streams of memory ahead by themselves,
// where requests by instructions only hold up loads that need the same few
// buffers, and permute words as fast as longer parts.
bool IsAmd();

// Whether this CPU has GFNI, of which AMD's versions for AVX-512 VNNI make use.
bool HasGfni();

}  // namespace thermocline::kernels

#endif  // THERMOCLINE_KERNELS_ISA_H_
