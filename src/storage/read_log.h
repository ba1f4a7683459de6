// What a reader was asked for, token by token.
#ifndef THERMOCLINE_STORAGE_READ_LOG_H_
#define THERMOCLINE_STORAGE_READ_LOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "storage/block_reader.h"

namespace thermocline::storage {

struct LoggedRead {
  uint64_t offset = 0;
  uint32_t num_bytes = 0;
  uint32_t file_idx : 31 = 0;
  // Everything before it was over when it was submitted.
  uint32_t begins_turn : 1 = 0;
};

// Of reads that were submitted while a token was computed; between tokens
// nothing is noted. Bounded: the first token whose reads have no room any more,
// and those behind it, have none.
// Threads  one begins and ends tokens; readers note from any.
class ReadLog {
 public:
  // 4 MiB.
  static constexpr size_t kMostReads = size_t{1} << 18;

  explicit ReadLog(size_t most_reads = kMostReads);

  void BeginToken();
  void EndToken();
  void Clear();

  // While no token runs.
  struct Token {
    size_t first_read = 0;
    size_t num_reads = 0;
    double waited_seconds = 0.0;  // in which somebody waited for a read
    bool is_whole = true;         // false: its reads had no room
  };
  const std::vector<Token>& tokens() const { return tokens_; }
  std::span<const LoggedRead> reads() const { return reads_; }
  std::span<const LoggedRead> reads_of(const Token& token) const {
    return reads().subspan(token.first_read, token.num_reads);
  }
  uint64_t memory_bytes() const { return reads_.size() * sizeof(LoggedRead); }

  // The last reader that it logged.
  const std::string& reader_name() const { return reader_name_; }
  size_t depth() const { return depth_; }

 private:
  friend class LoggedReader;
  void Note(std::span<const Read> reads, bool begins_turn);
  void NoteWait(double seconds);

  const size_t most_reads_;
  std::mutex mutex_;
  bool is_on_ = false;
  bool is_full_ = false;
  std::vector<LoggedRead> reads_;
  std::vector<Token> tokens_;
  std::string reader_name_;
  size_t depth_ = 0;
};

// The same reader, whose reads are noted; `depth` is what it was made with.
std::unique_ptr<BlockReader> LogReads(std::unique_ptr<BlockReader> reader,
                                      size_t depth,
                                      std::shared_ptr<ReadLog> log);

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_READ_LOG_H_
