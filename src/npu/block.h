// Layers of a model as graphs with static shapes: T new rows against S past
// ones (NITRO 4; PowerInfer-2 4.1).
#ifndef THERMOCLINE_NPU_BLOCK_H_
#define THERMOCLINE_NPU_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "model/model.h"
#include "npu/forms.h"
#include "npu/graph.h"
#include "npu/layer_inputs.h"

namespace thermocline::npu {

struct BlockSpec {
  size_t first_layer = 0;
  size_t num_layers = 1;
  int64_t rows = 1;  // T
  // S + T (kRoll, kStateful: S). Best a multiple of 64: of others compilers for
  // NPUs fail at some.
  int64_t context = 512;
  WeightForm weights = WeightForm::kExact;
  KvForm kv = KvForm::kAppend;
  // Matrices, their scales, norms and biases are parameters
  // (layer_inputs.h), so that one program serves all layers of a shape. Names
  // are those of layer 0 then. Requires num_layers 1.
  bool weights_are_inputs = false;
  // A result `opened` too. Requires num_layers 1.
  bool shows_opened = false;
  size_t num_threads = 1;  // that unpack constants
};

// What a graph can be of: attention with grouped heads, rotary positions of
// either kind (or learned ones), norms of q and k, biases, RMS or layer norm,
// gated or not, every activation; parallel blocks; layers of unlike shapes, but
// for those that rotate unlike numbers of elements. kUnsupported, the model and
// what it has named: these, and mixtures.
Status CheckCanBuild(const model::Model& model);

// Parameters, all of kF32 where nothing else is said, B = 1:
//   x         [1, T, D]
//   mask      [1, 1, T, context]  added to scores: 0, or kClosed. Columns are
//             the rows of the keys: kAppend the S past ones, then the T new
//             ones; kScatter the positions; kRoll, kStateful the newest last.
//             A row has at least one that is open.
//   rope_cos, rope_sin  [1, 1, T, n / 2]  with the model's magnitude; only with
//                       rotary positions
//   cache_k_<l>  F16 [1, S, KVH, K], cache_v_<l> F16 [1, S, KVH, Kv]; kScatter
//                and kRoll [1, S + T, ...] and [1, S, ...]; kStateful: none
//   positions  I64 [T]  kScatter alone
// Results:
//   y         [1, T, D]
//   new_k_<l>, new_v_<l>  F16 [1, T, KVH, K]; of kScatter and kRoll
//                cache_k_<l>_out, cache_v_<l>_out, as the parameters
//   opened    F16 [1, T, F]  of shows_opened alone: what the activation gives
//             for each gate, or without gates for each neuron
// Positions come first, so that the tensor of a shorter S is the beginning of
// that of a longer one, in the same memory. A closed column may hold whatever
// is finite and no larger than keys and values are: zeros, other sequences' or
// rejected rows. Keys are rotated, and their elements are in the order that
// ToHostOrder undoes.
// error: how far the constants are from the file's, or null. Weights lie in
// memory, unless they are inputs. Errors of CheckCanBuild and UnpackLayer;
// kInvalidArgument: rows, context or layers that do not go together.
inline constexpr float kClosed = -65504.0f;
Result<Graph> BuildBlocks(const model::Model& model, const BlockSpec& spec,
                          UnpackError* error = nullptr);

// x [1, T, D] -> logits [1, T, V]: output norm and head. Errors of AddMatrix.
Result<Graph> BuildHead(const model::Model& model, int64_t rows,
                        WeightForm weights, UnpackError* error = nullptr);

// Whether a graph that was read has the parameters and results of BuildBlocks'
// or BuildHead's, by names and types: memory for them is that of the spec, and
// a device writes as much as the graph says. kCorrupt, the tensor named.
// Weights are no inputs. (CHECKed)
Status CheckBlocks(const model::Config& config, const BlockSpec& spec,
                   const Graph& graph);
Status CheckHead(const model::Config& config, int64_t rows, const Graph& graph);

// tokens I64 [1, T] -> x [1, T, D], with learned positions (parameter
// `positions` I64 [1, T]) where the model has them; tables in F16. NITRO's
// first chunk. Errors of AddMatrix.
Result<Graph> BuildEmbedding(const model::Model& model, int64_t rows);

// Graphs rotate element i with i + n / 2. Of models that rotate neighbours
// (RopeKind::kNorm) the rows of q and k stand in another order in the graph, so
// keys have it too: [count, KVH * K] of one layer, in place.
void ToHostOrder(const model::Config& config, size_t layer_idx, int64_t count,
                 uint16_t* keys);
void ToGraphOrder(const model::Config& config, size_t layer_idx, int64_t count,
                  uint16_t* keys);

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_BLOCK_H_
