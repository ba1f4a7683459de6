// What the steps of a layer compute with, for tests of one step.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_COMPUTE_FIXTURE_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_COMPUTE_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/matmul.h"
#include "compute/test_compute.h"
#include "engine/ffn/ffn_executor.h"
#include "engine/scratch.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "neuron/neuron_set.h"
#include "os/memory.h"
#include "os/thread_pool.h"

namespace thermocline::engine::testing {

// A thread pool, a kernel table and scratch for a configuration.
class ComputeFixture {
 public:
  ComputeFixture(const model::Config& config, const ScratchShape& shape,
                 kernels::Isa isa = kernels::Isa::kScalar)
      : pool_(os::ThreadPool::Create(
                  {.num_threads = shape.num_threads, .pin = false})
                  .value()),
        buffer_(os::AlignedBuffer::Allocate(
                    ScratchBytes(config, WithIsa(shape, isa)).value())
                    .value()),
        scratch_(MakeScratch(config, WithIsa(shape, isa), buffer_.data())),
        compute_{.pool = pool_.get(),
                 .kernels = &kernels::KernelsFor(isa),
                 .scratch = scratch_.products} {}

  const compute::Compute& compute() const { return compute_; }
  const Scratch& scratch() const { return scratch_; }
  const FfnScratch& ffn_scratch() const { return scratch_.ffn.front(); }
  // The first num_rows rows, from scratch.normed to scratch.delta.
  FfnCall CallOf(size_t num_rows, Phase phase = Phase::kPrompt) const {
    return {.phase = phase,
            .num_rows = num_rows,
            .stream = scratch_.residual,
            .normed = scratch_.normed,
            .out = scratch_.delta,
            .sets = scratch_.sets_of(0),
            .next_sets = scratch_.sets_of(1)};
  }

 private:
  static ScratchShape WithIsa(ScratchShape shape, kernels::Isa isa) {
    shape.isa = isa;
    return shape;
  }

  std::unique_ptr<os::ThreadPool> pool_;
  os::AlignedBuffer buffer_;
  Scratch scratch_;
  compute::Compute compute_;
};

using compute::testing::OwnedTensor;
using compute::testing::RandomFloats;

inline std::vector<size_t> MembersOf(const neuron::NeuronSet& set) {
  std::vector<size_t> members;
  set.ForEachIn(0, set.num_neurons, [&](size_t i) { members.push_back(i); });
  return members;
}

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_COMPUTE_FIXTURE_H_
