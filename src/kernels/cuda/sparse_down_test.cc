#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/sparse_ffn.h"
#include "kernels/cuda/test_mutants.h"
#include "kernels/cuda/test_sparse_ffn.h"
#include "kernels/cuda/testing.h"

namespace thermocline::cuda {

std::span<const Mutant<decltype(&LaunchSparseDown)>>
MutantsOfLaunchSparseDown();

namespace {

// Groups of more entries than are loaded at once; words of more than a block.
SparseFfnShape DownShape(DType dtype, size_t n, size_t num_tokens) {
  return {.gate = DType::kF16,
          .up = DType::kF16,
          .down = dtype,
          .n = n,
          .num_neurons = 1100,
          .num_tokens = num_tokens};
}

struct DownCase {
  SparseFfnLayer layer;
  SparseFfnOnDevice device{layer};
  std::vector<double> expected;
  std::vector<std::byte> scratch;  // as the stages before leave it

  explicit DownCase(const SparseFfnShape& shape)
      : layer(shape), expected(layer.Out()) {
    const SparseFfnRun run(layer, device);
    LaunchSparseList(run.args, nullptr);
    LaunchSparseHidden(run.args, nullptr);
    EXPECT_EQ(TakeFault(), "");
    scratch = run.scratch.Read();
    const auto* partials =
        reinterpret_cast<const std::byte*>(ScratchOf(run.args).partials);
    for (auto i = partials - run.scratch.get(); i < std::ssize(scratch); ++i) {
      scratch[static_cast<size_t>(i)] = std::byte{0xff};  // NaN
    }
  }

  // What is wrong with a run; empty: nothing.
  std::string Run(decltype(&LaunchSparseDown) launch) const {
    const SparseFfnRun run(layer, device, scratch);
    launch(run.args, nullptr);
    if (const std::string fault = TakeFault(); !fault.empty()) return fault;
    return Nmse(run.out.Read(), expected) < 1e-12 ? "" : "wrong";
  }
};

TEST(SparseDown, EqualsTheReferenceAtOddSizes) {
  for (const SparseFfnShape& shape :
       {DownShape(DType::kF16, 3, 1), DownShape(DType::kBF16, 261, 2),
        DownShape(DType::kQ8_0, 288, 1)}) {
    EXPECT_EQ(DownCase(shape).Run(LaunchSparseDown), "") << NameOf(shape.down);
  }
}

#ifdef TC_CUDA_ON_HOST

void ExpectDownMutantsNoticed(uint64_t seed) {
  // In the first all of the records are read to their end.
  SparseFfnShape all = DownShape(DType::kF16, 259, 1);
  all.num_neurons = 600;
  all.activation = Activation::kSilu;
  all.wanted_of_8 = 8;
  static const DownCase cases[] = {DownCase(all),
                                   DownCase(DownShape(DType::kF16, 259, 2))};
  cuda_on_host::Options options;
  options.seed = seed;
  options.preempt = seed % 2 == 0 ? 0 : 8;
  cuda_on_host::SetOptions(options);
  const auto run = [&](decltype(&LaunchSparseDown) launch) {
    std::string what = cases[0].Run(launch);
    if (what.empty()) what = cases[1].Run(launch);
    return what;
  };
  EXPECT_EQ(run(LaunchSparseDown), "");
  const auto calls = cuda_on_host::GetStats().ordering_calls;
  for (const auto& mutant : MutantsOfLaunchSparseDown()) {
    EXPECT_NE(run(mutant.launch), "") << mutant.name << ", seed " << seed;
  }
  for (const std::string& call : calls) {
    if (call.find("sparse_down.cu") == std::string::npos) continue;
    cuda_on_host::Options without = options;
    without.dropped_call = call;
    cuda_on_host::SetOptions(without);
    EXPECT_NE(run(LaunchSparseDown), "") << "without that of " << call;
  }
  cuda_on_host::SetOptions({});
}

TEST(SparseDown, MutantsAreNoticed) { ExpectDownMutantsNoticed(0); }

TEST(SparseDownLongDraws, MutantsAreNoticedUnderEverySeed) {
  for (uint64_t seed = 1; seed < 6; ++seed) ExpectDownMutantsNoticed(seed);
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
