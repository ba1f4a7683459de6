// This machine, as plans for models larger than memory want it.
#ifndef THERMOCLINE_CLI_STORAGE_HOST_H_
#define THERMOCLINE_CLI_STORAGE_HOST_H_

#include <cstddef>
#include <string>

#include "base/progress.h"
#include "base/status.h"
#include "kernels/isa.h"
#include "planner/storage_machine.h"
#include "tensor/dtype.h"

namespace thermocline::cli {

// By its CPU and how many cores of it this process may use.
std::string StorageHostName();

struct StorageHostOptions {
  std::string path;           // a file on the storage, of 1 MiB at least
  DType dtype = DType::kF16;  // of the weights
  kernels::Isa isa = kernels::BestIsa();
  double seconds = 0.08;    // of each row of reads
  size_t memory_bytes = 0;  // that are read; 0: more than caches hold
  ProgressFn progress;
};

// Measures cores one by one where they are not alike, memory with 1, 2, 4, ...
// threads, and reads. Cores that compute read too, as the engine does. Takes
// some seconds. Errors of probe::MeasureProduct, ReadProbe and MeasureStorage.
Result<planner::StorageMachine> MeasureStorageHost(
    const StorageHostOptions& options);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STORAGE_HOST_H_
