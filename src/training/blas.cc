#include "training/blas.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/units.h"
#include "kernels/isa.h"
#include "os/memory.h"

namespace thermocline::training {
namespace {

constexpr char kLibrary[] = "libopenblas.so.0";
// What OpenBLAS maps for each product at a time, on x86-64 and on aarch64.
constexpr size_t kSpaceBytes = size_t{128} << 20;
// More than a process has addresses on either.
constexpr size_t kAddressable = size_t{1} << 48;

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

Error CannotLoad() {
  const char* reason = ::dlerror();
  return {
      ErrorCode::kNotFound,
      fmt::format("{}: cannot be loaded: {}; predictors are trained with "
                  "OpenBLAS, Debian's package libopenblas0",
                  kLibrary, reason == nullptr ? "no reason given" : reason)};
}

Result<Blas> Load() {
  ::setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/0);
  NameCore();
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return tl::unexpected(CannotLoad());
  const auto find = [&]<typename Function>(const char* name, Function*& to) {
    to = reinterpret_cast<Function*>(::dlsym(library, name));
    return to != nullptr;
  };
  Blas blas = {};
  find("blas_memory_alloc", blas.take_space);
  find("blas_memory_free", blas.give_space);
  decltype(&::openblas_set_num_threads) set_num_threads = nullptr;
  if (!find("cblas_sgemm", blas.sgemm) || !find("cblas_strsm", blas.strsm) ||
      !find("openblas_set_num_threads", set_num_threads)) {
    return tl::unexpected(CannotLoad());
  }
  set_num_threads(1);
  return blas;
}

// Held all at once and given back: then there is room for what the library maps
// next. In pieces, as the library does it: the kernel may refuse one that is
// larger than the machine's memory where it gives as much in many.
Status CheckRoom(int num_threads) {
  const size_t num_bytes = static_cast<size_t>(num_threads) * kSpaceBytes;
  // What nobody gets takes no million pieces to find out.
  const size_t piece_bytes = num_bytes < kAddressable ? kSpaceBytes : num_bytes;
  std::vector<os::AlignedBuffer> room;
  for (size_t held = 0; held < num_bytes; held += piece_bytes) {
    auto piece = os::AlignedBuffer::Allocate(piece_bytes);
    if (!piece.has_value()) {
      return Annotate(fmt::format("{}: the working space of {}", kLibrary,
                                  Plural(num_threads, "thread")),
                      piece.error());
    }
    room.push_back(*std::move(piece));
  }
  return {};
}

}  // namespace

Result<const Blas*> LoadBlas() {
  static const Result<Blas> blas = Load();
  if (blas.has_value()) return &*blas;
  return tl::unexpected(blas.error());
}

Status ReserveSpace(const Blas& blas, int num_threads) {
  TC_RETURN_IF_ERROR(CheckRoom(num_threads));
  if (blas.take_space == nullptr || blas.give_space == nullptr) return {};
  std::vector<void*> spaces;
  for (int i = 0; i < num_threads; ++i) spaces.push_back(blas.take_space(0));
  for (void* space : spaces) blas.give_space(space);
  return {};
}

}  // namespace thermocline::training
