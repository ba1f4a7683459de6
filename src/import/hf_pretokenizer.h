// Which pre-tokenizer a tokenizer.json describes.
#ifndef THERMOCLINE_IMPORT_HF_PRETOKENIZER_H_
#define THERMOCLINE_IMPORT_HF_PRETOKENIZER_H_

#include <string>

#include "base/status.h"
#include "import/json.h"

namespace thermocline::importer {

// The name under which text/ knows it ("gpt-2", "llama3"). `json` is the member
// "pre_tokenizer", null if there is none. kUnsupported: no known one; the
// message quotes what makes it different.
Result<std::string> NameOfPreTokenizer(const Json* json,
                                       const std::string& path);

}  // namespace thermocline::importer

#endif  // THERMOCLINE_IMPORT_HF_PRETOKENIZER_H_
