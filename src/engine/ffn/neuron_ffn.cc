#include "engine/ffn/neuron_ffn.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/math.h"
#include "kernels/activation_row.h"

namespace thermocline::engine {
namespace {

constexpr size_t kTokens = kernels::kListedTokens;
// Records that a piece holds, in bytes: enough to hide what a piece costs, a
// sum to clear and to add.
constexpr size_t kNeuronPieceBytes = 128 << 10;
// Rows whose products are tested together: what is asked for meanwhile has to
// come from memory in the time that this takes. Half or twice as many: a tenth
// slower.
constexpr size_t kChunkBytes = 10 << 10;
constexpr size_t kChunkRowsMin = 4;
constexpr size_t kChunkRowsMax = 64;
// Ranges of pieces that each thread takes one by one, so that the last to
// finish is not waited for long.
constexpr size_t kRangesPerThread = 4;

constexpr size_t kLineBytes = 64;
constexpr size_t kMaxLines = 4096;

// The lines that are read soon. What does not fit is not asked for.
class LineList {
 public:
  void Clear() {
    num_lines_ = 0;
    ahead_ = {};
  }
  // The first lines of some rows, then their second ones, and so on: rows lie
  // in pages of their own, whose addresses are then looked up side by side.
  void Add(const RowPlaces& rows, const uint32_t* ids, size_t num_rows) {
    const size_t lines_per_row =
        (rows.num_bytes + kLineBytes - 2) / kLineBytes + 1;
    for (size_t first = 0; first < num_rows; first += kLanes) {
      const size_t count = std::min(kLanes, num_rows - first);
      if (count * lines_per_row > kMaxLines - num_lines_) return;
      Lines lines = {};
      for (size_t i = 0; i < count; ++i) {
        lines[i] = reinterpret_cast<uintptr_t>(rows.row(ids[first + i])) /
                   kLineBytes * kLineBytes;
      }
      // Whole vectors: what is too much is written over by the next.
      for (size_t i = 0; i < lines_per_row; ++i) {
        std::memcpy(lines_ + num_lines_, &lines, sizeof(lines));
        lines += kLineBytes;
        num_lines_ += count;
      }
    }
  }
  // For kernels to ask for while they compute.
  kernels::LinesAhead* Start() {
    ahead_ = {lines_, lines_ + num_lines_};
    return &ahead_;
  }
  // Asks for what no kernel has asked for.
  void Finish() {
    for (; ahead_.next != ahead_.end; ++ahead_.next) {
      __builtin_prefetch(reinterpret_cast<const void*>(*ahead_.next), 0, 2);
    }
  }

 private:
  static constexpr size_t kLanes = 8;
  using Lines = uintptr_t __attribute__((ext_vector_type(kLanes)));

  uintptr_t lines_[kMaxLines + kLanes];
  size_t num_lines_ = 0;
  kernels::LinesAhead ahead_;
};

// Listed rows of tokens with the same list.
struct Chunk {
  const uint32_t* ids = nullptr;
  size_t num_rows = 0;  // 0: no chunk
  size_t first_token = 0;
  size_t num_tokens = 0;
  size_t piece = 0;
  bool begins_piece = false;  // of these tokens
  bool ends_tokens = false;   // of the piece, likewise
  bool ends_piece = false;    // of all tokens
};

// Of the tokens of a chunk, the neurons that are not at rest, and what their
// test gave: the raw product of the gate, or h without one.
struct Survivors {
  Chunk chunk;
  size_t counts[kTokens];
  uint32_t ids[kTokens][kChunkRowsMax];
  float values[kTokens][kChunkRowsMax];
};

size_t RowsPerChunk(size_t row_bytes) {
  return std::clamp(kChunkBytes / std::max<size_t>(row_bytes, 1), kChunkRowsMin,
                    kChunkRowsMax);
}

}  // namespace

// Takes a range of pieces through the pipeline:
//   test the rows of chunk k      asking for the records of what chunk k - 1
//   compute those of chunk k - 1  has left, then for the rows of chunk k + 1
// so that arithmetic on one hides the reading of the other.
class NeuronFfn::Worker {
 public:
  explicit Worker(NeuronFfn* ffn)
      : ffn_(*ffn), kernels_(*ffn->compute_->kernels) {}

  void Run(size_t begin, size_t end) {
    next_ = {.piece = begin};
    end_ = end;
    Survivors* last = &survivors_[0];
    Survivors* current = &survivors_[1];
    last->chunk = {};
    Chunk chunk = Next();
    lines_.Clear();
    AddTested(chunk);
    lines_.Start();
    lines_.Finish();
    while (chunk.num_rows > 0) {
      const Chunk following = Next();
      lines_.Clear();
      AddRecords(*last);
      AddTested(following);
      kernels::LinesAhead* ahead = lines_.Start();
      Test(chunk, ahead, *current);
      Compute(*last, ahead);
      lines_.Finish();
      std::swap(last, current);
      chunk = following;
    }
    lines_.Clear();
    AddRecords(*last);
    Compute(*last, lines_.Start());
  }

 private:
  // Where the next chunk begins.
  struct Place {
    size_t piece = 0;
    size_t token = 0;
    size_t row = 0;  // in the token's piece
  };

  // Piece by piece, in each by tokens with the same list.
  Chunk Next() {
    while (next_.piece < end_) {
      const size_t t = next_.token;
      if (t == ffn_.lists_.size()) {
        next_ = {.piece = next_.piece + 1};
        continue;
      }
      const NeuronList& list = ffn_.lists_[t];
      const size_t num_pieces = ffn_.num_pieces_[t];
      const size_t after = EndOfGroup(t);
      if (next_.piece >= num_pieces) {
        next_.token = after;
        continue;
      }
      const size_t begin = PieceBegin(next_.piece, num_pieces, list.count);
      const size_t end = PieceBegin(next_.piece + 1, num_pieces, list.count);
      Chunk chunk = {.ids = list.ids + begin + next_.row,
                     .first_token = t,
                     .num_tokens = after - t,
                     .piece = next_.piece,
                     .begins_piece = next_.row == 0};
      chunk.num_rows = std::min(RowsPerChunk(ffn_.tested_rows_.num_bytes),
                                end - begin - next_.row);
      next_.row += chunk.num_rows;
      if (begin + next_.row == end) next_ = {next_.piece, after, 0};
      chunk.ends_tokens = next_.row == 0;
      chunk.ends_piece = chunk.ends_tokens && IsLastOfPiece(after);
      return chunk;
    }
    return {};
  }

  size_t EndOfGroup(size_t token_idx) const {
    size_t end = token_idx + 1;
    while (end < ffn_.lists_.size() &&
           ffn_.lists_[end] == ffn_.lists_[token_idx]) {
      ++end;
    }
    return end;
  }

  // Whether no token from `token_idx` on takes part in the piece at hand.
  bool IsLastOfPiece(size_t token_idx) const {
    for (size_t t = token_idx; t < ffn_.lists_.size(); ++t) {
      if (next_.piece < ffn_.num_pieces_[t]) return false;
    }
    return true;
  }

  void AddTested(const Chunk& chunk) {
    lines_.Add(ffn_.tested_rows_, chunk.ids, chunk.num_rows);
  }

  // In the order in which they are read: each step then asks for what the next
  // one reads.
  void AddRecords(const Survivors& survivors) {
    AddRows(survivors, ffn_.up_rows_);
    AddRows(survivors, ffn_.down_rows_);
  }
  void AddRows(const Survivors& survivors, const RowPlaces& rows) {
    if (rows.num_bytes == 0) return;
    for (size_t t = 0; t < survivors.chunk.num_tokens; ++t) {
      lines_.Add(rows, survivors.ids[t], survivors.counts[t]);
    }
  }

  // out[t][i] = row ids[i] of the weight times x[t], + bias.
  void Multiply(const TensorView& weight, const TensorView& bias,
                const uint32_t* ids, size_t num_rows, size_t first_token,
                size_t num_tokens, kernels::LinesAhead* ahead, float* out) {
    const Rows& x = ffn_.x_;
    const bool is_float = IsFloat(weight.dtype);
    kernels_.dot_rows(weight.dtype)(
        {.rows = weight.data,
         .row_bytes = weight.row_stride(),
         .ids = ids,
         .num_rows = num_rows,
         .n = weight.shape.ne[0],
         .x = InputFor(*ffn_.compute_, weight.dtype, x, first_token),
         .x_stride_bytes = is_float ? x.stride * sizeof(float)
                                    : kernels::ActivationRowBytes(x.width),
         .num_tokens = num_tokens,
         .out = out,
         .out_stride = kChunkRowsMax,
         .ahead = ahead});
    if (!bias) return;
    const float* biases = reinterpret_cast<const float*>(bias.data);
    for (size_t t = 0; t < num_tokens; ++t) {
      float* row = out + t * kChunkRowsMax;
      for (size_t i = 0; i < num_rows; ++i) row[i] += biases[ids[i]];
    }
  }

  void Test(const Chunk& chunk, kernels::LinesAhead* ahead, Survivors& out) {
    out.chunk = chunk;
    Multiply(*ffn_.tested_, *ffn_.tested_bias_, chunk.ids, chunk.num_rows,
             chunk.first_token, chunk.num_tokens, ahead, products_[0]);
    for (size_t t = 0; t < chunk.num_tokens; ++t) {
      if (ffn_.raw_.data != nullptr) KeepRaw(chunk, t);
      out.counts[t] =
          DropResting(chunk, products_[t], out.ids[t], out.values[t]);
    }
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
    const model::FfnConfig& config = *ffn_.config_;
    const Activation of_gate = config.activation == Activation::kDRelu
                                   ? Activation::kRelu
                                   : config.activation;
    float opened[kChunkRowsMax];
    kernels_.activate(of_gate, config.threshold, nullptr, products,
                      chunk.num_rows, opened);
    const float* kept = config.gated ? products : opened;
    size_t count = 0;
    for (size_t i = 0; i < chunk.num_rows; ++i) {
      ids[count] = chunk.ids[i];
      values[count] = kept[i];
      const bool rests =
          !ffn_.computes_all() &&
          (opened[i] == 0.0f || std::abs(opened[i]) < ffn_.rest_below_);
      count += rests ? 0 : 1;
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
      const model::FfnWeights& weights = *ffn_.weights_;
      Multiply(weights.up, weights.up_bias, ids, count, token_idx, 1, ahead,
               products_[0]);
      kernels_.activate(ffn_.config_->activation, ffn_.config_->threshold,
                        hidden, products_[0], count, hidden);
      if (!ffn_.computes_all()) count = DropZeros(ids, hidden, count);
    }
    NoteFired(piece, i, token_idx, {ids, count}, hidden);
    const TensorView& down_t = ffn_.weights_->down_t;
    if (!down_t) {
      float* row = ffn_.hidden_.row(token_idx);
      for (size_t j = 0; j < count; ++j) row[ids[j]] = hidden[j];
      return;
    }
    kernels_.add_rows(down_t.dtype)({.rows = down_t.data,
                                     .row_bytes = down_t.row_stride(),
                                     .ids = ids,
                                     .coefs = hidden,
                                     .num_rows = count,
                                     .n = down_t.shape.ne[0],
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
    const size_t begin = PieceBegin(piece, ffn_.num_pieces_[token_idx],
                                    ffn_.lists_[token_idx].count);
    uint32_t* fired = ffn_.FiredOf(token_idx) + begin;
    for (size_t j = 0; j < ids.size(); ++j) {
      fired[count] = ids[j];
      count += hidden[j] == 0.0f ? 0 : 1;
    }
  }

  NeuronFfn& ffn_;
  const kernels::KernelTable& kernels_;
  Place next_;
  size_t end_ = 0;
  LineList lines_;
  Survivors survivors_[2];
  // Of the tokens of a chunk in its piece. Told when they are whole: other
  // threads write beside them.
  uint32_t num_open_[kTokens];
  uint32_t num_fired_[kTokens];
  alignas(kLineBytes) float products_[kTokens][kChunkRowsMax];
};

NeuronFfn::NeuronFfn(const model::FfnConfig* config,
                     const model::FfnWeights* weights, float rest_below,
                     const Compute* compute, const Scratch* scratch,
                     PieceBoard* board)
    : config_(config),
      weights_(weights),
      rest_below_(rest_below),
      compute_(compute),
      scratch_(scratch),
      board_(board),
      tested_(config->gated ? &weights->gate : &weights->up),
      tested_bias_(config->gated ? &weights->gate_bias : &weights->up_bias),
      tested_rows_(*tested_),
      up_rows_(config->gated ? weights->up : TensorView()),
      down_rows_(weights->down_t),
      any_rounded_(!IsFloat(weights->up.dtype) ||
                   (config->gated && !IsFloat(weights->gate.dtype))) {}

void NeuronFfn::Run(const Rows& x, std::span<const NeuronList> lists,
                    const Rows& hidden, const Rows& out, const Rows& raw) {
  TC_CHECK(!lists.empty() && lists.size() <= kTokens);
  x_ = x;
  std::ranges::copy(lists, list_copies_.begin());
  lists_ = std::span(list_copies_).first(lists.size());
  hidden_ = hidden;
  out_ = out;
  raw_ = raw;
  max_pieces_ = 0;
  for (size_t t = 0; t < lists.size(); ++t) {
    num_pieces_[t] = NumPieces(lists[t].count);
    max_pieces_ = std::max(max_pieces_, num_pieces_[t]);
    if (!weights_->down_t) std::ranges::fill(hidden.span(t), 0.0f);
  }
  if (any_rounded_) RoundRows(*compute_, x, lists.size());
  board_->sums.Start(max_pieces_);
  const auto num_threads = static_cast<size_t>(compute_->pool->num_threads());
  const size_t num_ranges =
      num_threads == 1 ? 1 : num_threads * kRangesPerThread;
  compute_->pool->ParallelFor(
      max_pieces_, std::max<size_t>(CeilDiv(max_pieces_, num_ranges), 1),
      [this](size_t begin, size_t end, int /*worker_idx*/) {
        Worker(this).Run(begin, end);
      });
  if (weights_->down_t) Finish(out);
}

void NeuronFfn::Finish(const Rows& out) const {
  const TensorView& bias = weights_->down_bias;
  for (size_t t = 0; t < lists_.size(); ++t) {
    if (num_pieces_[t] == 0) std::ranges::fill(out.span(t), 0.0f);
    if (!bias) continue;
    compute_->kernels->add(reinterpret_cast<const float*>(bias.data), out.width,
                           out.row(t));
  }
}

size_t NeuronFfn::NumPieces(size_t count) const {
  const size_t num_bytes = BytesRead(count, count);
  return std::min(
      {CeilDiv(num_bytes, kNeuronPieceBytes), PieceSums::kMaxPieces, count});
}

float* NeuronFfn::SumOf(size_t piece, size_t token_idx) const {
  return piece == 0 ? out_.row(token_idx)
                    : scratch_->sparse.sums.row(piece * scratch_->sparse.group +
                                                token_idx);
}

uint32_t* NeuronFfn::FiredOf(size_t token_idx) const {
  return scratch_->sparse.fired + token_idx * scratch_->sparse.num_neurons;
}

void NeuronFfn::AddPieces(size_t to, size_t from) const {
  for (size_t t = 0; t < lists_.size(); ++t) {
    if (from >= num_pieces_[t]) continue;
    compute_->kernels->add(SumOf(from, t), out_.width, SumOf(to, t));
  }
}

size_t NeuronFfn::num_open(size_t token_idx) const {
  const auto& counts = board_->num_open[token_idx];
  size_t sum = 0;
  for (size_t p = 0; p < num_pieces_[token_idx]; ++p) sum += counts[p];
  return sum;
}

void NeuronFfn::AddFired(size_t token_idx,
                         const predictor::NeuronSet& set) const {
  const size_t num_pieces = num_pieces_[token_idx];
  const size_t count = lists_[token_idx].count;
  for (size_t p = 0; p < num_pieces; ++p) {
    const uint32_t* ids = FiredOf(token_idx) + PieceBegin(p, num_pieces, count);
    for (size_t i = 0; i < board_->num_fired[token_idx][p]; ++i) {
      set.Add(ids[i]);
    }
  }
}

size_t NeuronFfn::BytesRead(size_t count, size_t num_open) const {
  return count * tested_rows_.num_bytes +
         num_open * (up_rows_.num_bytes + down_rows_.num_bytes);
}

}  // namespace thermocline::engine
