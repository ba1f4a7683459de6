#include "engine/device/weight_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> RandomBytes(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

TensorView MatrixOf(DType dtype, size_t n, size_t num_rows,
                    const std::vector<std::byte>& bytes, size_t stride) {
  return {.dtype = dtype,
          .shape = {.ne = {n, num_rows, 1, 1}, .rank = 2},
          .data = bytes.empty() ? nullptr : bytes.data(),
          .stride_bytes = stride};
}

TensorView VectorOf(const std::vector<float>& values) {
  return {.shape = {.ne = {values.size(), 1, 1, 1}, .rank = 1},
          .data = reinterpret_cast<const std::byte*>(values.data())};
}

class WeightLoaderTest : public ::testing::Test {
 protected:
  // Late: a copy out of staging that was reused shows.
  WeightLoaderTest()
      : device_(device::MakeSim(device::TestMachine(), {.is_late = true})),
        lane_(DeviceLane::Make(device_.get(),
                               {.device_bytes = 256,
                                .pinned_bytes = WeightLoader::kStagingBytes})
                  .value()) {}

  std::vector<std::byte> Read(const void* from, size_t num_bytes) {
    std::vector<std::byte> bytes(num_bytes);
    EXPECT_TRUE(device_->Copy(lane_->stream(), bytes.data(), from, num_bytes));
    EXPECT_TRUE(device_->Synchronize(lane_->stream()));
    return bytes;
  }

  std::shared_ptr<device::SimDevice> device_;
  std::unique_ptr<DeviceLane> lane_;
};

// Matrices of more than the staging memory too, and rows that lie apart.
TEST_F(WeightLoaderTest, CopiesWhatItPlanned) {
  constexpr size_t kN = 160;
  constexpr size_t kRows = 30000;  // of Q8_0: 5 MiB
  const size_t stride = BytesOf(DType::kQ8_0, kN) + 7;
  const auto bytes = RandomBytes(stride * kRows, 1);
  const TensorView matrix = MatrixOf(DType::kQ8_0, kN, kRows, bytes, stride);
  const std::vector<float> bias = {1.0f, 2.0f, 3.0f};
  const device::RowLayout& layout = device_->layout();
  WeightLoader counter(layout);
  const auto planned = counter.Matrix("the gate", matrix);
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->rows, nullptr);
  EXPECT_EQ(counter.Vector(VectorOf(bias)).value(), nullptr);
  counter.Matrix("the gate", matrix).value();
  EXPECT_EQ(counter.used() % 16, 0u);

  const auto memory =
      device_->Allocate(counter.used(), device::MemoryKind::kDevice, "weights");
  ASSERT_TRUE(memory);
  WeightLoader loader(lane_.get(), memory->data());
  const kernels::DeviceMatrix there = loader.Matrix("the gate", matrix).value();
  const float* const vector = loader.Vector(VectorOf(bias)).value();
  EXPECT_EQ(loader.Vector(TensorView()).value(), nullptr);
  const kernels::DeviceMatrix again = loader.Matrix("the gate", matrix).value();
  EXPECT_EQ(loader.used(), counter.used());
  EXPECT_EQ(there.rows, memory->data());
  EXPECT_EQ(again.rows, memory->data() + there.num_bytes() + 16);
  EXPECT_EQ(there.num_rows, kRows);
  EXPECT_EQ(there.n, kN);
  const auto read = Read(there.rows, there.num_bytes());
  std::vector<std::byte> row(there.row_bytes);
  for (size_t i = 0; i < kRows; i += 77) {
    layout.Pack(DType::kQ8_0, matrix.row(i), kN, row.data());
    ASSERT_EQ(std::memcmp(read.data() + i * row.size(), row.data(), row.size()),
              0)
        << i;
  }
  EXPECT_EQ(std::memcmp(Read(vector, 12).data(), bias.data(), 12), 0);
}

// What has a shape alone takes its place, and nothing of it is read.
TEST_F(WeightLoaderTest, TakesAShape) {
  const TensorView matrix = MatrixOf(DType::kF16, 64, 10, {}, 0);
  const auto memory =
      device_->Allocate(4096, device::MemoryKind::kDevice, "weights");
  ASSERT_TRUE(memory);
  WeightLoader loader(lane_.get(), memory->data());
  const auto there = loader.Matrix("the gate", matrix);
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_EQ(there->rows, memory->data());
  EXPECT_EQ(loader.used(), 64u * 2 * 10);
}

TEST_F(WeightLoaderTest, NamesATypeThatTheDeviceLacks) {
  WeightLoader counter(device_->layout());
  const auto refused =
      counter.Matrix("the gate", MatrixOf(DType::kQ8_K, 256, 1, {}, 0));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("the gate in Q8_K"));
}

}  // namespace
}  // namespace thermocline::engine
