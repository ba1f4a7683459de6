// A whole model on a device that takes static shapes: programs for each number
// of rows and context, and the keys and values of one sequence.
#ifndef THERMOCLINE_NPU_STATIC_MODEL_H_
#define THERMOCLINE_NPU_STATIC_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "model/model.h"
#include "npu/forms.h"
#include "npu/graph.h"
#include "npu/static_device.h"

namespace thermocline::npu {

// One graph of a model.
struct GraphName {
  bool is_head = false;  // else layers
  size_t first_layer = 0;
  size_t num_layers = 0;
  int64_t rows = 1;
  int64_t context = 0;
};

struct StaticOptions {
  WeightForm weights = WeightForm::kExact;
  KvForm kv = KvForm::kAppend;
  // One program of one layer serves all, whose weights are unpacked before
  // each: 1/L of the compile and of the memory.
  bool weights_are_inputs = false;
  size_t layers_per_program = 0;      // 0: all of them
  std::vector<int64_t> rows = {128};  // T of the programs, ascending
  int64_t context = 4096;             // positions that a sequence may have
  // S + T of the programs, ascending, multiples of 64. Empty: powers of two
  // from 512 on, then what holds `context` (ContextsFor).
  std::vector<int64_t> contexts;
  bool has_head = false;  // logits too
  // SetOpenedSink works. With weights_are_inputs, of kAppend.
  bool shows_opened = false;
  int unpack_threads = 1;  // of weights that are inputs
  // Where graphs come from; without it they are built.
  std::function<Result<Graph>(const GraphName& name)> read_graph;
  CompileOptions compile;
  ProgressFn progress;  // compiles
};

// Where a layer's weights are, when they are not all in memory at once. Called
// in the order of layers, from a thread of its own; after an error or a
// cancelled run not for all of them.
struct LayerSource {
  // In memory until Leave. Errors of reading.
  std::function<Result<const model::LayerWeights*>(size_t layer_idx)> await;
  std::function<void(size_t layer_idx)> leave;
};

// Whom keys and values go to besides: the host's cache. From a thread of its
// own; [count, KVH * K] and [count, KVH * Kv] in F16, in the host's order.
struct KvSink {
  std::function<void(size_t layer_idx, int64_t first, int64_t count,
                     const uint16_t* k, const uint16_t* v)>
      put;
};
struct KvSource {
  std::function<void(size_t layer_idx, int64_t first, int64_t count,
                     uint16_t* k, uint16_t* v)>
      get;
};

// Who hears what the activation of a layer's FFN has given for its gates (for
// its neurons where there are none), which is 0 of who did not fire. From Run's
// thread, as soon as the rows are computed: [count, F] in F16, of positions
// `first` and on.
using OpenedSink = std::function<void(size_t layer_idx, int64_t first,
                                      int64_t count, const uint16_t* opened)>;

// Rows of a residual stream where the caller has them.
struct StreamRows {
  float* data = nullptr;
  size_t num_rows = 0;
  size_t stride = 0;  // elements from one row to the next, at least D
};
inline StreamRows PackedRows(std::span<float> x, size_t width) {
  return {x.data(), x.size() / width, width};
}

// Seconds of a layer's parts, as PowerInfer-2's Fig. 8; all layers' sums.
struct StaticTimes {
  double read_s = 0.0;  // waiting for the source
  double unpack_s = 0.0;
  double unpack_wait_s = 0.0;  // of both, what nothing was computed beside
  double infer_s = 0.0;
  double hand_over_s = 0.0;       // keys and values to the sink
  double hand_over_wait_s = 0.0;  // of it, what nothing was computed beside
  double whole_s = 0.0;
  double compile_s = 0.0;  // not in whole_s
  uint64_t num_rows = 0;
  uint64_t num_padded = 0;  // rows that were computed for nothing
};

// At least what num_bytes() will be, and little more, from the description
// alone, so that memory can be planned; saturates. kInvalidArgument as of
// StaticModel::Create.
Result<uint64_t> StaticBytes(const model::Config& config,
                             const StaticOptions& options);

// What a device will take on top for each number of rows and context, roughly:
// its own copy of the constants, which OpenVINO's CPU packs anew. 0 where there
// are none.
uint64_t RoughDeviceBytes(const model::Model& model,
                          const StaticOptions& options);

// What computing a token behind `length` others reads: all weights in the form
// that graphs have them in, with the head's if they have one, and keys and
// values of as many positions as the graph has, used or not.
uint64_t TokenBytes(const model::Model& model, const StaticOptions& options,
                    int64_t length);

// Threads  one caller at a time.
class StaticModel {
 public:
  // Programs are compiled when they are first needed. Errors of CheckCanBuild;
  // kInvalidArgument: rows or contexts that do not go together, or several
  // layers for a program with weights as inputs;
  // kResourceExhausted. Of other forms of keys and values than kAppend:
  // whole_cache_model.h.
  static Result<std::unique_ptr<StaticModel>> Create(
      std::shared_ptr<const model::Model> model,
      std::shared_ptr<StaticDevice> device, const StaticOptions& options);
  virtual ~StaticModel() = default;

  // The positions whose keys and values are there.
  virtual int64_t length() const = 0;
  // Forgets all from `length` on; with other forms than kAppend all or nothing.
  virtual void Truncate(int64_t length) = 0;
  // Takes the positions from `first` to `length` from the host's cache; keeps
  // those before. Requires first <= length(), and a context that has them.
  virtual void Load(int64_t first, int64_t length, const KvSource& source) = 0;
  // Whether Run could compute so many rows at position `first`.
  virtual bool Holds(int64_t first, int64_t num_rows) const = 0;

  // Computes all layers for rows at positions length()...: x [n, D], becomes
  // the output of the last layer; after an error, something. Cut into chunks of
  // T rows, the last padded; each with the smallest context that holds it
  // (chunk_plan.h). Program by program, each with all chunks, so that a layer's
  // weights are read and unpacked once. sink: or null; when this returns it has
  // all that it will get. Allocates: programs that are missing, and lists of
  // chunks and of rows to hand over.
  // kResourceExhausted, before anything is computed: more positions than the
  // largest context. kCancelled: is_cancelled said so. kCorrupt: keys or values
  // are not finite in F16. Else the device's errors (kIo for a compile that
  // took too long), kResourceExhausted for want of a thread, and those of the
  // source; length() is then what it was.
  virtual Status Run(const StreamRows& x, const KvSink* sink,
                     const std::function<bool()>& is_cancelled) = 0;
  // logits [n, V] of rows that Run gave; with has_head.
  virtual Status Logits(std::span<const float> x, std::span<float> logits) = 0;

  // Where Run finds weights; without one, in the model.
  virtual void SetLayerSource(LayerSource source) = 0;
  // With shows_opened.
  virtual void SetOpenedSink(OpenedSink sink) = 0;

  // Of memory that it takes and knows of: its tensors. The device's own comes
  // on top.
  virtual uint64_t num_bytes() const = 0;
  // Since the last ResetTimes; compile_s since the beginning.
  virtual const StaticTimes& times() const = 0;
  virtual void ResetTimes() = 0;
  // "OpenVINO 2026.4.1 on CPU, weights i8-cw, 128 rows, contexts 512 to 4096,
  // some 2.00 GiB of its own for each shape".
  virtual std::string Describe() const = 0;
};

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_STATIC_MODEL_H_
