// What `prepare` found in a file: alone, or in a prepared model.
#ifndef THERMOCLINE_PACK_PART_FILE_H_
#define THERMOCLINE_PACK_PART_FILE_H_

#include <string>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/model.h"
#include "pack/parts.h"

namespace thermocline::pack {

// The parts without the model, which `config` describes: a file of `prepare`'s
// own that no engine runs. Appears whole or not at all. CheckParts' errors;
// kIo.
Status WriteParts(const PreparedParts& parts, const model::Config& config,
                  const std::string& path);

// The parts in such a file, or in a prepared model (its weights stay). The
// bytes come from anywhere: kCorrupt names file and key or tensor; also if the
// file is of a model with other extents. kUnsupported: neither of the two;
// written by a newer version; an unknown activation; CheckEqualWidths' of the
// model.
Result<PreparedParts> ReadParts(const gguf::File& file,
                                const model::Config& config);

// kInvalidArgument, with what differs: the parts were made for another model,
// as the fingerprint says that they come with. Files without one pass.
// kCorrupt: a fingerprint that is none.
Status CheckPartsAreOf(const model::Model& model, const gguf::File& file);

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_PART_FILE_H_
