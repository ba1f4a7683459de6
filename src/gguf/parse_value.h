// The values of metadata keys.
#ifndef THERMOCLINE_GGUF_PARSE_VALUE_H_
#define THERMOCLINE_GGUF_PARSE_VALUE_H_

#include "base/status.h"
#include "gguf/byte_reader.h"
#include "gguf/gguf.h"

namespace thermocline::gguf {

// Reads the type and the value that follow a key. kCorrupt, kUnsupported
// (arrays of arrays). Counts are checked against what is left of the file
// before anything is allocated.
Status ReadTypedValue(ByteReader& reader, KeyValue& kv);

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_PARSE_VALUE_H_
