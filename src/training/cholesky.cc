#include "training/cholesky.h"

#include <cmath>

namespace thermocline::training {

void Cholesky(std::vector<double>& gram, size_t n) {
  for (size_t j = 0; j < n; ++j) {
    double* row = &gram[j * n];
    const double own = row[j];
    for (size_t k = 0; k < j; ++k) row[j] -= row[k] * row[k];
    const bool is_empty = !(row[j] > 1e-9 * own) || !(own > 1e-30);
    row[j] = is_empty ? 1e18 : std::sqrt(row[j]);
    for (size_t i = j + 1; i < n; ++i) {
      double* other = &gram[i * n];
      for (size_t k = 0; k < j; ++k) other[j] -= other[k] * row[k];
      other[j] = is_empty ? 0.0 : other[j] / row[j];
    }
  }
}

void SolveByTriangle(const Gemm& gemm, const std::vector<double>& triangle,
                     size_t n, std::vector<float>& right, size_t num_columns) {
  const std::vector<float> lower(triangle.begin(), triangle.end());
  for (const CBLAS_TRANSPOSE order : {CblasNoTrans, CblasTrans}) {
    gemm.blas().strsm(CblasRowMajor, CblasLeft, CblasLower, order, CblasNonUnit,
                      static_cast<blasint>(n),
                      static_cast<blasint>(num_columns), 1.0f, lower.data(),
                      static_cast<blasint>(n), right.data(),
                      static_cast<blasint>(num_columns));
  }
}

}  // namespace thermocline::training
