#include "npu/forms.h"

#include <gtest/gtest.h>

namespace thermocline::npu {
namespace {

TEST(FormsTest, NamesAreReadAsTheyAreWritten) {
  for (int i = 0; i <= static_cast<int>(WeightForm::kI4Asymmetric); ++i) {
    const auto form = static_cast<WeightForm>(i);
    EXPECT_EQ(ParseWeightForm(NameOf(form)), form) << NameOf(form);
  }
  for (int i = 0; i <= static_cast<int>(KvForm::kStateful); ++i) {
    const auto form = static_cast<KvForm>(i);
    EXPECT_EQ(ParseKvForm(NameOf(form)), form) << NameOf(form);
  }
}

TEST(FormsTest, NoOtherNamesAreRead) {
  for (const char* name : {"", "F16", "i4", "append "}) {
    EXPECT_EQ(ParseWeightForm(name), std::nullopt);
    EXPECT_EQ(ParseKvForm(name), std::nullopt);
  }
}

TEST(FormsTest, MessagesListAllForms) {
  EXPECT_EQ(ListWeightForms(),
            "exact, f16, i8-cw, i4-cw, i4-g128, i8-asym and i4-asym");
}

}  // namespace
}  // namespace thermocline::npu
