// What a caller could set otherwise where an operation failed.
#ifndef THERMOCLINE_BASE_REMEDY_H_
#define THERMOCLINE_BASE_REMEDY_H_

#include <cstdint>

#include "base/status.h"

namespace thermocline {

// Beside an Error (status.h), for whoever words it: cli/remedies.cc in flags.
// One for each thing that a person can be told to do; an error names the fault
// so that it can be understood without.
enum class Remedy : uint8_t {
  kNone,
  // Context, batch and memory.
  kContext,  // the value: the least that would do; 0: another
  kLargerContext,
  kSmallerContext,
  kContextOrPrompt,  // a larger context, or a shorter prompt
  kStartOver,        // a new conversation in the same context
  kMaxTokens,        // another number of tokens
  kBatch,            // another size
  kSequences,        // another number of them
  kThreads,          // another number of them
  kKeyType,          // of the KV cache
  kValueType,        // of the KV cache
  kLessMemory,       // a smaller context or batch, an 8-bit KV cache
  kMappedMemory,     // the same, or weights that are mapped and not held
  // Devices.
  kVram,          // more of the device's memory
  kDeviceLayers,  // the value: how many fit at most
  kHostExperts,   // the value: of how many layers at least
  kTensorRules,   // other names of tensors
  // Files.
  kCheckTensors,   // damaged weights: a check finds where
  kCheckOrWideKv,  // the same, or a KV cache of floats
  kSplitFile,      // the file belongs beside a model
  kRequantize,     // allow it, or start from floats
  kOutput,         // another name for what is made
  kDownType,       // another type of down in records
  // FFNs.
  kDense,                  // or exact where that is possible
  kExact,                  // the mode to choose
  kFast,                   // the mode to choose
  kDenseOrThreshold,       // or thresholds, if the file has some
  kFindThresholds,         // or dense without
  kTrainPredictor,         // or the training-free one
  kTrainingFreePredictor,  // or exact or dense without any
  kPrepareAnew,            // or exact or dense, which use no predictor
  // Sampling.
  kTemperature,
  kTopP,
  kMinP,
  kRepeatPenalty,
  kRepeatLastN,
  kPresencePenalty,
  kFrequencyPenalty,
  kSeed,
  // Measuring and preparing.
  kContextOrShots,    // kContext, or fewer examples
  kDensity,           // choose it instead of its cost; another activation
  kCalibrate,         // thresholds instead of predictors
  kCalibrateForRest,  // thresholds that bring neurons to rest
  kMoreRest,          // thresholds that bring more neurons to rest
  kSmallerFit,        // fewer samples, or no predictors
};

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_REMEDY_H_
