// What a selector computes with, for tests.
#ifndef THERMOCLINE_PREDICTOR_TEST_SELECTOR_H_
#define THERMOCLINE_PREDICTOR_TEST_SELECTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compute/carver.h"
#include "compute/test_compute.h"
#include "neuron/active_sets.h"
#include "os/memory.h"
#include "predictor/selector.h"

namespace thermocline::predictor::testing {

class SelectorFixture {
 public:
  SelectorFixture(size_t num_rows, size_t width, size_t num_neurons,
                  int num_threads, kernels::Isa isa = kernels::Isa::kScalar)
      : compute_({.num_rows = num_rows,
                  .width = std::max(width, num_neurons),
                  .num_threads = num_threads,
                  .isa = isa}),
        words_(num_rows * neuron::ActiveSets::WordsPerRow(num_neurons)),
        sets_{num_neurons, words_.data()} {
    compute::Carver plan(nullptr);
    Carve(num_rows, width, num_neurons, num_threads, plan);
    buffer_ = os::AlignedBuffer::Allocate(plan.used()).value();
    compute::Carver carver(buffer_.data());
    Carve(num_rows, width, num_neurons, num_threads, carver);
  }

  const compute::Compute& compute() const { return compute_.compute(); }
  const SelectorScratch& scratch() const { return scratch_; }
  const compute::Rows& x() const { return x_; }
  const neuron::ActiveSets& sets() const { return sets_; }

  std::vector<size_t> Named(size_t row) const {
    std::vector<size_t> members;
    sets_.named(row).ForEachIn(0, sets_.num_neurons,
                               [&](size_t i) { members.push_back(i); });
    return members;
  }

 private:
  void Carve(size_t num_rows, size_t width, size_t num_neurons, int num_threads,
             compute::Carver& carver) {
    x_ = carver.TakeRows(num_rows, width);
    scratch_ = CarveSelectors(num_rows, width, num_threads, carver);
    scratch_.hidden =
        carver.TakeRows(num_rows, std::max<size_t>(num_neurons, 32));
    scratch_.scores = carver.TakeRows(num_rows, num_neurons);
  }

  compute::testing::TestCompute compute_;
  std::vector<uint64_t> words_;
  neuron::ActiveSets sets_;
  os::AlignedBuffer buffer_;
  compute::Rows x_;
  SelectorScratch scratch_;
};

}  // namespace thermocline::predictor::testing

#endif  // THERMOCLINE_PREDICTOR_TEST_SELECTOR_H_
