// Any bytes as a model file: refused, or its description, vocabulary and
// weights hold what their headers promise.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/config.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/vocab_metadata.h"
#include "text/tokenizer.h"

namespace thermocline::model {
namespace {

// ReadVocab must work for any architecture, so it is tried by itself.
void TryVocab(const gguf::File& file) {
  auto vocab = ReadVocab(file);
  if (!vocab || !*vocab) return;
  const auto tokenizer = text::Tokenizer::Create(std::move(**vocab));
  if (!tokenizer) return;
  const auto ids = (*tokenizer)->Encode("Once upon a <s> \xff time", {});
  if (ids) (void)(*tokenizer)->Decode(*ids, true);
}

void CheckModel(const Model& model) {
  const Config& config = model.config();
  TC_CHECK(std::cmp_equal(config.layers.size(), config.num_layers));
  for (const LayerSpec& layer : config.layers) {
    const AttentionSpec& attention = layer.attention;
    TC_CHECK(attention.num_heads % attention.num_kv_heads == 0);
    if (attention.rope == AttentionSpec::kNoRope) continue;
    const auto rope = static_cast<size_t>(attention.rope);
    TC_CHECK(rope < config.ropes.size());
    TC_CHECK(config.ropes[rope].width <= attention.key_width);
  }
  const Weights& weights = model.weights();
  TC_CHECK(std::cmp_equal(weights.layers.size(), config.num_layers));
  TC_CHECK(std::cmp_equal(weights.head.shape.num_rows(), config.vocab_size));
  for (const RopeConfig& rope : config.ropes) {
    TC_CHECK(rope.width % 2 == 0);
    const RopeTable table(rope, weights.rope_freq_factors);
    std::vector<float> angles(rope.width);
    table.Angles(config.context_length, angles.data(),
                 angles.data() + table.num_pairs());
  }
}

}  // namespace
}  // namespace thermocline::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline;
  auto file = gguf::File::Parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) return 0;
  (void)model::ReadConfig(**file);
  model::TryVocab(**file);
  model::OpenOptions options;
  options.check_tensors = true;
  const auto model = model::Model::FromFile(std::move(*file), options);
  if (model) model::CheckModel(**model);
  return 0;
}
