// What the keys of a prepared file say.
#ifndef THERMOCLINE_MODEL_PREPARED_CONFIG_H_
#define THERMOCLINE_MODEL_PREPARED_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "model/config.h"
#include "neuron/record.h"

namespace thermocline::model {

// The version of a prepared file or of its parts; 0 of other files.
// kUnsupported: a newer one than this program's. kCorrupt: below 1, or absent
// although tensors or keys of prepared files are there.
Result<int64_t> ReadPreparedVersion(const gguf::File& file);

// Reads version, records' layouts, our predictors' lookahead and thresholds
// into `config`, whose extents and FFN are read. Leaves it as it is where the
// file is a plain one. Besides the version's errors kCorrupt, naming the key:
// another type or length, a value out of range, layouts that cannot be.
Status ReadPrepared(const gguf::File& file, Config& config);

// Writes what ReadPrepared reads of the records [L] of FFNs with or without a
// gate. The writer's errors.
Status WriteRecordKeys(std::span<const neuron::RecordLayout> records,
                       bool gated, gguf::Writer& writer);

// Arrays with one extent per layer. nullopt: absent. kCorrupt as above.
Result<std::optional<std::vector<size_t>>> ExtentPerLayer(
    const gguf::File& file, std::string_view key, size_t num_layers, size_t low,
    size_t high);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_PREPARED_CONFIG_H_
