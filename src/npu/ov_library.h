// Where OpenVINO's library is.
#ifndef THERMOCLINE_NPU_OV_LIBRARY_H_
#define THERMOCLINE_NPU_OV_LIBRARY_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace thermocline::npu {

// A file as it is; of a folder libopenvino_c.so or, without one, that of the
// newest version (libopenvino_c.so.2641 is 2026.4.1): in the folder itself, or
// in openvino/libs below it, as a wheel has it. kNotFound, naming the folders
// that were looked into.
Result<std::string> LibraryIn(const std::string& file_or_folder);

// What the system may have it by, newest first: its own folders have no list.
std::vector<std::string> LibraryNames();

// A loaded library.
struct OvLibrary {
  void* handle = nullptr;  // dlopen's, never closed
  std::string name;        // what it was asked for by
};

// library: a file, a folder or empty, as OpenVinoOptions has it. What the
// caller or $THERMOCLINE_OPENVINO names is the only place then: another library
// would not be the one that was asked for.
// kNotFound: it is not there; all places named, and how to get it.
// kUnsupported: it is there, but does not load; the loader's words.
Result<OvLibrary> OpenLibrary(const std::string& library);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_OV_LIBRARY_H_
