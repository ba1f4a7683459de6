#include "engine/ffn/line_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

namespace thermocline::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

// Rows of 200 bytes, 256 apart, from a multiple of 64 on.
struct TestRows {
  static constexpr size_t kBytes = 200, kStride = 256, kCount = 400;
  alignas(64) std::byte bytes[kStride * kCount];
  RowPlaces places() const { return Places(0, kBytes, kStride, kCount); }
  RowPlaces Places(size_t first, size_t num_bytes, size_t stride,
                   size_t count) const {
    TensorView view;
    view.dtype = DType::kI8;
    view.shape = {.ne = {num_bytes, count, 1, 1}, .rank = 2};
    view.data = bytes + first;
    view.stride_bytes = stride;
    return RowPlaces(view);
  }
};

std::vector<size_t> LinesFrom(const kernels::LinesAhead& ahead,
                              const TestRows& rows) {
  std::vector<size_t> lines;
  for (const uintptr_t* p = ahead.next; p != ahead.end; ++p) {
    lines.push_back((*p - reinterpret_cast<uintptr_t>(rows.bytes)) /
                    os::kCacheLine);
  }
  return lines;
}

TEST(LineListTest, TakesRowsInTurns) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  const uint32_t ids[] = {5, 2};
  list->Add(rows->places(), ids, 2);
  EXPECT_THAT(LinesFrom(*list->Start(), *rows),
              ElementsAre(20, 8, 21, 9, 22, 10, 23, 11));
}

TEST(LineListTest, FindsRowsAtTheirPlaces) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  RowPlaces places = rows->places();
  const uint32_t of_neurons[] = {kAbsent, 2, 5};
  places.places = of_neurons;
  const uint32_t ids[] = {2, 1};
  list->Add(places, ids, 2);
  EXPECT_THAT(LinesFrom(*list->Start(), *rows),
              ElementsAre(20, 8, 21, 9, 22, 10, 23, 11));
}

TEST(LineListTest, HasNoLineThatRowsDoNotTouch) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  const uint32_t ids[] = {0, 1};
  const auto lines_of = [&](const RowPlaces& places) {
    list->Clear();
    list->Add(places, ids, 2);
    return LinesFrom(*list->Start(), *rows);
  };
  EXPECT_THAT(lines_of(rows->Places(0, 128, 256, 2)), ElementsAre(0, 4, 1, 5));
  // From byte 63 of a line on, and up to byte 0 of one.
  EXPECT_THAT(lines_of(rows->Places(63, 66, 128, 2)),
              ElementsAre(0, 2, 1, 3, 2, 4));
  EXPECT_THAT(lines_of(rows->Places(32, 96, 192, 2)), ElementsAre(0, 3, 1, 4));
  // Where each row begins elsewhere, as many as one may touch.
  EXPECT_THAT(lines_of(rows->Places(0, 66, 66, 2)),
              ElementsAre(0, 1, 1, 2, 2, 3));
}

TEST(LineListTest, HasEveryLineOfManyRowsAndOfASecondAdd) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  std::vector<uint32_t> ids(21);
  std::set<size_t> expected;
  for (uint32_t i = 0; i < ids.size(); ++i) {
    ids[i] = 3 * i;
    for (size_t line = 0; line < 4; ++line) expected.insert(12 * i + line);
  }
  list->Add(rows->places(), ids.data(), 13);
  list->Add(rows->places(), ids.data() + 13, 8);
  EXPECT_THAT(LinesFrom(*list->Start(), *rows), IsSupersetOf(expected));
}

TEST(LineListTest, LeavesOutWhatDoesNotFit) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  std::vector<uint32_t> ids(TestRows::kCount, 1);
  for (int i = 0; i < 20; ++i) {
    list->Add(rows->places(), ids.data(), ids.size());
  }
  kernels::LinesAhead* ahead = list->Start();
  EXPECT_LE(ahead->end - ahead->next, static_cast<ptrdiff_t>(kMaxLines));
  EXPECT_GT(ahead->end - ahead->next, static_cast<ptrdiff_t>(kMaxLines) - 64);
  list->Finish();
  EXPECT_EQ(ahead->next, ahead->end);
}

TEST(LineListTest, AskingForSomeLeavesTheOthers) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  list->Clear();
  const uint32_t id = 0;
  list->Add(rows->places(), &id, 1);
  const kernels::LinesAhead* ahead = list->Start();
  const ptrdiff_t count = ahead->end - ahead->next;
  list->Prefetch(1);
  EXPECT_EQ(ahead->end - ahead->next, count - 1);
  list->Prefetch(1000);
  EXPECT_EQ(ahead->next, ahead->end);
}

TEST(LineListTest, SaysIntoWhichLevel) {
  for (const bool into_first_level : {false, true}) {
    const auto list = std::make_unique<LineList>(into_first_level);
    list->Clear();
    EXPECT_EQ(list->Start()->into_first_level, into_first_level);
  }
}

TEST(LineListTest, IsEmptyAgainOnceCleared) {
  const auto rows = std::make_unique<TestRows>();
  const auto list = std::make_unique<LineList>(false);
  const uint32_t id = 0;
  list->Add(rows->places(), &id, 1);
  list->Start();
  list->Clear();
  EXPECT_THAT(LinesFrom(*list->Start(), *rows), ElementsAre());
}

}  // namespace
}  // namespace thermocline::engine
