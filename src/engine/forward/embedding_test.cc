#include "engine/forward/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "compute/test_compute.h"
#include "engine/engine_plan.h"
#include "engine/kv/kv_pool.h"
#include "engine/testing/tiny_model.h"
#include "os/memory.h"

namespace thermocline::engine {
namespace {

// Rows of two runs, then one of them again: as many bits, and no others.
TEST(EmbeddingTest, ARowIsItsTokensAtItsPosition) {
  const auto model = testing::MakeTinyModel({});
  const auto pool = os::ThreadPool::Create({.num_threads = 2, .pin = false});
  const compute::Compute compute = {
      .pool = pool->get(),
      .kernels = &kernels::KernelsFor(kernels::Isa::kScalar)};
  const ScratchShape shape = {.batch = 5, .context = 64, .num_threads = 2};
  const auto memory =
      os::AlignedBuffer::Allocate(ScratchBytes(model->config(), shape).value());
  const Scratch scratch = MakeScratch(model->config(), shape, memory->data());
  const auto kv =
      KvPool::Create(
          PlanKvLayout(model->config(), DType::kF16, DType::kF16).value(), 4)
          .value();
  KvSequence first(kv.get(), 64);
  KvSequence second(kv.get(), 64);
  ASSERT_TRUE(second.Reserve(7).has_value());
  second.Advance(7);
  const std::vector<text::TokenId> tokens = {3, 9, 3, 3, 9};
  const BatchRun runs[] = {{&first, std::span(tokens).first(2)},
                           {&second, std::span(tokens).last(3)}};
  const Embedding embedding(model.get(), &compute, &scratch);
  embedding.Run({runs});
  const auto row = [&](size_t i) {
    const std::span<const float> of = scratch.residual.span(i);
    return std::vector<float>(of.begin(), of.end());
  };
  EXPECT_EQ(row(0), row(2));
  EXPECT_EQ(row(1), row(4));
  EXPECT_NE(row(0), row(1));
  // The first pair turns by 1 a position.
  EXPECT_NEAR(scratch.ropes[0].sin.row(1)[0], std::sin(1.0), 1e-6);
  EXPECT_NEAR(scratch.ropes[0].sin.row(4)[0], std::sin(9.0), 1e-6);
  const std::vector<float> before = row(4);
  scratch.residual.row(4)[5] = 77.0f;
  embedding.RunRow(runs[1], 2, 4);
  EXPECT_EQ(row(4), before);
}

}  // namespace
}  // namespace thermocline::engine
