// What indices that lead nowhere become; the operations themselves are tested
// as those of any device, in sim_device_test.cc.
#include "device/sim/sim_ops.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "device/testing.h"

namespace thermocline::device {
namespace {

class SimOpsTest : public ::testing::Test {
 protected:
  void ExpectCorrupt(const kernels::DeviceOp& op, const std::string& what) {
    const Status status = on_.device().Run(on_.stream(), op);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(status.error().message, "sim0: " + what);
  }

  // Two pages of one head.
  kernels::DeviceKv Kv() {
    return {.pages = on_.Room<std::byte>(2 * 2048),
            .page_bytes = 2048,
            .v_offset = 1024,
            .num_kv_heads = 1,
            .k_width = 8,
            .v_width = 8};
  }

  OnDevice on_{MakeSim(TestMachine(), {})};
};

TEST_F(SimOpsTest, PlacesThatAreNotThere) {
  ExpectCorrupt(
      kernels::KvAppendArgs{.kv = Kv(),
                            .num_tokens = 2,
                            .places = on_.Put(std::vector<uint32_t>{127, 128}),
                            .k = on_.Room<float>(16),
                            .v = on_.Room<float>(16)},
      "KvAppendArgs: row 1 has place 128 of 128");
}

TEST_F(SimOpsTest, PagesAndPositionsThatAreNotThere) {
  kernels::DecodeAttentionArgs args{
      .kv = Kv(),
      .num_heads = 1,
      .max_positions = 100,
      .q = on_.Put(std::vector<float>(8, 1.0f)),
      .page_table = on_.Put(std::vector<uint32_t>{1, 2}),
      .table_stride = 2,
      .counts = on_.Put(std::vector<uint32_t>{65}),
      .out = on_.Room<float>(8),
      .partials = on_.Room<float>(100)};
  ExpectCorrupt(args, "DecodeAttentionArgs: row 0 has page 2 of 2");
  args.first = on_.Put(std::vector<uint32_t>{65});
  ExpectCorrupt(args,
                "DecodeAttentionArgs: row 0 sees positions 65 to 65 of "
                "100");
  args.first = nullptr;
  args.counts = on_.Put(std::vector<uint32_t>{101});
  ExpectCorrupt(args,
                "DecodeAttentionArgs: row 0 sees positions 0 to 101 of "
                "100");
}

TEST_F(SimOpsTest, SlotsThatAreNotThere) {
  kernels::SparseFfnArgs args{
      .n = 4,
      .num_neurons = 3,
      .num_slots = 2,
      .x = on_.Put(std::vector<float>(4, 1.0f)),
      .slot_of = on_.Put(std::vector<int32_t>{-1, 1, 2}),
      .records = on_.Put(std::vector<std::byte>(96)),
      .record_bytes = 48,
      .up_offset = 16,
      .down_offset = 32,
      .out = on_.Room<float>(4),
      .scratch = on_.Room<std::byte>(kernels::SparseFfnScratchBytes(4, 2, 1))};
  ExpectCorrupt(args, "SparseFfnArgs: neuron 2 has slot 2 of 2");
  args.slot_of = on_.Put(std::vector<int32_t>{1, 1, 0});
  ExpectCorrupt(args,
                "SparseFfnArgs: 3 neurons are listed, more than the 2 "
                "slots");
}

}  // namespace
}  // namespace thermocline::device
