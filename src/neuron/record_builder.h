// Lays out the matrices of an FFN as records.
#ifndef THERMOCLINE_NEURON_RECORD_BUILDER_H_
#define THERMOCLINE_NEURON_RECORD_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neuron/record.h"
#include "os/thread_pool.h"
#include "tensor/tensor_view.h"

namespace thermocline::neuron {

// The matrices of one FFN or expert. All can be computed with.
struct RecordSource {
  TensorView gate;    // [F, D] in the layout's type, if that has a gate
  TensorView up;      // [F, D] in the layout's type
  TensorView down;    // [D, F] in any type; not looked at if there is down_t
  TensorView down_t;  // [F, D] in any type
};

// What the down columns lost by being encoded anew.
struct DownCost {
  double squared_error = 0;  // sum of (written - read)^2
  double squared_norm = 0;   // sum of read^2

  void Add(const DownCost& other);
  // RMS of the error over the RMS of what was read; 0 for zeros. Not finite if
  // the weights were not.
  double RelativeError() const;
};

// Owns scratch memory of 1 KiB * D for each thread. Its pool outlives it and is
// not used by others meanwhile.
class RecordBuilder {
 public:
  // Ranges begin at multiples of it: the largest block of any type.
  static constexpr uint64_t kUnitNeurons = 256;

  explicit RecordBuilder(os::ThreadPool* pool);

  // Writes num_neurons records at `out` (num_neurons * layout.stride bytes),
  // neurons first_neuron on. Gate and up are copied. Down is copied where the
  // source has the layout's type neuron by neuron or in floats; else it is
  // decoded and encoded along D (tensor/codec.h), and its cost returned. The
  // same bytes and the same cost for every number of threads.
  // Requires layout.width = D and, with a down matrix alone, whole blocks along
  // F. (CHECKed)
  // Cost: encoding takes some 5 ns per element and thread; copying runs at the
  // speed of memory.
  DownCost Build(const RecordLayout& layout, const RecordSource& source,
                 uint64_t first_neuron, uint64_t num_neurons, std::byte* out);

 private:
  os::ThreadPool* pool_;
  std::vector<std::vector<float>> columns_;  // of each thread
};

}  // namespace thermocline::neuron

#endif  // THERMOCLINE_NEURON_RECORD_BUILDER_H_
