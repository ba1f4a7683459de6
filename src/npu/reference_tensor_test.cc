#include "npu/reference_tensor.h"

#include <gtest/gtest.h>

#include <vector>

#include "npu/test_graph.h"

namespace thermocline::npu {
namespace {

TEST(ReferenceTensorTest, FourBitsWidenAndComeBack) {
  const std::vector<std::byte> bytes = BytesOf(Element::kU4, {1, 15, 8});
  const HostTensor narrow = {{Element::kU4, {3}}, bytes.data()};
  const HostTensor wide = Widened(narrow);
  EXPECT_EQ(std::vector(wide.bytes().begin(), wide.bytes().end()),
            BytesOf(Element::kU8, {1, 15, 8}));
  const HostTensor again = Narrowed(wide, Element::kU4);
  EXPECT_EQ(std::vector(again.bytes().begin(), again.bytes().end()), bytes);
}

TEST(ReferenceTensorTest, FloatsAreRoundedAtTheEnd) {
  FloatTensor half({Element::kF16, {2}});
  half.values()[0] = 2049.0f;
  half.values()[1] = 1.0f;
  half.values()[1] += 0x1p-11f;
  const HostTensor tensor = half.Finish();
  const FloatsOf floats(tensor);
  EXPECT_EQ(floats.values()[0], 2048.0f);
  EXPECT_EQ(floats.values()[1], 1.0f);
}

TEST(ReferenceTensorTest, OdometersRepeatWhatIsBroadcast) {
  const Dims dims = {2, 2, 2};
  EXPECT_EQ(StridesOf(dims), (Dims{4, 2, 1}));
  Odometer<2> at(dims, {StridesOf(dims), BroadcastStrides({2, 1}, dims)});
  std::vector<int64_t> offsets;
  for (int i = 0; i < 8; ++i, at.Next()) {
    EXPECT_EQ(at.at(0), i);
    offsets.push_back(at.at(1));
  }
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 0, 1, 1, 0, 0, 1, 1}));
}

}  // namespace
}  // namespace thermocline::npu
