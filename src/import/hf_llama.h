// Llama and what is built alike: Mistral, Mixtral, Qwen2, Qwen3 and its
// mixtures, Bamboo, ProSparse, Nemotron, Arcee.
#ifndef THERMOCLINE_IMPORT_HF_LLAMA_H_
#define THERMOCLINE_IMPORT_HF_LLAMA_H_

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "import/hf_config.h"
#include "import/json.h"
#include "import/tensor_layout.h"

namespace thermocline::importer {

// Fills in sizes, experts, activation, rotary embedding and epsilon. Requires
// the architecture and what it says to be set, and num_experts >= 1 if it has
// experts. kCorrupt,
// kUnsupported.
Status ReadLlamaConfig(const JsonFields& fields, HfConfig& config);

Layout LlamaLayout(const HfConfig& config);

// The order in which Llama's heads are stored. Rotary embedding turns two
// elements together: Hugging Face stores element j of the first half and of the
// second half of a head hd / 2 rows apart, GGUF's llama stores them side by
// side. Row r of the file is row RowsOfHalves(...)[r] of the checkpoint.
// Requires an even head_width that divides num_rows.
std::vector<uint32_t> RowsOfHalves(uint64_t num_rows, uint64_t head_width);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_LLAMA_H_
