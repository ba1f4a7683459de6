// Cholesky's decomposition, for small symmetric matrices that may be singular.
#ifndef THERMOCLINE_TRAINING_CHOLESKY_H_
#define THERMOCLINE_TRAINING_CHOLESKY_H_

#include <cstddef>
#include <vector>

#include "training/gemm.h"

namespace thermocline::training {

// The lower triangle L of gram [n, n] = L L^T, in its place. A column without
// anything of its own becomes a unit vector of size 1e18: what is divided by it
// vanishes.
void Cholesky(std::vector<double>& gram, size_t n);

// Solves gram x = right in the place of `right` [n, num_columns], given its
// triangle. What has nothing of its own becomes 0.
void SolveByTriangle(const Gemm& gemm, const std::vector<double>& triangle,
                     size_t n, std::vector<float>& right, size_t num_columns);

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_CHOLESKY_H_
