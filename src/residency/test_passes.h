// Policies driven pass by pass, as an engine would.
#ifndef THERMOCLINE_RESIDENCY_TEST_PASSES_H_
#define THERMOCLINE_RESIDENCY_TEST_PASSES_H_

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "neuron/neuron_set.h"
#include "residency/policy.h"
#include "residency/replay.h"

namespace thermocline::residency {

using Units = std::vector<uint32_t>;

// A set that owns its words.
class OwnedSet {
 public:
  explicit OwnedSet(size_t num_units, const Units& units = {})
      : words_(neuron::WordsOf(num_units), 0), num_units_(num_units) {
    for (const uint32_t unit : units) set().Add(unit);
  }
  neuron::NeuronSet set() { return {words_.data(), num_units_}; }

 private:
  std::vector<uint64_t> words_;
  size_t num_units_;
};

inline std::unique_ptr<Policy> Make(std::string_view name,
                                    const std::vector<LayerExtent>& layers) {
  auto policy = MakePolicy(name, layers);
  EXPECT_TRUE(policy.has_value()) << policy.error().message;
  return std::move(*policy);
}

// Of units of one member, all of them used where they were admitted.
inline Tally TallyOf(uint64_t accesses, uint64_t hits, uint64_t admissions,
                     uint64_t evictions, uint64_t wasted) {
  return {.accesses = accesses,
          .hits = hits,
          .admissions = admissions,
          .evictions = evictions,
          .wasted = wasted,
          .fetched_members = admissions,
          .wasted_members = wasted,
          .member_accesses = accesses,
          .member_hits = hits};
}

// Observes a pass, then admits those who were not resident, ascending.
inline void RunPass(Policy& policy, size_t layer_idx, size_t num_units,
                    const Units& used) {
  OwnedSet set(num_units, used);
  policy.Observe(layer_idx, set.set());
  for (const uint32_t unit : used) {
    if (!policy.IsResident(layer_idx, unit)) {
      policy.Admit(layer_idx, unit, set.set());
    }
  }
}

inline Units ResidentsOf(const Policy& policy, size_t layer_idx,
                         size_t num_units) {
  Units residents;
  for (uint32_t unit = 0; unit < num_units; ++unit) {
    if (policy.IsResident(layer_idx, unit)) residents.push_back(unit);
  }
  return residents;
}

// "0 1|2|0 3": the units of each pass.
inline std::vector<Units> ParsePasses(const std::string& text) {
  std::vector<Units> passes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, '|');) {
    std::istringstream words(line);
    Units units;
    for (uint32_t unit = 0; words >> unit;) units.push_back(unit);
    passes.push_back(units);
  }
  return passes;
}

// A row of a table: what is resident after each pass.
struct Story {
  const char* what;
  uint32_t num_units;
  uint32_t capacity;
  std::vector<float> frequency;
  bool fills;  // Initial is called
  const char* passes;
  const char* residents;
};

inline void ExpectStory(std::string_view name, const Story& story) {
  const auto policy =
      Make(name, {{story.num_units, story.capacity, story.frequency}});
  if (story.fills) policy->Initial(0);
  std::vector<std::string> seen;
  for (const Units& used : ParsePasses(story.passes)) {
    RunPass(*policy, 0, story.num_units, used);
    seen.push_back(fmt::format(
        "{}", fmt::join(ResidentsOf(*policy, 0, story.num_units), " ")));
  }
  EXPECT_EQ(fmt::format("{}", fmt::join(seen, "|")), story.residents)
      << name << ": " << story.what;
}

// Ascending; each of them with probability `share`, low numbers more often.
inline Units DrawUnits(Random& random, size_t num_units, double share) {
  Units units;
  for (uint32_t unit = 0; unit < num_units; ++unit) {
    const double heat = 2.0 - 2.0 * unit / static_cast<double>(num_units);
    if (random.Uniform() < share * heat) units.push_back(unit);
  }
  return units;
}

// What a slow and simple description of a policy does.
class Reference {
 public:
  virtual ~Reference() = default;
  virtual void Begin(const Units& best_first) = 0;
  virtual void Observe(const Units& used) = 0;
  virtual void Admit(uint32_t unit) = 0;
  virtual bool Has(uint32_t unit) const = 0;
};

// A policy and its reference keep the same units over random passes.
template <class MakeReference>
void ExpectLikeReference(std::string_view name, MakeReference make) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const auto num_units = static_cast<uint32_t>(1 + random.Below(90));
    const auto capacity = static_cast<uint32_t>(random.Below(num_units + 1));
    std::vector<float> frequency(num_units);
    for (float& value : frequency) value = random.Uniform(0.0f, 1.0f);
    const auto policy = Make(name, {{num_units, capacity, frequency}});
    const auto reference = make(num_units, capacity, frequency);
    if (seed % 2 == 0) reference->Begin(policy->Initial(0));
    const double share = random.Uniform() / 2;
    for (int pass = 0; pass < 100; ++pass) {
      const Units used = DrawUnits(random, num_units, share);
      reference->Observe(used);
      for (const uint32_t unit : used) {
        if (!reference->Has(unit)) reference->Admit(unit);
      }
      RunPass(*policy, 0, num_units, used);
      for (uint32_t unit = 0; unit < num_units; ++unit) {
        ASSERT_EQ(policy->IsResident(0, unit), reference->Has(unit))
            << name << ": seed " << seed << ", pass " << pass << ", unit "
            << unit;
      }
    }
  }
}

}  // namespace thermocline::residency

#endif  // THERMOCLINE_RESIDENCY_TEST_PASSES_H_
