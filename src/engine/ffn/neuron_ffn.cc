#include "engine/ffn/neuron_ffn.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/activation_row.h"

namespace thermocline::engine {
namespace {

// Records that a piece holds, in bytes: enough to hide what a piece costs, a
// sum to clear and to add.
constexpr size_t kNeuronPieceBytes = 128 << 10;
// Where all neurons are tested, more than so many pieces are longer: tests in
// sequence read streams between scattered records, which hold each other up
// where they meet. llama-1b with 16 pieces of 352 gates, not 32, takes 0.96 of
// the time for its neurons (two threads; more than 16 share 16 pieces). The
// same where tests go by lists, so that bits do not depend on it.
constexpr size_t kTestedPieces = 16;
constexpr size_t kTestedPieceBytes = 2 << 20;

RowPlaces TestedOf(const model::FfnSpec& config,
                   const model::FfnMatrices& weights,
                   const RecordStore& records) {
  const neuron::RecordViews& views = records.views();
  if (!config.gated) return RowPlaces(views.up, records.places());
  return views.gate ? RowPlaces(views.gate, records.places())
                    : RowPlaces(weights.gate);
}

}  // namespace

NeuronFfn::NeuronFfn(const model::FfnSpec* config,
                     const model::FfnWeights* weights, RecordStore* records,
                     Listed listed, float rest_below,
                     const compute::Compute* compute, const FfnScratch* scratch,
                     PieceResults* board)
    : config_(config),
      weights_(weights),
      records_(records),
      listed_(listed),
      rest_below_(rest_below),
      compute_(compute),
      scratch_(scratch),
      board_(board),
      tested_rows_(TestedOf(*config, *weights, *records)),
      tested_bias_(config->gated ? &weights->gate_bias : &weights->up_bias),
      up_rows_(config->gated ? records->views().up : TensorView(),
               records->places()),
      down_rows_(records->views().down_t, records->places()),
      any_rounded_(!IsFloat(weights->up.dtype) ||
                   (config->gated && !IsFloat(weights->gate.dtype))) {
  TC_CHECK(static_cast<bool>(records->views().down_t) ==
           static_cast<bool>(weights->down_t));
}

void NeuronFfn::TakeRows() {
  tested_rows_ = TestedOf(*config_, *weights_, *records_);
  if (config_->gated) {
    up_rows_ = RowPlaces(records_->views().up, records_->places());
  }
  down_rows_ = RowPlaces(records_->views().down_t, records_->places());
}

Status NeuronFfn::Run(const compute::Rows& x, std::span<const NeuronList> lists,
                      const compute::Rows& hidden, const compute::Rows& out,
                      const compute::Rows& raw) {
  TC_CHECK(!lists.empty() && lists.size() <= kernels::kListedTokens);
  TakeRows();
  x_ = x;
  std::ranges::copy(lists, list_copies_.begin());
  cut_ = {.lists = std::span(list_copies_).first(lists.size()),
          .num_pieces = std::span(num_pieces_).first(lists.size()),
          .open_share = records_->views().gate ? OpenShare() : 1.0};
  hidden_ = hidden;
  out_ = out;
  raw_ = raw;
  for (size_t t = 0; t < lists.size(); ++t) {
    TC_DCHECK(listed_ != Listed::kAll || lists[t].count == 0 ||
              lists[t].ids[lists[t].count - 1] == lists[t].count - 1);
    num_pieces_[t] = NumPieces(lists[t].count);
    cut_.max_pieces = std::max(cut_.max_pieces, num_pieces_[t]);
    if (!weights_->down_t) std::ranges::fill(hidden.span(t), 0.0f);
  }
  if (any_rounded_) RoundRows(*compute_, x, lists.size());
  board_->sums.Start(cut_.max_pieces);
  const auto num_threads = static_cast<size_t>(compute_->pool->num_threads());
  const size_t num_shares = std::min(num_threads, cut_.max_pieces);
  records_->Request(cut_, std::max<size_t>(num_shares, 1));
  compute_->pool->ParallelFor(
      num_shares, 1, [this](size_t share, size_t /*end*/, int worker_idx) {
        Work(share, static_cast<size_t>(worker_idx));
      });
  TC_RETURN_IF_ERROR(records_->Release());
  if (weights_->down_t) Finish(out);
  return {};
}

void NeuronFfn::Finish(const compute::Rows& out) const {
  const TensorView& bias = weights_->down_bias;
  for (size_t t = 0; t < cut_.lists.size(); ++t) {
    if (num_pieces_[t] == 0) std::ranges::fill(out.span(t), 0.0f);
    if (!bias) continue;
    compute_->kernels->add(reinterpret_cast<const float*>(bias.data), out.width,
                           out.row(t));
  }
}

size_t NeuronFfn::NumPieces(size_t count) const {
  const size_t num_bytes = BytesRead(count, count);
  const bool tests_all = listed_ != Listed::kCandidates && !computes_all();
  const size_t most = tests_all
                          ? std::clamp(num_bytes / kTestedPieceBytes,
                                       kTestedPieces, PieceSums::kMaxPieces)
                          : PieceSums::kMaxPieces;
  return std::min({CeilDiv(num_bytes, kNeuronPieceBytes), most, count});
}

double NeuronFfn::BytesPerTested() const {
  return static_cast<double>(tested_rows_.num_bytes) +
         OpenShare() *
             static_cast<double>(up_rows_.num_bytes + down_rows_.num_bytes);
}

// The pieces of a token lie together: far apart they would meet in the same
// places of a cache.
float* NeuronFfn::SumOf(size_t piece, size_t token_idx) const {
  return piece == 0 ? out_.row(token_idx)
                    : scratch_->sparse.sums.row(
                          token_idx * PieceSums::kMaxPieces + piece);
}

uint32_t* NeuronFfn::FiredOf(size_t token_idx) const {
  return scratch_->sparse.fired + token_idx * scratch_->sparse.num_neurons;
}

void NeuronFfn::AddPieces(size_t to, size_t from) const {
  for (size_t t = 0; t < cut_.lists.size(); ++t) {
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

void NeuronFfn::AddFired(size_t token_idx, const neuron::NeuronSet& set) const {
  const size_t num_pieces = num_pieces_[token_idx];
  const size_t count = cut_.lists[token_idx].count;
  for (size_t p = 0; p < num_pieces; ++p) {
    const uint32_t* ids =
        FiredOf(token_idx) + CutLists::PieceBegin(p, num_pieces, count);
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
