// What a thread of NeuronFfn computes, and in which order.
#ifndef THERMOCLINE_ENGINE_FFN_PIECE_CHUNKS_H_
#define THERMOCLINE_ENGINE_FFN_PIECE_CHUNKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/ffn/neuron_pieces.h"
#include "engine/ffn/record_store.h"

namespace thermocline::engine {

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

// Goes through the pieces that a store hands to a thread, in each through the
// tokens, those with the same list together, in chunks of up to chunk_rows
// rows.
class PieceChunks {
 public:
  // A thread that begins with the pieces of share `share` of what was
  // requested.
  PieceChunks(const CutLists& cut, RecordStore* records, size_t share,
              size_t chunk_rows)
      : cut_(cut), records_(*records), share_(share), chunk_rows_(chunk_rows) {
    next_.piece = TakePiece();
  }

  // Without rows when there is no more.
  Chunk Next() {
    while (next_.piece < cut_.max_pieces) {
      const size_t t = next_.token;
      if (t == cut_.lists.size()) {
        next_ = {.piece = TakePiece()};
        continue;
      }
      const size_t after = EndOfGroup(t);
      if (next_.piece >= cut_.num_pieces[t]) {
        next_.token = after;
        continue;
      }
      return Cut(t, after);
    }
    return {};
  }

 private:
  // Where the next chunk begins.
  struct Place {
    size_t piece = 0;
    size_t token = 0;
    size_t row = 0;  // in the token's piece
  };

  size_t TakePiece() { return records_.NextReady(share_); }

  // The next chunk, of tokens [first, after).
  Chunk Cut(size_t first, size_t after) {
    const std::span<const uint32_t> ids = cut_.PieceOf(first, next_.piece);
    Chunk chunk = {.ids = ids.data() + next_.row,
                   .first_token = first,
                   .num_tokens = after - first,
                   .piece = next_.piece,
                   .begins_piece = next_.row == 0};
    chunk.num_rows = std::min(chunk_rows_, ids.size() - next_.row);
    next_.row += chunk.num_rows;
    if (next_.row == ids.size()) next_ = {next_.piece, after, 0};
    chunk.ends_tokens = next_.row == 0;
    chunk.ends_piece = chunk.ends_tokens && IsLastOfPiece(after);
    return chunk;
  }

  size_t EndOfGroup(size_t token_idx) const {
    size_t end = token_idx + 1;
    while (end < cut_.lists.size() &&
           cut_.lists[end] == cut_.lists[token_idx]) {
      ++end;
    }
    return end;
  }

  // Whether no token from `token_idx` on takes part in the piece at hand.
  bool IsLastOfPiece(size_t token_idx) const {
    for (size_t t = token_idx; t < cut_.lists.size(); ++t) {
      if (next_.piece < cut_.num_pieces[t]) return false;
    }
    return true;
  }

  CutLists cut_;
  RecordStore& records_;
  size_t share_;  // where it would go on
  size_t chunk_rows_;
  Place next_;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_FFN_PIECE_CHUNKS_H_
