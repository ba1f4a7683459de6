// What a thread of NeuronFfn does: takes pieces of the lists of neurons, tests
// gates, computes the hidden elements of the neurons that pass, adds their
// columns into the piece's sums, and meanwhile prefetches the next rows.
#include "engine/ffn/neuron_worker.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "compute/stream_rows.h"
#include "engine/ffn/neuron_ffn.h"
#include "kernels/activation_row.h"

namespace thermocline::engine {
namespace {

// What is asked for while the rows of a chunk are tested, whose products are
// tested together, and those that survived of the last one computed: rows and
// records. In llama-1b that is 8 rows of candidates, and 16 where all gates are
// tested; the other way round `fast` takes 1.03 and `exact` 1.05 times as long
// for its neurons.
constexpr size_t kBytesAhead = 20 << 10;
// What is tested in sequence before what it has left is computed: much, for the
// reason that pieces are long then (neuron_ffn.cc).
constexpr size_t kStreamedBytes = 1 << 20;

}  // namespace

// Takes pieces through a pipeline. Where the tested rows are listed:
//   test the rows of chunk k      asking for the records of what chunk k - 1
//   compute those of chunk k - 1  has left, then for the rows of chunk k + 1
// and where they follow each other, whose kernel asks for them itself:
//   test the rows of chunk k
//   compute what that has left    asking for the records, then for where the
//                                 rows of chunk k + 1 begin
// so that arithmetic on one hides the reading of the other. Survivors that fill
// no group of kGroup wait for those of the next chunk of their piece.
//
// Where gates come from storage before the rest of their records, a store asks
// in between who passes (KeepOpen). The piece then goes through the pipeline as
// any other, and tests again: the same products, of which few are of those that
// were missing, so that no state has to be kept for each piece.
class NeuronFfn::Worker final : private GateTest {
 public:
  Worker(NeuronFfn* ffn, size_t share)
      : ffn_(*ffn),
        kernels_(*ffn->compute_->kernels),
        streams_(ffn->TestsInSequence()),
        chunks_(ffn->cut_, ffn->records_, share, ChunkRows(),
                ffn->cut_.open_share < 1.0 ? this : nullptr),
        lines_(ListsIntoFirstLevel()) {}

  void Run() {
    if (streams_) {
      RunStreamed();
    } else {
      RunListed();
    }
  }

 private:
  // Where a group of rows leaves room there for the one before: of F16, whose
  // groups take 32 KiB in llama-1b, neurons take 1.05 times as long so.
  bool ListsIntoFirstLevel() const {
    const size_t row_bytes =
        std::max({ffn_.tested_rows_.num_bytes, ffn_.up_rows_.num_bytes,
                  ffn_.down_rows_.num_bytes});
    return kernels_.lists_into_first_level && kGroup * row_bytes <= kBytesAhead;
  }

  size_t ChunkRows() const {
    const double bytes_per_row = ffn_.BytesPerTested();
    if (!streams_) return RowsPerChunk(kBytesAhead, bytes_per_row);
    const size_t num_rows = RowsPerChunk(kStreamedBytes, bytes_per_row);
    return compute::WithStreamsApart(
        std::min(num_rows, kChunkRowsMax - compute::kMostStepsAdded * kGroup),
        ffn_.tested_rows_.stride, kGroup);
  }

  void RunListed() {
    Survivors* last = &survivors_[0];
    Survivors* current = &survivors_[1];
    last->chunk = {};
    Chunk chunk = chunks_.Next();
    lines_.Clear();
    AddTested(chunk);
    lines_.Start();
    lines_.Finish();
    while (chunk.num_rows > 0) {
      const Chunk following = chunks_.Next();
      current->chunk = chunk;
      MoveUngrouped(*last, *current);
      lines_.Clear();
      AddRecords(*last);
      AddTested(following);
      kernels::LinesAhead* ahead = lines_.Start();
      Test(*current, ahead);
      Compute(*last, ahead);
      lines_.Finish();
      std::swap(last, current);
      chunk = following;
    }
    lines_.Clear();
    AddRecords(*last);
    kernels::LinesAhead* ahead = lines_.Start();
    PrefetchFirstRecords();
    Compute(*last, ahead);
  }

  void RunStreamed() {
    Survivors* current = &survivors_[0];
    Survivors* next = &survivors_[1];
    current->chunk = {};
    next->chunk = chunks_.Next();
    MoveUngrouped(*current, *next);
    lines_.Clear();
    AddStreamStarts(next->chunk);
    lines_.Start();
    lines_.Finish();
    while (next->chunk.num_rows > 0) {
      std::swap(current, next);
      Test(*current, nullptr);
      next->chunk = chunks_.Next();
      MoveUngrouped(*current, *next);
      lines_.Clear();
      AddRecords(*current);
      AddStreamStarts(next->chunk);
      kernels::LinesAhead* ahead = lines_.Start();
      PrefetchFirstRecords();
      Compute(*current, ahead);
      lines_.Finish();
    }
  }

  // From one chunk of tokens in a piece to the next.
  static void MoveUngrouped(Survivors& from, Survivors& to) {
    for (size_t i = 0; i < to.chunk.num_tokens; ++i) to.counts[i] = 0;
    if (from.chunk.num_rows == 0 || from.chunk.ends_tokens) return;
    for (size_t i = 0; i < from.chunk.num_tokens; ++i) {
      const size_t count = from.counts[i] % kGroup;
      from.counts[i] -= count;
      to.counts[i] = count;
      std::copy_n(from.ids[i] + from.counts[i], count, to.ids[i]);
      std::copy_n(from.values[i] + from.counts[i], count, to.values[i]);
    }
  }

  void AddTested(const Chunk& chunk) {
    lines_.Add(ffn_.tested_rows_, chunk.ids, chunk.num_rows);
  }

  // What the kernel of a stream does not ask for.
  void AddStreamStarts(const Chunk& chunk) {
    if (chunk.num_rows < kernels::kStreamRows) return;
    const size_t stream_rows = chunk.num_rows / kernels::kStreams;
    const size_t stream_bytes = stream_rows * ffn_.tested_rows_.stride;
    uint32_t ids[kernels::kStreams];
    for (size_t i = 0; i < kernels::kStreams; ++i) {
      ids[i] = static_cast<uint32_t>(chunk.ids[0] + i * stream_rows);
    }
    RowPlaces starts = ffn_.tested_rows_;
    starts.num_bytes = std::min(stream_bytes, kernels::kStreamAheadBytes);
    lines_.Add(starts, ids, kernels::kStreams);
  }

  // In the order in which they are read: each step then asks for what the next
  // one reads.
  void AddRecords(const Survivors& survivors) {
    for (size_t t = 0; t < survivors.chunk.num_tokens; ++t) {
      for (const RowPlaces* rows : {&ffn_.up_rows_, &ffn_.down_rows_}) {
        if (rows->num_bytes == 0) continue;
        lines_.Add(*rows, survivors.ids[t], survivors.counts[t]);
      }
    }
  }
  // The first rows that are read of the records just added, before anything is
  // computed that could ask for them.
  void PrefetchFirstRecords() {
    const RowPlaces& first =
        ffn_.up_rows_.num_bytes > 0 ? ffn_.up_rows_ : ffn_.down_rows_;
    lines_.Prefetch(kGroup * LineList::LinesPerRow(first));
  }

  // What kernels find the rows of neurons by: the list itself where they lie by
  // neuron.
  const uint32_t* PlacesOf(const RowPlaces& rows, const uint32_t* ids,
                           size_t num_rows) {
    if (rows.places == nullptr) return ids;
    for (size_t i = 0; i < num_rows; ++i) places_[i] = rows.places[ids[i]];
    return places_;
  }

  // out[t][i] = neuron ids[i]'s row of the weight times x[t], + bias.
  void Multiply(const RowPlaces& weight, const TensorView& bias,
                const uint32_t* ids, size_t num_rows, size_t first_token,
                size_t num_tokens, kernels::LinesAhead* ahead, float* out) {
    kernels_.dot_rows(weight.dtype)(
        {.rows = weight.data,
         .row_bytes = weight.stride,
         .ids = PlacesOf(weight, ids, num_rows),
         .num_rows = num_rows,
         .n = weight.num_elems,
         .x = InputFor(*ffn_.compute_, weight.dtype, ffn_.x_, first_token),
         .x_stride_bytes = InputStride(weight.dtype),
         .num_tokens = num_tokens,
         .out = out,
         .out_stride = kProducts,
         .ahead = ahead,
         .prepared = &input_});
    AddBias(bias, ids, num_rows, num_tokens, out);
  }

  // The rows of a chunk that follow each other: the same bits, and memory gives
  // them as fast as those of any matrix.
  void MultiplyStream(const RowPlaces& weight, const Chunk& chunk) {
    kernels_.matmul(weight.dtype)({.weights = weight.row(chunk.ids[0]),
                                   .row_bytes = weight.stride,
                                   .num_rows = chunk.num_rows,
                                   .n = weight.num_elems,
                                   .x = InputFor(*ffn_.compute_, weight.dtype,
                                                 ffn_.x_, chunk.first_token),
                                   .x_stride_bytes = InputStride(weight.dtype),
                                   .num_tokens = chunk.num_tokens,
                                   .out = products_[0],
                                   .out_stride = kProducts});
  }

  size_t InputStride(DType weight_dtype) const {
    return IsFloat(weight_dtype) ? ffn_.x_.stride * sizeof(float)
                                 : kernels::ActivationRowBytes(ffn_.x_.width);
  }

  static void AddBias(const TensorView& bias, const uint32_t* ids,
                      size_t num_rows, size_t num_tokens, float* out) {
    if (!bias) return;
    const float* biases = reinterpret_cast<const float*>(bias.data);
    for (size_t t = 0; t < num_tokens; ++t) {
      float* row = out + t * kProducts;
      for (size_t i = 0; i < num_rows; ++i) row[i] += biases[ids[i]];
    }
  }

  void Test(Survivors& survivors, kernels::LinesAhead* ahead) {
    const Chunk& chunk = survivors.chunk;
    const RowPlaces& weight = ffn_.tested_rows_;
    const TensorView& bias = *ffn_.tested_bias_;
    if (streams_) {
      MultiplyStream(weight, chunk);
      AddBias(bias, chunk.ids, chunk.num_rows, chunk.num_tokens, products_[0]);
    } else {
      Multiply(weight, bias, chunk.ids, chunk.num_rows, chunk.first_token,
               chunk.num_tokens, ahead, products_[0]);
    }
    for (size_t t = 0; t < chunk.num_tokens; ++t) {
      if (ffn_.raw_.data != nullptr) KeepRaw(chunk, t);
      const size_t count = survivors.counts[t];
      survivors.counts[t] +=
          DropResting(chunk, products_[t], survivors.ids[t] + count,
                      survivors.values[t] + count);
    }
  }

  // Called by chunks_ alone, between steps of the pipeline: products_ and
  // places_ hold nothing then.
  size_t KeepOpen(size_t token_idx, uint32_t* ids, size_t count) override {
    float values[kMostTested];
    const Chunk chunk = {.ids = ids,
                         .num_rows = count,
                         .first_token = token_idx,
                         .num_tokens = 1};
    Multiply(ffn_.tested_rows_, *ffn_.tested_bias_, ids, count, token_idx, 1,
             nullptr, products_[0]);
    return DropResting(chunk, products_[0], ids, values);
  }

  void KeepRaw(const Chunk& chunk, size_t i) const {
    float* raw = ffn_.raw_.row(chunk.first_token + i);
    for (size_t j = 0; j < chunk.num_rows; ++j) {
      raw[chunk.ids[j]] = products_[i][j];
    }
  }

  // NaN stays.
  size_t DropResting(const Chunk& chunk, const float* products, uint32_t* ids,
                     float* values) {
    const model::FfnSpec& config = *ffn_.config_;
    const Activation of_gate = ActivationOfGate(config.activation);
    // ReLU lets through what is above 0, as it is: no need to call it.
    if (of_gate == Activation::kRelu && ffn_.rest_below_ == 0.0f) {
      return Keep(chunk, products, ids, values,
                  [&](size_t i) { return products[i] <= 0.0f; });
    }
    float opened[kChunkRowsMax];
    kernels_.activate(of_gate, config.threshold, nullptr, products,
                      chunk.num_rows, opened);
    return Keep(
        chunk, config.gated ? products : opened, ids, values, [&](size_t i) {
          return !ffn_.computes_all() &&
                 (opened[i] == 0.0f || std::abs(opened[i]) < ffn_.rest_below_);
        });
  }

  // The rows i of a chunk that do not rest, and what their test gave.
  template <typename Rests>
  static size_t Keep(const Chunk& chunk, const float* given, uint32_t* ids,
                     float* values, Rests&& rests) {
    size_t count = 0;
    for (size_t i = 0; i < chunk.num_rows; ++i) {
      ids[count] = chunk.ids[i];
      values[count] = given[i];
      count += rests(i) ? 0 : 1;
    }
    return count;
  }

  void Compute(Survivors& survivors, kernels::LinesAhead* ahead) {
    const Chunk& chunk = survivors.chunk;
    if (chunk.num_rows == 0) return;
    for (size_t i = 0; i < chunk.num_tokens; ++i) {
      const size_t t = chunk.first_token + i;
      if (chunk.begins_piece) BeginPiece(chunk.piece, i, t);
      ComputeToken(survivors, i, t, ahead);
      if (!chunk.ends_tokens) continue;
      ffn_.board_->num_open[t][chunk.piece] = num_open_[i];
      ffn_.board_->num_fired[t][chunk.piece] = num_fired_[i];
    }
    if (!chunk.ends_piece || !ffn_.weights_->down_t) return;
    ffn_.board_->sums.Arrive(chunk.piece, [this](size_t to, size_t from) {
      ffn_.AddPieces(to, from);
    });
  }

  void BeginPiece(size_t piece, size_t i, size_t token_idx) {
    num_open_[i] = 0;
    num_fired_[i] = 0;
    if (!ffn_.weights_->down_t) return;
    std::fill_n(ffn_.SumOf(piece, token_idx), ffn_.out_.width, 0.0f);
  }

  // From the survivors of a token to the sum of its piece.
  void ComputeToken(Survivors& survivors, size_t i, size_t token_idx,
                    kernels::LinesAhead* ahead) {
    const size_t piece = survivors.chunk.piece;
    uint32_t* ids = survivors.ids[i];
    float* hidden = survivors.values[i];
    size_t count = survivors.counts[i];
    num_open_[i] += static_cast<uint32_t>(count);
    if (ffn_.config_->gated) {
      Multiply(ffn_.up_rows_, ffn_.weights_->up_bias, ids, count, token_idx, 1,
               ahead, products_[0]);
      kernels_.activate(ffn_.config_->activation, ffn_.config_->threshold,
                        hidden, products_[0], count, hidden);
      if (!ffn_.computes_all()) count = DropZeros(ids, hidden, count);
    }
    NoteFired(piece, i, token_idx, {ids, count}, hidden);
    if (!ffn_.weights_->down_t) {
      float* row = ffn_.hidden_.row(token_idx);
      for (size_t j = 0; j < count; ++j) row[ids[j]] = hidden[j];
      return;
    }
    const RowPlaces& down = ffn_.down_rows_;
    kernels_.add_rows(down.dtype)({.rows = down.data,
                                   .row_bytes = down.stride,
                                   .ids = PlacesOf(down, ids, count),
                                   .coefs = hidden,
                                   .num_rows = count,
                                   .n = down.num_elems,
                                   .out = ffn_.SumOf(piece, token_idx),
                                   .ahead = ahead});
  }

  static size_t DropZeros(uint32_t* ids, float* hidden, size_t count) {
    size_t num_fired = 0;
    for (size_t i = 0; i < count; ++i) {
      ids[num_fired] = ids[i];
      hidden[num_fired] = hidden[i];
      num_fired += hidden[i] == 0.0f ? 0 : 1;
    }
    return num_fired;
  }

  // Behind what the piece has, at the places of its list.
  void NoteFired(size_t piece, size_t i, size_t token_idx,
                 std::span<const uint32_t> ids, const float* hidden) {
    uint32_t& count = num_fired_[i];
    const size_t begin = CutLists::PieceBegin(
        piece, ffn_.num_pieces_[token_idx], ffn_.cut_.lists[token_idx].count);
    uint32_t* fired = ffn_.FiredOf(token_idx) + begin;
    for (size_t j = 0; j < ids.size(); ++j) {
      fired[count] = ids[j];
      count += hidden[j] == 0.0f ? 0 : 1;
    }
  }

  NeuronFfn& ffn_;
  const kernels::KernelTable& kernels_;
  bool streams_;
  PieceChunks chunks_;
  LineList lines_;
  kernels::PreparedInput input_;
  Survivors survivors_[2];
  // Of the tokens of a chunk in its piece. Told when they are whole: other
  // threads write beside them.
  uint32_t num_open_[kernels::kListedTokens];
  uint32_t num_fired_[kernels::kListedTokens];
  uint32_t places_[kProducts];  // of the neurons of a call, if they have any
  alignas(os::kCacheLine) float products_[kernels::kListedTokens][kProducts];
};

// A quarter of a megabyte.
size_t NeuronFfn::WorkerBytes() {
  static_assert(alignof(Worker) <= compute::Carver::kAlignment &&
                sizeof(Worker) % compute::Carver::kAlignment == 0);
  return sizeof(Worker);
}

void NeuronFfn::Work(size_t share, size_t worker_idx) {
  auto* place = reinterpret_cast<Worker*>(scratch_->sparse.workers +
                                          worker_idx * sizeof(Worker));
  Worker& worker = *std::construct_at(place, this, share);
  worker.Run();
  std::destroy_at(&worker);
}

}  // namespace thermocline::engine
