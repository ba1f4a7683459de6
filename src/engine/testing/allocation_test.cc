// That decoding allocates nothing. The operators below replace those of the
// whole test program; they count while a test asks for it. Sanitizers bring
// their own, which see more; so these are left out there.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "engine/session.h"
#include "engine/testing/tiny_model.h"
#include "kernels/kernels.h"

namespace {
std::atomic<bool> counting = false;
std::atomic<int> num_allocations = 0;

void* Allocate(std::size_t num_bytes, std::size_t alignment) {
  if (counting) ++num_allocations;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, num_bytes) != 0) std::abort();
  return memory;
}
}  // namespace

void* operator new(std::size_t num_bytes) {
  return Allocate(num_bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t num_bytes, std::align_val_t alignment) {
  return Allocate(num_bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace thermocline::engine {
namespace {

TEST(Allocation, TheCounterCounts) {
  num_allocations = 0;
  counting = true;
  const std::vector<int> vector(10);
  counting = false;
  EXPECT_EQ(num_allocations, 1);
}

constexpr int64_t kContext = 96;

SessionOptions OptionsOf(kernels::Isa isa, DType kv_type, int64_t batch) {
  SessionOptions options;
  options.context = kContext;
  options.num_threads = 3;
  options.batch = batch;
  options.k_type = kv_type;
  options.v_type = kv_type;
  options.isa = isa;
  return options;
}

void ExpectNoAllocations(const std::shared_ptr<const model::Model>& model,
                         SessionOptions options) {
  int num_reports = 0;
  options.progress = [&](std::string_view, uint64_t, uint64_t) {
    ++num_reports;
  };
  const auto session = Session::Create(model, options);
  ASSERT_TRUE(session.has_value());
  const size_t vocab_size = model->config().vocab_size;
  const auto tokens = testing::RandomTokens(
      static_cast<size_t>(std::max<int64_t>(options.batch, 20)), vocab_size);
  std::vector<float> logits(tokens.size() * vocab_size);
  num_allocations = 0;
  counting = true;
  // Nothing in between that could allocate: no EXPECT.
  const Status first = (*session)->Prompt(tokens, LogitsOf::kAll, logits);
  const Status second =
      (*session)->Generate(std::span(tokens).first(1), LogitsOf::kLast,
                           std::span(logits).first(vocab_size));
  const Status third =
      (*session)->Generate(std::span(tokens).first(3), LogitsOf::kNone, {});
  (*session)->Truncate(3);
  counting = false;
  EXPECT_EQ(num_allocations, 0);
  EXPECT_TRUE(first.has_value() && second.has_value() && third.has_value());
  EXPECT_GT(num_reports, 0);
}

// Prompts in batches with a rest, and what is generated, one row and several.
void ExpectNoAllocations(testing::TinySpec spec, DType kv_type = DType::kF16) {
  spec.context_length = kContext;
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  for (const kernels::Isa isa : kernels::SupportedIsas()) {
    for (const int64_t batch : {1, 7, 20, 80}) {
      SCOPED_TRACE(fmt::format("{} {}", kernels::NameOf(isa), batch));
      ExpectNoAllocations(model, OptionsOf(isa, kv_type, batch));
    }
  }
}

TEST(Allocation, DecodeAllocatesNothing) {
  testing::TinySpec spec = testing::WideSpec(DType::kQ4_K);
  spec.value_dtype = DType::kF16;
  ExpectNoAllocations(spec);
}

TEST(Allocation, NoCacheAllocates) {
  for (const DType weights : {DType::kQ4_0, DType::kQ6_K, DType::kF16}) {
    for (const DType kv_type : {DType::kF32, DType::kF16, DType::kQ8_0}) {
      SCOPED_TRACE(fmt::format("{} {}", NameOf(weights), NameOf(kv_type)));
      testing::TinySpec spec = testing::WideSpec(weights);
      spec.num_layers = 1;
      ExpectNoAllocations(spec, kv_type);
    }
  }
}

TEST(Allocation, DecodeWithExpertsAllocatesNothing) {
  testing::TinySpec spec = testing::WideSpec(DType::kQ4_K);
  spec.num_experts = 8;
  spec.num_experts_used = 2;
  ExpectNoAllocations(spec);
}

TEST(Allocation, DecodeWithLearnedPositionsAllocatesNothing) {
  testing::TinySpec spec = testing::WideSpec(DType::kF16);
  spec.architecture = "opt";
  ExpectNoAllocations(spec);
}

TEST(Allocation, DecodeWithPredictorsAllocatesNothing) {
  testing::TinySpec spec = testing::WideSpec(DType::kQ4_K);
  spec.architecture = "bamboo";
  spec.low_ranks = {256, 256};
  spec.both_downs = true;
  ExpectNoAllocations(spec);
  spec.both_downs = false;
  ExpectNoAllocations(spec);
}

}  // namespace
}  // namespace thermocline::engine

#endif  // no sanitizer
