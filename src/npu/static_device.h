// Who carries out graphs with static shapes: OpenVINO's devices (openvino.h) or
// the reference.
#ifndef THERMOCLINE_NPU_STATIC_DEVICE_H_
#define THERMOCLINE_NPU_STATIC_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "npu/graph.h"

namespace thermocline::npu {

// A graph that is ready to run, with one request.
// Threads  one caller at a time; different programs from different threads.
class StaticProgram {
 public:
  virtual ~StaticProgram() = default;

  // Where the parameter or result of that name lies from now on: memory of the
  // caller's of at least the type's NumBytes, aligned to Graph::kAlignment,
  // which is there until the next Bind of the name, or the last Infer.
  // kNotFound: no such name; kInvalidArgument: another type than the graph's.
  virtual Status Bind(std::string_view name, const Type& type,
                      std::byte* data) = 0;

  // Reads the parameters, writes the results. All names are bound (CHECKed).
  // A result may lie where a parameter lies, if the device is the reference.
  // kIo: the device failed; its own words are in the message. The reference:
  // kInvalidArgument: a number of a row (kGather, kScatterUpdate) that is none;
  // kResourceExhausted: no memory for its values.
  virtual Status Infer() = 0;

  // Variables (ReadValue, Assign) are what they were before the first Infer.
  virtual Status Reset() = 0;
};

// How a graph is made ready.
struct CompileOptions {
  // Sums in F32 and weights as they are, for comparison; else as fast as the
  // device can: bf16, 8-bit activations.
  bool is_exact = false;
  // The graph computes one row. OpenVINO's CPU, where it has bf16, computes
  // those wrongly in it (a normalised squared error of 0.25, 1e-4 with 8 rows
  // and more; 2026.4.1): F32 then, which costs nothing where weights are what
  // is read.
  bool is_one_row = false;
  int num_threads = 0;    // of a device that is the CPU; 0: its own choice
  std::string cache_dir;  // of compiled graphs; empty: none
  // Ends a compile that takes longer, as far as it can be ended; 0: never.
  double most_seconds = 0.0;
  // Ends the wait for it, and it too, where it is a process of its own; null:
  // nobody does.
  const std::atomic<bool>* cancel = nullptr;
  bool operator==(const CompileOptions&) const = default;
};

// Threads  any, all calls.
class StaticDevice {
 public:
  virtual ~StaticDevice() = default;

  // "CPU", "NPU", "reference".
  virtual std::string name() const = 0;
  // "OpenVINO 2026.4.1 on CPU (AMD EPYC ...)".
  virtual std::string Describe() const = 0;
  // Those of the options that what it compiles depends on; the others as they
  // are by default.
  virtual CompileOptions OptionsThatCount(
      const CompileOptions& /*options*/) const {
    return {};
  }

  // The graph may go when this returns. kUnsupported: the device does not take
  // it; kIo: the device or its driver failed; kResourceExhausted: no memory;
  // kCancelled: most_seconds are over, or `cancel` is set. The first line of
  // the device's own words is in the message.
  virtual Result<std::unique_ptr<StaticProgram>> Compile(
      const Graph& graph, const CompileOptions& options) = 0;
};

// Carries out graphs slowly and plainly: what every device is compared with.
// All operations of graph.h. Values of kF32 and kF16 are computed in F32 (sums
// in double, in the order of their indices) and rounded to F16 where a value is
// one; 4- and 8-bit integers convert to either. So a row's result does not
// depend on how many rows stand beside it. A compile never fails but for a lack
// of memory; CompileOptions do not matter.
std::unique_ptr<StaticDevice> MakeReferenceDevice();

// `device`, but a graph that it was given before, bytes of constants and all,
// is not compiled again, once who had its program has given it back: for
// sessions that come one after the other, as in a benchmark. Keeps the memory
// of what comes back, until a graph is compiled with other options that count
// (OptionsThatCount; is_one_row, which a session has both ways, drops nobody),
// or the device goes.
std::shared_ptr<StaticDevice> KeepPrograms(
    std::shared_ptr<StaticDevice> device);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_STATIC_DEVICE_H_
