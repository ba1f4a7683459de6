// What OpenVINO and its devices say when they fail, as errors with a sentence
// of ours.
#ifndef THERMOCLINE_NPU_OV_ERRORS_H_
#define THERMOCLINE_NPU_OV_ERRORS_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "npu/ov_api.h"

namespace thermocline::npu {

// The line that says something: OpenVINO puts before it where in its sources
// the exception came from. Made safe to show, and cut.
std::string FirstLine(std::string_view words);

// The words for the call that just failed; of more than one thread that fails
// at the same time, maybe the other's.
std::string LastWords(const OvApi& api, int status);

// "DEVICE: TASK: our sentence, if the words are known (FirstLine)". What is not
// known is kIo.
Error OvError(std::string_view device, std::string_view task,
              std::string_view words);

// Whether the words say that OpenVINO has no plugin for a device.
bool SaysNotRegistered(std::string_view words);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_OV_ERRORS_H_
