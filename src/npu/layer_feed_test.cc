#include "npu/layer_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "npu/test_npu_model.h"
#include "os/test_no_threads.h"

namespace thermocline::npu {
namespace {

using Bytes = std::vector<std::byte>;

struct FeedFixture {
  explicit FeedFixture(size_t num_layers, DType down = DType::kF16)
      : model(MakeNpuModel({.num_layers = num_layers, .down_dtype = down})),
        slots(WeightSlots::Create(AllInputs()).value()) {}

  std::vector<std::vector<LayerInput>> AllInputs() const {
    std::vector<std::vector<LayerInput>> inputs;
    for (size_t i = 0; i < model->config().layers.size(); ++i) {
      inputs.push_back(LayerInputs(*model, i, WeightForm::kExact).value());
    }
    return inputs;
  }
  // What lies in the layer's slot.
  std::vector<Bytes> InSlot(size_t layer_idx) const {
    std::vector<Bytes> tensors;
    for (size_t i = 0; i < slots.inputs(layer_idx).size(); ++i) {
      const std::byte* place = slots.places(layer_idx)[i];
      tensors.emplace_back(place,
                           place + NumBytes(slots.inputs(layer_idx)[i].type));
    }
    return tensors;
  }
  std::vector<Bytes> Unpacked(size_t layer_idx) const {
    std::vector<Bytes> tensors;
    std::vector<std::byte*> places;
    for (const LayerInput& input : slots.inputs(layer_idx)) {
      tensors.emplace_back(NumBytes(input.type));
    }
    for (Bytes& tensor : tensors) places.push_back(tensor.data());
    EXPECT_TRUE(UnpackLayer(*model, model->weights().layers[layer_idx],
                            layer_idx, WeightForm::kExact, 0, places.size(),
                            places, nullptr)
                    .has_value());
    return tensors;
  }

  std::shared_ptr<const model::Model> model;
  WeightSlots slots;
};

TEST(LayerFeedTest, LayersComeOneAfterTheOther) {
  const FeedFixture fixture(5, DType::kQ8_0);
  for (const int num_threads : {1, 3}) {
    StaticTimes times;
    LayerFeed feed({.model = fixture.model.get(),
                    .slots = &fixture.slots,
                    .num_threads = num_threads});
    ASSERT_TRUE(feed.Start());
    for (size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(feed.Await(i, times).has_value());
      EXPECT_EQ(fixture.InSlot(i), fixture.Unpacked(i)) << i;
      feed.Leave(i);
    }
    EXPECT_GT(times.unpack_s, 0.0);
  }
}

TEST(LayerFeedTest, NeighboursLieSideBySide) {
  const FeedFixture fixture(3);
  EXPECT_NE(fixture.slots.places(0)[0], fixture.slots.places(1)[0]);
  EXPECT_EQ(fixture.slots.places(0)[0], fixture.slots.places(2)[0]);
}

// A source of its own: asked in order, told behind each.
TEST(LayerFeedTest, ReadsFromASource) {
  const FeedFixture fixture(4);
  std::string told;
  const LayerSource source = {
      .await = [&](size_t layer_idx) -> Result<const model::LayerWeights*> {
        told += "r" + std::to_string(layer_idx);
        return &fixture.model->weights().layers[layer_idx];
      },
      .leave =
          [&](size_t layer_idx) { told += "l" + std::to_string(layer_idx); }};
  {
    StaticTimes times;
    LayerFeed feed({.model = fixture.model.get(),
                    .slots = &fixture.slots,
                    .source = &source});
    ASSERT_TRUE(feed.Start());
    for (size_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(feed.Await(i, times).has_value());
      feed.Leave(i);
    }
  }
  EXPECT_EQ(told, "r0l0r1l1r2l2r3l3");
}

TEST(LayerFeedTest, AnErrorIsTheLayersThatHasIt) {
  const FeedFixture fixture(4);
  size_t num_reads = 0;
  const LayerSource source = {
      .await = [&](size_t layer_idx) -> Result<const model::LayerWeights*> {
        ++num_reads;
        if (layer_idx == 1) return Fail(ErrorCode::kIo, "layer 1 is gone");
        return &fixture.model->weights().layers[layer_idx];
      },
      .leave = [](size_t) {}};
  {
    StaticTimes times;
    LayerFeed feed({.model = fixture.model.get(),
                    .slots = &fixture.slots,
                    .source = &source});
    ASSERT_TRUE(feed.Start());
    ASSERT_TRUE(feed.Await(0, times).has_value());
    feed.Leave(0);
    const Status status = feed.Await(1, times);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message, "layer 1 is gone");
  }
  EXPECT_EQ(num_reads, 2u);
}

// A run that was cancelled: no more than two are brought.
TEST(LayerFeedTest, EndsEarly) {
  const FeedFixture fixture(5);
  size_t num_reads = 0;
  const LayerSource source = {
      .await = [&](size_t layer_idx) -> Result<const model::LayerWeights*> {
        ++num_reads;
        return &fixture.model->weights().layers[layer_idx];
      },
      .leave = [](size_t) {}};
  {
    StaticTimes times;
    LayerFeed feed({.model = fixture.model.get(),
                    .slots = &fixture.slots,
                    .source = &source});
    ASSERT_TRUE(feed.Start());
    ASSERT_TRUE(feed.Await(0, times).has_value());
  }
  EXPECT_LE(num_reads, WeightSlots::kCount);
}

// The one that asks unpacks alone.
TEST(LayerFeedTest, WithoutThreadsThatUnpackItGoesOn) {
  const FeedFixture fixture(3);
  std::optional<os::NoMoreThreads> none;
  const LayerSource source = {
      .await = [&](size_t layer_idx) -> Result<const model::LayerWeights*> {
        if (layer_idx == 0) none.emplace();
        return &fixture.model->weights().layers[layer_idx];
      },
      .leave = [](size_t) {}};
  {
    StaticTimes times;
    LayerFeed feed({.model = fixture.model.get(),
                    .slots = &fixture.slots,
                    .source = &source,
                    .num_threads = 3});
    ASSERT_TRUE(feed.Start());
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(feed.Await(i, times).has_value());
      EXPECT_EQ(fixture.InSlot(i), fixture.Unpacked(i)) << i;
      feed.Leave(i);
    }
  }
  none.reset();
}

}  // namespace
}  // namespace thermocline::npu
