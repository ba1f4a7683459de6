#include "engine/kv/device_kv.h"

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

using kernels::KvOrder;
using ::testing::HasSubstr;

constexpr uint64_t kNumDevicePages = 12;

struct KvCase {
  const char* name;
  DType dtype;  // of the host's pages
  KvOrder order;
};

// Layers 0 and 2 of three attend on the device, with other heads each.
class DeviceKvTest : public ::testing::TestWithParam<KvCase> {
 protected:
  DeviceKvTest() { Make({.is_late = true}); }

  void Make(const device::SimOptions& options) {
    const auto layer = [](size_t num_kv_heads, size_t k, size_t v) {
      return model::LayerSpec{.attention = {.num_heads = num_kv_heads,
                                            .num_kv_heads = num_kv_heads,
                                            .key_width = k,
                                            .value_width = v}};
    };
    config_.num_layers = 3;
    config_.layers = {layer(2, 32, 64), layer(3, 32, 32), layer(1, 64, 32)};
    pool_ = MakePool();
    kv_.reset();
    lane_.reset();
    device_ = device::MakeSim(device::TestMachine(), options);
    lane_ = DeviceLane::Make(device_.get(),
                             {.device_bytes = 256,
                              .pinned_bytes = DeviceKvNeed().pinned_bytes})
                .value();
    kv_ = DeviceKv::Make(config_, kOnDevice, kNumDevicePages, lane_.get())
              .value();
  }

  std::unique_ptr<KvPool> MakePool() const {
    const auto layout = PlanKvLayout(config_, GetParam().dtype,
                                     GetParam().dtype, GetParam().order);
    return KvPool::Create(layout.value(), kNumDevicePages).value();
  }

  void Write(KvSequence& sequence, int64_t num_new) {
    ASSERT_TRUE(sequence.Reserve(num_new));
    Random random(++seed_);
    std::vector<float> k(200), v(200);
    for (size_t layer = 0; layer < 3; ++layer) {
      for (int64_t i = 0; i < num_new; ++i) {
        for (float& value : k) value = random.Uniform(-2.0f, 2.0f);
        for (float& value : v) value = random.Uniform(-2.0f, 2.0f);
        sequence.Put(kernels::KernelsFor(kernels::Isa::kScalar), layer,
                     sequence.length() + i, k.data(), v.data());
      }
    }
  }
  // A prompt's positions, on the host alone.
  void Append(KvSequence& sequence, int64_t num_new) {
    Write(sequence, num_new);
    sequence.Advance(num_new);
  }

  static SequenceRows RowsOf(KvSequence& sequence, size_t num_rows = 1) {
    return {.sequence = &sequence,
            .first_position = sequence.length(),
            .num_rows = num_rows};
  }
  Status Sync(KvSequence& sequence) {
    const SequenceRows rows = RowsOf(sequence);
    return kv_->Sync({&rows, 1});
  }
  Status SyncBoth(KvSequence& a, KvSequence& b) {
    const SequenceRows rows[] = {RowsOf(a), RowsOf(b)};
    return kv_->Sync(rows);
  }

  // The device has what the host has.
  void ExpectThere(const KvSequence& sequence) {
    std::vector<std::byte> page(kv_->of(0).page_bytes);
    for (int64_t position = 0; position < sequence.length(); ++position) {
      const auto place = static_cast<size_t>(position % kKvPage);
      if (place == 0) {
        const uint32_t idx =
            sequence.page_of_pool(static_cast<size_t>(position / kKvPage));
        ASSERT_TRUE(device_->Copy(lane_->stream(), page.data(),
                                  kv_->of(0).pages + idx * page.size(),
                                  page.size()));
        ASSERT_TRUE(device_->Synchronize(lane_->stream()));
      }
      for (const size_t layer : kOnDevice) {
        const kernels::DeviceKv& kv = kv_->of(layer);
        std::vector<uint16_t> k(kv.num_kv_heads * kv.k_width);
        std::vector<uint16_t> v(kv.num_kv_heads * kv.v_width);
        sequence.Get(layer, position, 1, k.data(), v.data());
        for (size_t head = 0; head < kv.num_kv_heads; ++head) {
          const auto same = [&](size_t offset, size_t width,
                                const uint16_t* row) {
            return std::memcmp(
                       page.data() + offset + (head * 64 + place) * width * 2,
                       row + head * width, width * 2) == 0;
          };
          ASSERT_TRUE(same(kv.k_offset, kv.k_width, k.data()))
              << "keys of layer " << layer << ", position " << position;
          ASSERT_TRUE(same(kv.v_offset, kv.v_width, v.data()))
              << "values of layer " << layer << ", position " << position;
        }
      }
    }
  }

  static constexpr size_t kOnDevice[] = {0, 2};
  model::Config config_;
  std::shared_ptr<device::SimDevice> device_;
  std::unique_ptr<DeviceLane> lane_;
  std::unique_ptr<DeviceKv> kv_;
  std::unique_ptr<KvPool> pool_;
  uint64_t seed_ = 0;
};

TEST_P(DeviceKvTest, TakesExactlyWhatWasPlanned) {
  EXPECT_EQ(DeviceKvBytes(config_, kOnDevice, kNumDevicePages),
            kNumDevicePages * 64 * 2 * (2 * 32 + 2 * 64 + 64 + 32));
  EXPECT_EQ(device_->allocated_bytes(device::MemoryKind::kDevice),
            256 + DeviceKvBytes(config_, kOnDevice, kNumDevicePages));
}

// Prompts that end in the middle of a page, and go on there.
TEST_P(DeviceKvTest, GetsWhatTheHostComputed) {
  KvSequence sequence(pool_.get(), 500);
  EXPECT_TRUE(Sync(sequence));  // nothing
  for (const int64_t count : {100, 30, 1, 61, 64, 3}) {
    Append(sequence, count);
    ASSERT_TRUE(Sync(sequence));
    ExpectThere(sequence);
  }
  const uint64_t num_calls = device_->num_calls();
  ASSERT_TRUE(Sync(sequence));
  EXPECT_EQ(device_->num_calls(), num_calls);
}

// What attention wrote on both is not copied, unless the pass failed or the
// positions are written anew.
TEST_P(DeviceKvTest, CountsWhatWasCommitted) {
  KvSequence sequence(pool_.get(), 500);
  Append(sequence, 50);
  const auto calls_of_sync = [&] {
    const uint64_t before = device_->num_calls();
    EXPECT_TRUE(Sync(sequence));
    return device_->num_calls() - before;
  };
  EXPECT_GT(calls_of_sync(), 0u);
  // Three passes of 10 rows; the second fails. Rows cross a page.
  for (const bool succeeds : {true, false, true}) {
    Write(sequence, 10);
    if (succeeds) {
      const SequenceRows rows = RowsOf(sequence, 10);
      kv_->Commit({&rows, 1});
      sequence.Advance(10);
    } else {
      sequence.Truncate(sequence.length());
    }
    EXPECT_EQ(calls_of_sync(), 0u);
  }
  Append(sequence, 1);
  EXPECT_GT(calls_of_sync(), 0u);
  sequence.Truncate(sequence.length() - 1);
  EXPECT_EQ(calls_of_sync(), 0u);
  // A pass that failed had written there.
  Write(sequence, 3);
  sequence.Truncate(55);
  Append(sequence, 1);
  EXPECT_GT(calls_of_sync(), 0u);
}

TEST_P(DeviceKvTest, ForksShareUntilTheyDiffer) {
  KvSequence trunk(pool_.get(), 500);
  Append(trunk, 140);
  KvSequence fork = trunk.Fork(130);
  ASSERT_TRUE(SyncBoth(trunk, fork));
  ExpectThere(trunk);
  ExpectThere(fork);
  // All they have is shared: one copies it for both.
  KvSequence other(pool_.get(), 500);
  Append(other, 130);
  KvSequence same = other.Fork(130);
  const uint64_t before = device_->num_calls();
  ASSERT_TRUE(Sync(other));
  const uint64_t for_one = device_->num_calls() - before;
  ASSERT_TRUE(Sync(same));
  EXPECT_EQ(device_->num_calls(), before + for_one);

  Append(fork, 20);  // copies the page that both write
  Append(trunk, 7);
  ASSERT_TRUE(SyncBoth(fork, trunk));
  ExpectThere(trunk);
  ExpectThere(fork);
  trunk.Truncate(10);
  Append(trunk, 80);
  ASSERT_TRUE(SyncBoth(trunk, fork));
  ExpectThere(trunk);
  ExpectThere(fork);
  // Its pages are others' now.
  {
    const KvSequence gone = std::move(fork);
  }
  KvSequence next(pool_.get(), 500);
  Append(next, 200);
  ASSERT_TRUE(SyncBoth(next, trunk));
  ExpectThere(next);
  ExpectThere(trunk);
  ExpectThere(other);
}

// The pool of a runtime that was made anew, and back.
TEST_P(DeviceKvTest, AnotherPoolBeginsWithNothing) {
  KvSequence sequence(pool_.get(), 500);
  Append(sequence, 70);
  ASSERT_TRUE(Sync(sequence));
  const auto other_pool = MakePool();
  KvSequence other(other_pool.get(), 500);
  Append(other, 70);
  ASSERT_TRUE(Sync(other));
  ExpectThere(other);
  ASSERT_TRUE(Sync(sequence));
  ExpectThere(sequence);
  // Another engine's pages of the same pool.
  const auto second =
      DeviceKv::Make(config_, kOnDevice, kNumDevicePages, lane_.get()).value();
  const SequenceRows rows = RowsOf(sequence);
  ASSERT_TRUE(second->Sync({&rows, 1}));
  Append(sequence, 1);
  ASSERT_TRUE(Sync(sequence));
  ExpectThere(sequence);
}

// Whichever call fails: the next Sync makes it right.
TEST_P(DeviceKvTest, ATransientFaultIsMadeGood) {
  for (const bool is_late : {false, true}) {
    Make({.is_late = is_late});
    const uint64_t before = device_->num_calls();
    {
      KvSequence sequence(pool_.get(), 500);
      Append(sequence, 150);
      ASSERT_TRUE(Sync(sequence));
    }
    const uint64_t end = device_->num_calls();
    for (uint64_t n = before + 1; n <= end; ++n) {
      Make({.is_late = is_late, .fail_call = n});
      KvSequence sequence(pool_.get(), 500);
      Append(sequence, 150);
      const Status failed = Sync(sequence);
      ASSERT_FALSE(failed);
      EXPECT_THAT(failed.error().message,
                  HasSubstr("keys and values on their way to the device"));
      lane_->Drain();
      Append(sequence, 5);
      ASSERT_TRUE(Sync(sequence));
      ExpectThere(sequence);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pages, DeviceKvTest,
    ::testing::Values(KvCase{"F32", DType::kF32, KvOrder::kRows},
                      KvCase{"F16", DType::kF16, KvOrder::kRows},
                      KvCase{"Q8_0", DType::kQ8_0, KvOrder::kRows},
                      KvCase{"Q8_0_groups", DType::kQ8_0, KvOrder::kGroups}),
    [](const ::testing::TestParamInfo<KvCase>& info) {
      return std::string(info.param.name);
    });

}  // namespace
}  // namespace thermocline::engine
