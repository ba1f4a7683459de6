// Falcon: one fused matrix for q, k and v; attention and FFN side by side.
#ifndef THERMOCLINE_IMPORT_HF_FALCON_H_
#define THERMOCLINE_IMPORT_HF_FALCON_H_

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "import/hf_config.h"
#include "import/json.h"
#include "import/tensor_layout.h"

namespace thermocline::importer {

// Fills in sizes, norms, activation, rotary embedding and epsilon. kCorrupt;
// kUnsupported: ALiBi, biases, blocks that are not parallel, by their keys.
Status ReadFalconConfig(const JsonFields& fields, HfConfig& config);

Layout FalconLayout(const HfConfig& config);

// Hugging Face's fused matrix has, for each KV head, the query heads that read
// it, then k, then v; the file has all q, then all k, then all v. Row r of the
// file is row RowsOfFusedHeads(...)[r] of the checkpoint. The multi-query
// layout is one KV head, the oldest one as many as there are query heads.
std::vector<uint32_t> RowsOfFusedHeads(uint64_t num_heads,
                                       uint64_t num_kv_heads,
                                       uint64_t head_width);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_FALCON_H_
