// Any bytes as a profile: refused, or it holds what profile_file.h promises.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/check.h"
#include "model/profile_file.h"

namespace thermocline::model {
namespace {

void CheckProfile(const ProfileFile& file) {
  TC_CHECK(std::cmp_equal(file.profile.layers.size(), file.model.num_layers));
  for (const neuron::LayerProfile& layer : file.profile.layers) {
    TC_CHECK(layer.num_tokens <= neuron::kMaxProfileTokens);
    TC_CHECK(layer.num_neurons() > 0);
    for (const uint32_t count : layer.counts) {
      TC_CHECK(count <= layer.num_tokens);
    }
    TC_CHECK(layer.density() >= 0.0 && layer.density() <= 1.0);
    const double locality = layer.locality().value_or(0.0);
    TC_CHECK(locality >= 0.0 && locality <= 1.0);
    TC_CHECK(layer.skew() >= 0.0 && layer.skew() <= 1.0);
  }
}

}  // namespace
}  // namespace thermocline::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline;
  const auto file =
      gguf::File::Parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) return 0;
  const auto profile = model::ReadProfile(**file);
  if (profile) model::CheckProfile(*profile);
  return 0;
}
