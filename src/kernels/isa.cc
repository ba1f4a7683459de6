#include "kernels/isa.h"

#if defined(__aarch64__)
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
    {Isa::kAvx512, "avx512"},
    {Isa::kAvx512Vnni, "avx512-vnni"},
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
  if (HasAvx512()) isas.push_back(Isa::kAvx512);
  if (HasAvx512Vnni()) isas.push_back(Isa::kAvx512Vnni);
#elif defined(__aarch64__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {
    isas.push_back(Isa::kNeonDotprod);
  }
#endif
  return isas;
}

Isa BestIsa() { return SupportedIsas().back(); }

}  // namespace thermocline::kernels
