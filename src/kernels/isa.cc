#include "kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace thermocline::kernels {
namespace {

struct IsaName {
  Isa isa;
  std::string_view name;
};
constexpr IsaName kNames[] = {
    {Isa::kScalar, "scalar"},
    {Isa::kAvx2, "avx2"},
    {Isa::kAvxVnni, "avx-vnni"},
    {Isa::kAvx512, "avx512"},
    {Isa::kAvx512Vnni, "avx512-vnni"},
    {Isa::kAmx, "amx"},
    {Isa::kNeonDotprod, "neon-dotprod"},
};

#if defined(__x86_64__)

// The flags that the kernels of each ISA are compiled with; the CPU must have
// every one, and __builtin_cpu_supports asks the OS about the registers too.
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
bool HasAvxVnni() { return HasAvx2() && __builtin_cpu_supports("avxvnni"); }
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd");
}
bool HasAvx512Vnni() {
  return HasAvx512() && __builtin_cpu_supports("avx512vnni");
}

bool HasAmxInstructions() {
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  constexpr unsigned kOsXsave = 1u << 27;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (d & kAmxBf16) != 0 && (d & kAmxTile) != 0;
}

// The OS saves the tiles of a process that has asked for them, from then on
// for all of its threads. It refuses if a signal stack is too small for them.
bool MayUseTiles() {
  constexpr unsigned kTileStates = 3u << 17;  // configuration and data
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileStates) == kTileStates &&
         ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool HasAmx() {
  static const bool has_amx = HasAvx512Vnni() &&
                              __builtin_cpu_supports("avx512bf16") &&
                              HasAmxInstructions() && MayUseTiles();
  return has_amx;
}

#endif

}  // namespace

std::string_view NameOf(Isa isa) {
  for (const IsaName& entry : kNames) {
    if (entry.isa == isa) return entry.name;
  }
  return "unknown";
}

std::optional<Isa> ParseIsa(std::string_view name) {
  for (const IsaName& entry : kNames) {
    if (entry.name == name) return entry.isa;
  }
  return std::nullopt;
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas = {Isa::kScalar};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (HasAvx2()) isas.push_back(Isa::kAvx2);
  if (HasAvxVnni()) isas.push_back(Isa::kAvxVnni);
  if (HasAvx512()) isas.push_back(Isa::kAvx512);
  if (HasAvx512Vnni()) isas.push_back(Isa::kAvx512Vnni);
  if (HasAmx()) isas.push_back(Isa::kAmx);
#elif defined(__aarch64__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {
    isas.push_back(Isa::kNeonDotprod);
  }
#endif
  return isas;
}

Isa BestIsa() { return SupportedIsas().back(); }

bool HasGfni() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("gfni");
#else
  return false;
#endif
}

bool IsAmd() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

}  // namespace thermocline::kernels
