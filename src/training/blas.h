// OpenBLAS, loaded when the first product needs it: its library starts a thread
// for every CPU as soon as it is there, and those who only run models never
// need it.
#ifndef THERMOCLINE_TRAINING_BLAS_H_
#define THERMOCLINE_TRAINING_BLAS_H_

#include <cblas.h>

#include "base/status.h"

namespace thermocline::training {

struct Blas {
  decltype(&::cblas_sgemm) sgemm;
  decltype(&::cblas_strsm) strsm;
  // The library's own space to work in, which a product takes and gives back
  // but which stays mapped; null where a build does not show them.
  void* (*take_space)(int);
  void (*give_space)(void*);
};

// The library, with one thread. The first call loads it for the whole process
// and sets OPENBLAS_NUM_THREADS to 1 and OPENBLAS_CORETYPE to the kernels that
// suit the processor, unless they are set. Safe from any thread.
// kNotFound: it is not there, or there is no memory for it; the message has the
// loader's words and names the package.
Result<const Blas*> LoadBlas();

// Maps the space that products in `num_threads` threads at a time work in; to
// be called before the first of them: a product that finds none asks for it
// again and again, for ever. Address space only: pages are touched by products.
// kResourceExhausted: there is not that much.
Status ReserveSpace(const Blas& blas, int num_threads);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_BLAS_H_
