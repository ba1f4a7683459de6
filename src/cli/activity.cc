#include "cli/activity.h"

#include <cstdint>

#include "base/units.h"
#include "model/profile_file.h"

namespace thermocline::cli {

Result<Activity> ReadActivity(const model::Model& model,
                              const PlanInputs& inputs) {
  Activity activity;
  if (inputs.candidates_per_fired) {
    activity.candidates_per_fired = *inputs.candidates_per_fired;
  }
  const auto profile = inputs.counts_path
                           ? model::ReadProfile(*inputs.counts_path)
                           : model::ReadProfile(model.file());
  if (!profile) {
    const bool is_own = !inputs.counts_path;
    if (is_own && profile.error().code == ErrorCode::kNotFound) return activity;
    return tl::unexpected(profile.error());
  }
  const std::string path = inputs.counts_path.value_or(model.file().path());
  TC_RETURN_IF_ERROR(model::CheckSameModel(profile->model, model,
                                           path + ": its profile was made"));
  uint64_t num_fired = 0;
  for (const neuron::LayerProfile& layer : profile->profile.layers) {
    num_fired += layer.num_fired;
    std::vector<float>& shares = activity.frequencies.emplace_back();
    for (const uint32_t count : layer.counts) {
      shares.push_back(static_cast<float>(count) /
                       static_cast<float>(layer.num_tokens));
    }
  }
  if (num_fired == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: in its profile of {} no neuron fired", path,
                Plural(profile->profile.num_tokens(), "token"));
  }
  return activity;
}

bool HasProfile(const model::Model& model) {
  const auto profile = model::ReadProfile(model.file());
  return profile.has_value() || profile.error().code != ErrorCode::kNotFound;
}

}  // namespace thermocline::cli
