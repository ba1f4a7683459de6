// What tests ask of timelines.
#ifndef THERMOCLINE_BASE_TEST_TIMELINE_H_
#define THERMOCLINE_BASE_TEST_TIMELINE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/timeline.h"

namespace thermocline {

// In no row two things went on at once.
inline void ExpectOneAtATime(const Timeline& timeline) {
  const std::vector<Timeline::RowName> rows = timeline.rows();
  const Timeline::Kept* before = nullptr;
  for (const Timeline::Kept* span : timeline.Sorted()) {
    EXPECT_LE(span->begin_ns, span->end_ns);
    if (before != nullptr && before->row == span->row) {
      EXPECT_LE(before->end_ns, span->begin_ns)
          << rows[span->row].name << ": " << timeline.name(*before) << ", "
          << timeline.name(*span);
    }
    before = span;
  }
}

// Of the row of that name; nothing without one.
inline RowUse UseOf(const Timeline& timeline, const std::string& process,
                    const std::string& name) {
  const std::vector<Timeline::RowName> rows = timeline.rows();
  const std::vector<RowUse> uses = UseOfRows(timeline.Sorted(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].process == process && rows[i].name == name) return uses[i];
  }
  return {};
}

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_TEST_TIMELINE_H_
