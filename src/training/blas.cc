#include "training/blas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>

#include "kernels/isa.h"

namespace thermocline::training {
namespace {

constexpr char kLibrary[] = "libopenblas.so.0";

// OpenBLAS knows processors by their model, and takes those that are younger
// than itself for ones without AVX (0.3.21 did with Emerald Rapids: training
// took twice as long). What this one can do is asked of the processor.
void NameCore() {
#if defined(__x86_64__)
  const char* core = nullptr;
  for (const kernels::Isa isa : kernels::SupportedIsas()) {
    if (isa == kernels::Isa::kAvx2) core = "Haswell";
    if (isa == kernels::Isa::kAvx512) core = "SkylakeX";
  }
  if (core != nullptr) ::setenv("OPENBLAS_CORETYPE", core, /*overwrite=*/0);
#endif
}

// Nothing if the library or one of the functions is missing.
std::optional<Blas> Load() {
  ::setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/0);
  NameCore();
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  const auto find = [&]<typename Function>(const char* name, Function*& to) {
    to = reinterpret_cast<Function*>(::dlsym(library, name));
    return to != nullptr;
  };
  Blas blas = {};
  decltype(&::openblas_set_num_threads) set_num_threads = nullptr;
  if (!find("cblas_sgemm", blas.sgemm) || !find("cblas_strsm", blas.strsm) ||
      !find("openblas_set_num_threads", set_num_threads)) {
    return std::nullopt;
  }
  set_num_threads(1);
  return blas;
}

}  // namespace

Result<const Blas*> LoadBlas() {
  static const std::optional<Blas> blas = Load();
  if (blas.has_value()) return &*blas;
  return Fail(ErrorCode::kNotFound,
              "{}: cannot be loaded; predictors are trained with OpenBLAS, "
              "Debian's package libopenblas0",
              kLibrary);
}

}  // namespace thermocline::training
