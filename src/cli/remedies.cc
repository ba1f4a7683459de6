#include "cli/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/remedy.h"

namespace thermocline::cli {
namespace {

constexpr std::string_view kLessMemory =
    "use a smaller context (-c), an 8-bit KV cache (-ctk q8_0 -ctv q8_0) or a "
    "smaller batch (-b)";

struct Words {
  Remedy remedy;
  std::string_view text;  // as it stands behind "FAULT: "
};

// Of every remedy but kNone.
constexpr Words kWords[] = {
    {Remedy::kContext, "use another -c"},
    {Remedy::kContextOrShots, "use another -c"},
    {Remedy::kLargerContext, "use a larger one (-c)"},
    {Remedy::kSmallerContext, "use a smaller -c"},
    {Remedy::kContextOrPrompt, "use a larger one (-c) or a shorter prompt"},
    {Remedy::kStartOver, "/clear starts over"},
    {Remedy::kMaxTokens, "use another -n"},
    {Remedy::kBatch, "use another -b"},
    {Remedy::kSequences, "use another -np"},
    {Remedy::kThreads, "use another -t"},
    {Remedy::kKeyType, "use another -ctk"},
    {Remedy::kValueType, "use another -ctv"},
    {Remedy::kLessMemory, kLessMemory},
    {Remedy::kMappedMemory, kLessMemory},
    {Remedy::kVram, "use a larger --vram"},
    {Remedy::kDeviceLayers, "use a smaller -ngl"},
    {Remedy::kHostExperts, "use --n-cpu-moe"},
    {Remedy::kTensorRules, "use another -ot"},
    {Remedy::kCheckTensors, "--check-tensors finds damage"},
    {Remedy::kCheckOrWideKv,
     "--check-tensors finds damage, -ctk f32 -ctv f32 holds large keys "
     "and values"},
    {Remedy::kSplitFile, "give the model with -m and this file with --split"},
    {Remedy::kRequantize, "start from F16 or F32, or give --allow-requantize"},
    {Remedy::kOutput, "choose another -o otherwise"},
    {Remedy::kDownType, "choose it with --down-type"},
    {Remedy::kDense, "use --ffn dense"},
    {Remedy::kExact, "use --ffn exact"},
    {Remedy::kFast, "use --ffn fast"},
    {Remedy::kDenseOrThreshold,
     "use --ffn dense, or --ffn threshold with a file for which "
     "'thermocline prepare' found thresholds"},
    {Remedy::kFindThresholds,
     "'thermocline prepare' finds them; use --ffn dense without"},
    {Remedy::kTrainPredictor,
     "'thermocline train' makes them; --predictor training-free needs none"},
    {Remedy::kTrainingFreePredictor,
     "use --predictor training-free, --ffn exact or --ffn dense"},
    {Remedy::kPrepareAnew,
     "prepare the model anew, or use --ffn exact or --ffn dense"},
    {Remedy::kTemperature, "use another --temp"},
    {Remedy::kTopP, "use another --top-p"},
    {Remedy::kMinP, "use another --min-p"},
    {Remedy::kRepeatPenalty, "use another --repeat-penalty"},
    {Remedy::kRepeatLastN, "use another --repeat-last-n"},
    {Remedy::kPresencePenalty, "use another --presence-penalty"},
    {Remedy::kFrequencyPenalty, "use another --frequency-penalty"},
    {Remedy::kSeed, "set one with --seed"},
    {Remedy::kDensity,
     "is --ffn-act its activation? --density chooses thresholds "
     "without"},
    {Remedy::kCalibrate,
     "'thermocline prepare' with --density or --ppl-cost calibrates "
     "thresholds, which need no predictors"},
    {Remedy::kCalibrateForRest,
     "'thermocline prepare' with --density or --ppl-cost calibrates "
     "thresholds that bring neurons to rest, at a cost in perplexity "
     "that it states"},
    {Remedy::kMoreRest,
     "'thermocline prepare' with a lower --density or a higher "
     "--ppl-cost brings more of them to rest"},
    {Remedy::kSmallerFit,
     "without --report-lookahead or, if its context is large, with a "
     "smaller -c it is less, and --no-predictor prepares it without "
     "them"},
};

std::string_view WordsFor(Remedy remedy) {
  const auto* found = std::ranges::find(kWords, remedy, &Words::remedy);
  return found == std::end(kWords) ? std::string_view() : found->text;
}

// The same with the value, where the remedy has one.
std::string Word(const Advice& advice) {
  std::string words(WordsFor(advice.remedy));
  switch (advice.remedy) {
    case Remedy::kContext:
      if (advice.value > 0)
        words = fmt::format("use -c {} or more", advice.value);
      break;
    case Remedy::kContextOrShots:
      words = fmt::format("use -c {} or more, or fewer --shots", advice.value);
      break;
    case Remedy::kDeviceLayers:
      words = fmt::format("use -ngl {}", advice.value);
      break;
    case Remedy::kHostExperts:
      words = fmt::format("use --n-cpu-moe {}", advice.value);
      break;
    case Remedy::kMappedMemory:
      words += ", or leave out --no-mmap and --mlock";
      break;
    default:
      break;
  }
  return words;
}

}  // namespace

std::string Explain(const Error& error) {
  const std::string words = Word(error.advice);
  return words.empty() ? error.message
                       : fmt::format("{}: {}", error.message, words);
}

}  // namespace thermocline::cli
