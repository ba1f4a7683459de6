// How a StreamedStore hands pieces out. A piece goes through
//   pending   until the records that it lacks have come, or their first parts
//   test      where these came first: some thread tests the gates
//   pending   until the rest of who is open has come
//   ready     then a thread has it.
#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "engine/stream/streamed_store.h"

namespace thermocline::engine {

size_t StreamedStore::NextReady(size_t& share) {
  if (!any_missed_) return shares_.Take(share);
  const PieceTask task = AwaitTask(share);
  TC_CHECK(!task.tests);
  return task.piece;
}

size_t StreamedStore::NextReady(size_t& share, GateTest& test) {
  if (!any_missed_) return shares_.Take(share);
  while (true) {
    const PieceTask task = AwaitTask(share);
    if (!task.tests) return task.piece;
    TestPiece(task.piece, test);
  }
}

// Notes how long, and for what.
StreamedStore::PieceTask StreamedStore::AwaitTask(size_t share) {
  PieceTask task;
  std::optional<double> since;
  bool for_moves = false;
  shared_.queue.WaitUntil([&] {
    const bool is_there = TakeTask(share, task);
    if (!is_there && !since) {
      since = shared_.live.Now();
      for_moves = num_reading_ == 0;
    } else if (is_there && since) {
      const double seconds = shared_.live.Now() - *since;
      RunTimes& times = shared_.times;
      (for_moves ? times.for_moves : times.for_misses) += seconds;
    }
    return is_there;
  });
  return task;
}

// Tests go first: what they ask for is read while something else is computed.
bool StreamedStore::TakeTask(size_t share, PieceTask& task) {
  if (failed_ || num_left_ == 0) {
    task = {cut_.max_pieces, false};
    return true;
  }
  if (WaitsForAll() && num_reading_ > 0) return false;
  if (tests_ != 0) {
    task = {TakeFirst(tests_, share), true};
    return true;
  }
  if (ready_ == 0 || (WaitsForAll() && num_untested_ > 0)) return false;
  task = {TakeFirst(ready_, share), false};
  --num_left_;
  return true;
}

// The first from the share's beginning on, or of all.
size_t StreamedStore::TakeFirst(uint32_t& pieces, size_t share) const {
  const size_t begin = cut_.max_pieces * share / num_shares_;
  const uint32_t behind = pieces & (~uint32_t{0} << begin);
  const auto piece =
      static_cast<size_t>(std::countr_zero(behind != 0 ? behind : pieces));
  pieces &= ~(uint32_t{1} << piece);
  return piece;
}

void StreamedStore::OnPieceCame(size_t piece) {
  const uint32_t bit = uint32_t{1} << piece;
  if ((untested_ & bit) == 0) {
    ready_ |= bit;
    return;
  }
  untested_ &= ~bit;
  tests_ |= bit;
  num_pending_[piece] = 1;  // the test
}

// Of who was missing: the others are whole.
void StreamedStore::TestPiece(size_t piece, GateTest& test) {
  std::array<uint32_t, GateTest::kMostTested> ids;
  for (size_t t = 0; t < cut_.lists.size(); ++t) {
    if (piece >= cut_.num_pieces[t]) continue;
    size_t count = 0;
    const auto flush = [&] {
      const size_t num_open =
          count > 0 ? test.KeepOpen(t, ids.data(), count) : 0;
      count = 0;
      if (num_open > 0) AskForRests(piece, std::span(ids).first(num_open));
    };
    for (const uint32_t neuron : cut_.PieceOf(t, piece)) {
      if (shared_.waiting[neuron] == 0) continue;
      ids[count++] = neuron;
      if (count == ids.size()) flush();
    }
    flush();
  }
  EndTest(piece);
}

void StreamedStore::AskForRests(size_t piece, std::span<const uint32_t> open) {
  const uint32_t bit = uint32_t{1} << piece;
  std::array<storage::Read, GateTest::kMostTested> reads;
  size_t num_reads = 0;
  shared_.queue.Change([&] {
    for (const uint32_t neuron : open) {
      uint32_t& waiting = shared_.rest_waiting[neuron];
      if (Has(neuron, kRestPart) || (waiting & bit) != 0) continue;
      const bool is_asked =
          waiting != 0 || Has(neuron, kRestPart << kReadsShift);
      waiting |= bit;
      ++num_pending_[piece];
      if (is_asked) continue;
      if (WaitsForAll()) {
        shared_.rests.push_back(neuron);
      } else {
        reads[num_reads++] = BeginRead({neuron, neuron, kRestPart});
      }
    }
  });
  if (num_reads == 0) return;
  shared_.queue.Submit(std::span(reads).first(num_reads));
  shared_.queue.Change([] {});
}

void StreamedStore::EndTest(size_t piece) {
  shared_.queue.Change([&] {
    if (--num_pending_[piece] == 0) OnPieceCame(piece);
    if (--num_untested_ == 0 && WaitsForAll()) SubmitRests();
  });
}

}  // namespace thermocline::engine
