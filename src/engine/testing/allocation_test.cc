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
#include <utility>
#include <vector>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/left_tensors.h"
#include "engine/session.h"
#include "engine/stream/expert_stream.h"
#include "engine/testing/hybrid.h"
#include "engine/testing/test_placement.h"
#include "engine/testing/tiny_model.h"
#include "kernels/kernels.h"
#include "model/test_prepared.h"
#include "os/file.h"
#include "os/test_folder.h"
#include "storage/block_reader.h"

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

int num_device_calls = 0;

class NotCounting {
 public:
  NotCounting() { ++num_device_calls; }
  ~NotCounting() { counting = was_counting_; }
  NotCounting(const NotCounting&) = delete;
  NotCounting& operator=(const NotCounting&) = delete;

 private:
  const bool was_counting_ = counting.exchange(false);
};

// What a device does itself is not the engine's: its calls do not count.
class Uncounted final : public device::Device {
 public:
  explicit Uncounted(std::shared_ptr<device::Device> inner)
      : inner_(std::move(inner)) {}

  Result<device::DeviceInfo> Info() const override { return inner_->Info(); }
  const device::RowLayout& layout() const override { return inner_->layout(); }
  Result<device::Buffer> Allocate(size_t num_bytes, device::MemoryKind kind,
                                  std::string_view what) override {
    return inner_->Allocate(num_bytes, kind, what);
  }
  uint64_t allocated_bytes(device::MemoryKind kind) const override {
    return inner_->allocated_bytes(kind);
  }
  uint64_t peak_bytes(device::MemoryKind kind) const override {
    return inner_->peak_bytes(kind);
  }
  Result<device::Stream> MakeStream(device::Priority priority) override {
    return inner_->MakeStream(priority);
  }
  Result<device::Event> MakeEvent() override { return inner_->MakeEvent(); }
  Status Copy(device::Stream stream, void* to, const void* from,
              size_t num_bytes) override {
    const NotCounting pause;
    return inner_->Copy(stream, to, from, num_bytes);
  }
  Status Fill(device::Stream stream, void* to, uint8_t value,
              size_t num_bytes) override {
    const NotCounting pause;
    return inner_->Fill(stream, to, value, num_bytes);
  }
  Status Run(device::Stream stream, const kernels::DeviceOp& op) override {
    const NotCounting pause;
    return inner_->Run(stream, op);
  }
  Status Record(device::Stream stream, device::Event event) override {
    const NotCounting pause;
    return inner_->Record(stream, event);
  }
  Status Wait(device::Stream stream, device::Event event) override {
    const NotCounting pause;
    return inner_->Wait(stream, event);
  }
  Status BeginGraph(device::Stream stream) override {
    const NotCounting pause;
    return inner_->BeginGraph(stream);
  }
  Result<device::Graph> EndGraph(device::Stream stream) override {
    const NotCounting pause;
    return inner_->EndGraph(stream);
  }
  Status Launch(device::Stream stream, device::Graph graph) override {
    const NotCounting pause;
    return inner_->Launch(stream, graph);
  }
  Status Synchronize(device::Event event) override {
    const NotCounting pause;
    return inner_->Synchronize(event);
  }
  Status Synchronize(device::Stream stream) override {
    const NotCounting pause;
    return inner_->Synchronize(stream);
  }
  Result<bool> IsReached(device::Event event) override {
    const NotCounting pause;
    return inner_->IsReached(event);
  }

 private:
  // Buffers are the other's.
  void Free(device::MemoryKind /*kind*/, std::byte* /*data*/,
            size_t /*num_bytes*/) override {}

  std::shared_ptr<device::Device> inner_;
};

TEST(Allocation, HybridDecodeAllocatesNothing) {
  testing::TinySpec spec = testing::WideSpec(DType::kQ4_K);
  testing::UseArchitecture("bamboo", spec);
  spec.low_ranks = {256, 256};
  spec.both_downs = true;
  spec.context_length = kContext;
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const size_t vocab_size = model->config().vocab_size;
  for (const DType kv_type : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    SessionOptions options = OptionsOf(kernels::BestIsa(), kv_type, 20);
    options.ffn = FfnMode::kFast;
    testing::PlacedRun run(model, options,
                           std::make_shared<Uncounted>(device::MakeSim(
                               device::TestMachine(), device::SimOptions())),
                           {.predictors = true});
    ASSERT_TRUE(run.status()) << run.status().error().message;
    const auto tokens = testing::RandomTokens(20, vocab_size);
    std::vector<float> logits(tokens.size() * vocab_size);
    const auto batch = [&](size_t count, Phase phase) {
      const BatchRun rows = {&run.sequence(), std::span(tokens).first(count),
                             phase, LogitsOf::kAll};
      return run.engine().Run({{&rows, 1}},
                              std::span(logits).first(count * vocab_size));
    };
    const int calls_before = num_device_calls;
    num_allocations = 0;
    counting = true;
    const Status first = batch(20, Phase::kPrompt);
    const Status second = batch(1, Phase::kGenerate);
    const Status third = batch(11, Phase::kGenerate);
    counting = false;
    EXPECT_EQ(num_allocations, 0) << NameOf(kv_type);
    EXPECT_TRUE(first && second && third);
    EXPECT_GT(num_device_calls, calls_before);
  }
}

// Rows of which a device computes a part: neurons, matrices, experts.
void ExpectNoHybridAllocations(testing::TinySpec spec, FfnMode mode,
                               bool bundles) {
  spec.activation = "relu";
  const auto model = testing::OpenTinyModel(spec, {.bundle_at_load = bundles});
  ASSERT_TRUE(model) << model.error().message;
  const auto device = std::make_shared<Uncounted>(
      device::MakeSim(device::TestMachine(), device::SimOptions()));
  Random random(1);
  const Placement placement = testing::DrawPlacement(
      **model, {.ffn = mode}, device->layout(),
      {.neurons = 0.5, .matrices = 1.0, .experts = 0.5}, random);
  testing::HybridRun run(*model, {.num_threads = 3, .ffn = mode}, device,
                         placement);
  ASSERT_TRUE(run.status()) << run.status().error().message;
  const auto tokens = testing::RandomTokens(11, spec.vocab_size);
  std::vector<float> logits(tokens.size() * spec.vocab_size);
  num_allocations = 0;
  counting = true;
  const Status first = run.RunInto(tokens, Phase::kGenerate, logits);
  const Status second =
      run.RunInto(std::span(tokens).first(1), Phase::kGenerate,
                  std::span(logits).first(spec.vocab_size));
  counting = false;
  EXPECT_EQ(num_allocations, 0);
  EXPECT_TRUE(first.has_value() && second.has_value());
}

TEST(Allocation, DecodeWithADeviceAllocatesNothing) {
  testing::TinySpec dense;
  testing::TinySpec mixture;
  testing::UseArchitecture("mixtral", mixture);
  ExpectNoHybridAllocations(dense, FfnMode::kExact, true);
  ExpectNoHybridAllocations(dense, FfnMode::kDense, false);
  ExpectNoHybridAllocations(mixture, FfnMode::kExact, true);
  ExpectNoHybridAllocations(mixture, FfnMode::kDense, false);
}

// Prompts of many rows, and generated ones. Once as many reads were open as
// ever are: then the reader has its memory.
void ExpectNoStreamAllocations(Session& session, size_t vocab_size) {
  const auto tokens = testing::RandomTokens(40, vocab_size);
  const auto decode = [&] {
    Status status = session.Prompt(tokens, LogitsOf::kNone, {});
    for (const size_t count : {1, 5, 1}) {
      if (!status) break;
      status =
          session.Generate(std::span(tokens).first(count), LogitsOf::kNone, {});
    }
    session.Truncate(0);
    return status.has_value();
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(decode());
  num_allocations = 0;
  counting = true;
  const bool is_done = decode();
  counting = false;
  EXPECT_TRUE(is_done);
  EXPECT_EQ(num_allocations, 0) << NameOf(session.ffn());
}

TEST(Allocation, RecordsThatComeFromTheFileAllocateNothing) {
  const os::TestFolder folder;
  const std::string path = folder / "prepared.gguf";
  const testing::TinySpec spec = {.num_layers = 3, .activation = "relu"};
  const auto source = testing::OpenTinyModel(spec, {.bundle_at_load = true});
  ASSERT_TRUE(model::WritePreparedFile(**source, {}, {}, path));
  const std::string bytes = os::ReadFile(path).value();
  model::OpenOptions open;
  open.leaves = testing::LeaveRecords;
  const auto model = model::Model::Open(path, open).value();
  SessionOptions options = {.num_threads = 3,
                            .ffn = FfnMode::kExact,
                            .dense_prompts = true,
                            .budget = {.ram = 0}};
  options.budget.ram =
      PlanRuntime(*model, options)->memory.host.total() + (64 << 10);
  options.open_records = [&](const std::vector<std::string>&) {
    return Result<std::unique_ptr<storage::BlockReader>>(
        storage::MakeFakeReader({std::as_bytes(std::span(bytes))}, {}));
  };
  const auto session = Session::Create(model, options).value();
  ExpectNoStreamAllocations(*session, spec.vocab_size);
}

TEST(Allocation, LayersThatComeFromTheFileAllocateNothing) {
  const testing::TinySpec spec = {.num_layers = 5};
  const auto mapped = testing::MakeTinyModel(spec);
  ASSERT_NE(mapped, nullptr);
  const gguf::TensorInfo& tensor = mapped->file().tensors()[0];
  const std::span<const std::byte> bytes = {tensor.data - tensor.offset,
                                            mapped->file().num_file_bytes()};
  SessionOptions options = {.num_threads = 3, .budget = {.ram = 0}};
  model::OpenOptions open;
  open.leaves = [&](const gguf::File& file, const model::Config& config) {
    return TensorsToLeave(file, config, options);
  };
  const auto model = testing::OpenTinyModel(spec, open).value();
  options.open_records = [&](const std::vector<std::string>&) {
    return Result<std::unique_ptr<storage::BlockReader>>(
        storage::MakeFakeReader({bytes}, {}));
  };
  options.budget.ram =
      PlanRuntime(*model, options)->memory.host.total() + (64 << 10);
  const auto session = Session::Create(model, options).value();
  ExpectNoStreamAllocations(*session, spec.vocab_size);
}

// Experts, guesses and all: prompts of many rows and generated ones.
TEST(Allocation, ExpertsThatComeFromTheFileAllocateNothing) {
  testing::TinySpec spec = {.num_layers = 3, .activation = "relu"};
  testing::UseArchitecture("mixtral", spec);
  model::OpenOptions open;
  open.leaves = [](const gguf::File& file, const model::Config& config) {
    return Result<std::vector<std::string>>(ExpertTensors(file, config));
  };
  const auto model = testing::OpenTinyModel(spec, open).value();
  const auto mapped = testing::MakeTinyModel(spec);
  const gguf::TensorInfo& first = mapped->file().tensors().front();
  const std::span bytes(first.data - first.offset,
                        mapped->file().num_file_bytes());
  for (const FfnMode mode : {FfnMode::kDense, FfnMode::kExact}) {
    SessionOptions options = {
        .num_threads = 3, .ffn = mode, .budget = {.ram = 0}};
    options.budget.ram =
        PlanRuntime(*model, options)->memory.host.total() + (1 << 20);
    options.open_records = [&](const std::vector<std::string>&) {
      return Result<std::unique_ptr<storage::BlockReader>>(
          storage::MakeFakeReader({bytes}, {}));
    };
    const auto session = Session::Create(model, options).value();
    ExpectNoStreamAllocations(*session, spec.vocab_size);
  }
}

}  // namespace
}  // namespace thermocline::engine

#endif  // no sanitizer
