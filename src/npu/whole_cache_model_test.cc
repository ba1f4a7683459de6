#include "npu/whole_cache_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "npu/test_static_model.h"

namespace thermocline::npu {
namespace {

using ::testing::HasSubstr;

constexpr size_t kStreamWidth = 32;

// As small as the reference is slow.
std::shared_ptr<const model::Model> SmallModel() {
  static const auto model = MakeNpuModel({.num_layers = 2,
                                          .width = kStreamWidth,
                                          .ffn_width = 16,
                                          .num_heads = 3,
                                          .num_kv_heads = 1,
                                          .key_width = 8,
                                          .value_width = 8});
  return model;
}

struct WholeCacheCase {
  KvForm kv = KvForm::kRoll;
  std::vector<int64_t> rows = {1};
};

const WholeCacheCase kWholeCaches[] = {{KvForm::kScatter},
                                       {KvForm::kRoll},
                                       {KvForm::kStateful},
                                       {KvForm::kScatter, {1, 4}},
                                       {KvForm::kRoll, {1, 4}}};

struct WholeCacheRig {
  explicit WholeCacheRig(const WholeCacheCase& test) : model(SmallModel()) {
    graphs = StaticModel::Create(model, device,
                                 {.kv = test.kv,
                                  .layers_per_program = 1,
                                  .rows = test.rows,
                                  .contexts = {64}})
                 .value();
  }
  Result<std::vector<float>> Run(std::vector<float> x) {
    TC_RETURN_IF_ERROR(graphs->Run(PackedRows(x, kStreamWidth), nullptr, {}));
    return x;
  }

  std::shared_ptr<const model::Model> model;
  std::shared_ptr<FaultyDevice> device = std::make_shared<FaultyDevice>();
  std::unique_ptr<StaticModel> graphs;
};

// What keys and values appended give.
std::vector<float> Appended(const std::vector<float>& x) {
  StaticRig rig(SmallModel(), {.rows = {1}, .contexts = {64}});
  return rig.Run(x).value();
}

TEST(WholeCacheModelTest, RowsAreThoseOfAnAppendedCache) {
  const std::vector<float> x = RandomStream(11, kStreamWidth, 3);
  const std::vector<float> expected = Appended(x);
  for (const WholeCacheCase& test : kWholeCaches) {
    WholeCacheRig rig(test);
    EXPECT_LE(rig.graphs->num_bytes(),
              StaticBytes(rig.model->config(),
                          {.kv = test.kv, .rows = test.rows, .contexts = {64}})
                  .value());
    for (int turn = 0; turn < 2; ++turn) {
      std::vector<float> all;
      for (const size_t count : {7U, 4U}) {
        const auto first = x.begin() + static_cast<std::ptrdiff_t>(all.size());
        const auto y = rig.Run(
            {first, first + static_cast<std::ptrdiff_t>(count * kStreamWidth)});
        ASSERT_TRUE(y.has_value()) << y.error().message;
        all.insert(all.end(), y->begin(), y->end());
      }
      EXPECT_EQ(all, expected) << NameOf(test.kv) << ", turn " << turn;
      rig.graphs->Truncate(0);
    }
  }
}

TEST(WholeCacheModelTest, AFullContextIsRefusedAndNothingRollsAway) {
  for (const WholeCacheCase& test : kWholeCaches) {
    WholeCacheRig rig(test);
    ASSERT_TRUE(rig.Run(RandomStream(64, kStreamWidth, 3)));
    const auto more = rig.Run(RandomStream(1, kStreamWidth, 3));
    ASSERT_FALSE(more.has_value());
    EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(rig.graphs->length(), 64);
  }
}

TEST(WholeCacheModelTest, AFailureForgetsAll) {
  const std::vector<float> x = RandomStream(5, kStreamWidth, 3);
  for (const WholeCacheCase& test : kWholeCaches) {
    WholeCacheRig rig(test);
    ASSERT_TRUE(rig.Run(x));
    rig.device->failing_infer = rig.device->num_infers + 1;
    EXPECT_FALSE(rig.Run(x));
    EXPECT_EQ(rig.graphs->length(), 0);
    EXPECT_EQ(rig.Run(x).value(), Appended(x)) << NameOf(test.kv);
  }
}

TEST(WholeCacheModelTest, OptionsThatItCannotHave) {
  const auto model = MakeNpuModel({});
  const auto message = [&](const StaticOptions& options) {
    const auto made =
        StaticModel::Create(model, std::make_shared<FaultyDevice>(), options);
    return made.has_value() ? "" : made.error().message;
  };
  EXPECT_THAT(message({.kv = KvForm::kRoll, .rows = {8}, .contexts = {64}}),
              HasSubstr("'roll' take no padding"));
  EXPECT_THAT(
      message({.kv = KvForm::kStateful, .rows = {1, 8}, .contexts = {64}}),
      HasSubstr("has to be 1 alone"));
  EXPECT_THAT(message({.kv = KvForm::kStateful,
                       .weights_are_inputs = true,
                       .rows = {1},
                       .contexts = {64}}),
              HasSubstr("only with 'append'"));
}

}  // namespace
}  // namespace thermocline::npu
