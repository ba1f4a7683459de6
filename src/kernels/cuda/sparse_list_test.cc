#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/sparse_ffn.h"
#include "kernels/cuda/test_mutants.h"
#include "kernels/cuda/test_sparse_ffn.h"
#include "kernels/cuda/testing.h"

namespace thermocline::cuda {

std::span<const Mutant<decltype(&LaunchSparseList)>>
MutantsOfLaunchSparseList();

namespace {

SparseFfnLayer ListLayer(size_t num_neurons, size_t num_tokens,
                         uint64_t wanted_of_8) {
  return SparseFfnLayer({.gate = DType::kF16,
                         .up = DType::kF16,
                         .down = DType::kF16,
                         .n = 0,
                         .num_neurons = num_neurons,
                         .num_tokens = num_tokens,
                         .wanted_of_8 = wanted_of_8});
}

// What is wrong with a run; empty: nothing.
std::string RunList(const SparseFfnLayer& layer,
                    decltype(&LaunchSparseList) launch) {
  const SparseFfnOnDevice device(layer);
  const SparseFfnRun run(layer, device);
  launch(run.args, nullptr);
  if (const std::string fault = TakeFault(); !fault.empty()) return fault;
  std::vector<uint32_t> begins, slots, rows;
  const std::vector<uint32_t> neurons = layer.Listed(&begins);
  for (const uint32_t neuron : neurons) {
    slots.push_back(static_cast<uint32_t>(layer.slot_of[neuron]));
    rows.push_back(layer.RowsOf(neuron));
  }
  const size_t count = neurons.size();
  const SparseFfnScratch scratch = ScratchOf(run.args);
  if (run.num_listed.Read()[0] != count) return "wrong count";
  if (run.ReadPart(scratch.begins, begins.size()) != begins) {
    return "wrong groups";
  }
  if (run.ReadPart(scratch.neurons, count) != neurons) return "wrong neurons";
  if (run.ReadPart(scratch.slots, count) != slots) return "wrong slots";
  if (run.ReadPart(scratch.rows, count) != rows) return "wrong rows";
  for (const uint32_t word : run.fired.Read()) {
    if (word != 0) return "fired is not cleared";
  }
  return "";
}

// Of no neurons, of one, of more than all warps take at once; with sets that
// are empty, and without sets.
TEST(SparseList, IsTheUnionInGroups) {
  const SparseFfnLayer layers[] = {ListLayer(0, 1, 3),    ListLayer(1, 1, 8),
                                   ListLayer(40, 8, 1),   ListLayer(4177, 1, 3),
                                   ListLayer(4177, 3, 2), ListLayer(4177, 2, 0),
                                   ListLayer(1111, 8, 8)};
  for (const SparseFfnLayer& layer : layers) {
    SCOPED_TRACE(testing::Message() << layer.shape.num_neurons << " neurons, "
                                    << layer.shape.num_tokens << " rows");
    EXPECT_EQ(RunList(layer, LaunchSparseList), "");
  }
}

TEST(SparseList, NoOrderOfThreadsChangesIt) {
  const SparseFfnLayer layer = ListLayer(1500, 2, 3);
  ForEachSchedule(20, [&](uint64_t seed) {
    EXPECT_EQ(RunList(layer, LaunchSparseList), "") << "seed " << seed;
  });
}

#ifdef TC_CUDA_ON_HOST

void ExpectListMutantsNoticed(uint64_t seed) {
  static const SparseFfnLayer layers[] = {ListLayer(4177, 2, 3),
                                          ListLayer(100, 2, 8)};
  const auto run = [](decltype(&LaunchSparseList) launch) {
    const std::string what = RunList(layers[0], launch);
    return what.empty() ? RunList(layers[1], launch) : what;
  };
  cuda_on_host::Options options;
  options.seed = seed;
  options.preempt = seed % 2 == 0 ? 0 : 8;
  cuda_on_host::SetOptions(options);
  for (const auto& mutant : MutantsOfLaunchSparseList()) {
    EXPECT_NE(run(mutant.launch), "") << mutant.name << ", seed " << seed;
  }
  cuda_on_host::SetOptions(options);
  EXPECT_EQ(run(LaunchSparseList), "");
  const auto calls = cuda_on_host::GetStats().ordering_calls;
  EXPECT_EQ(calls.size(), 1u);
  for (const std::string& call : calls) {
    cuda_on_host::Options without = options;
    without.dropped_call = call;
    cuda_on_host::SetOptions(without);
    EXPECT_NE(run(LaunchSparseList), "") << call;
  }
  cuda_on_host::SetOptions({});
}

TEST(SparseList, MutantsAreNoticed) { ExpectListMutantsNoticed(0); }

TEST(SparseListLongDraws, MutantsAreNoticedUnderEverySeed) {
  for (uint64_t seed = 1; seed < 6; ++seed) ExpectListMutantsNoticed(seed);
}

#endif  // TC_CUDA_ON_HOST

}  // namespace
}  // namespace thermocline::cuda
