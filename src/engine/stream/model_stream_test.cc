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
  EXPECT_EQ(RoomForSlots(0), 0u);
  EXPECT_EQ(RoomForSlots(80), 70u);
  EXPECT_EQ(RoomForSlots(uint64_t{1} << 30), (1024 - 16) * uint64_t{1} << 20);
}

TEST(ModelStreamTest, NoneIsNoStream) {
  EXPECT_EQ(ModelStream().any(), nullptr);
}

}  // namespace
}  // namespace thermocline::engine
