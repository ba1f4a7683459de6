#include "engine/stream/model_stream.h"

#include <gtest/gtest.h>

#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

TEST(ModelStreamTest, TheModelSaysWhatComesAndGoes) {
  testing::TinySpec spec;
  const auto unit_of = [&](const model::OpenOptions& options) {
    const auto model = testing::OpenTinyModel(spec, options);
    EXPECT_TRUE(model) << model.error().message;
    return NameOf(UnitOf((*model)->config()));
  };
  EXPECT_EQ(unit_of({}), "layers");
  spec.activation = "relu";
  EXPECT_EQ(unit_of({.bundle_at_load = true}), "records");
  testing::UseArchitecture("mixtral", spec);
  EXPECT_EQ(unit_of({}), "experts");
}

TEST(ModelStreamTest, NoPolicyIsTheBest) {
  EXPECT_EQ(PolicyOf("fifo"), "fifo");
  EXPECT_FALSE(PolicyOf("").empty());
}

TEST(ModelStreamTest, SlotsLeaveRoomForWhatNobodyCounts) {
  model::Config config;
  config.vocab_size = 100;
  EXPECT_EQ(RoomForSlots(0, config), 0u);
  EXPECT_EQ(RoomForSlots(80, config), 70u);
  const uint64_t room = uint64_t{1} << 30;
  EXPECT_EQ(RoomForSlots(room, config), room - (16 << 20) - 17000);
  config.records = {{.stride = 64}};  // comes by way of the reader's memory
  EXPECT_EQ(RoomForSlots(room, config), room - (24 << 20) - 17000);
}

TEST(ModelStreamTest, NoneIsNoStream) {
  EXPECT_EQ(ModelStream().any(), nullptr);
}

}  // namespace
}  // namespace thermocline::engine
