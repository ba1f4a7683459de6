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
};

// The library, with one thread. The first call loads it for the whole process
// and sets OPENBLAS_NUM_THREADS to 1 and OPENBLAS_CORETYPE to the kernels that
// suit the processor, unless they are set. Safe from any thread.
// kNotFound: it is not installed; the message names the package.
Result<const Blas*> LoadBlas();

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_BLAS_H_
