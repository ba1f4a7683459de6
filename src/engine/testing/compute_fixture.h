// What the steps of a layer compute with, for tests of one step.
#ifndef THERMOCLINE_ENGINE_TESTING_COMPUTE_FIXTURE_H_
#define THERMOCLINE_ENGINE_TESTING_COMPUTE_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/matmul.h"
#include "engine/scratch.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "os/memory.h"
#include "os/thread_pool.h"
#include "predictor/neuron_set.h"
#include "tensor/codec.h"
#include "tensor/tensor_view.h"

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
                 .rounded_rows = scratch_.rounded_rows,
                 .tiles = scratch_.tiles,
                 .tile_bytes = scratch_.tile_bytes} {}

  const Compute& compute() const { return compute_; }
  // As a session does before each batch.
  void set_batch_tokens(size_t num_tokens) {
    compute_.batch_tokens = num_tokens;
  }
  const Scratch& scratch() const { return scratch_; }

 private:
  static ScratchShape WithIsa(ScratchShape shape, kernels::Isa isa) {
    shape.isa = isa;
    return shape;
  }

  std::unique_ptr<os::ThreadPool> pool_;
  os::AlignedBuffer buffer_;
  Scratch scratch_;
  Compute compute_;
};

// A matrix [num_rows, n] of any type that owns its bytes.
class OwnedTensor {
 public:
  OwnedTensor(DType dtype, std::span<const float> values, uint64_t n)
      : bytes_(BytesOf(dtype, values.size())) {
    QuantizeRow(dtype, values, bytes_.data());
    view_ = {dtype, {{n, values.size() / n, 1, 1}, 2}, bytes_.data()};
  }
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;
  const TensorView& view() const { return view_; }

 private:
  std::vector<std::byte> bytes_;
  TensorView view_;
};

// Between -amplitude and amplitude.
inline std::vector<float> RandomFloats(size_t count, uint64_t seed,
                                       float amplitude = 1.0f) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform(-amplitude, amplitude);
  return values;
}

inline std::vector<size_t> MembersOf(const predictor::NeuronSet& set) {
  std::vector<size_t> members;
  set.ForEachIn(0, set.num_neurons, [&](size_t i) { members.push_back(i); });
  return members;
}

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_COMPUTE_FIXTURE_H_
