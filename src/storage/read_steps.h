// One read as the calls that the kernel is asked for.
#ifndef THERMOCLINE_STORAGE_READ_STEPS_H_
#define THERMOCLINE_STORAGE_READ_STEPS_H_

#include <cstddef>
#include <cstdint>

#include "storage/block_reader.h"
#include "storage/open_file.h"

namespace thermocline::storage {

// Of a bounce buffer, which is aligned to kBounceAlignment.
inline constexpr size_t kBounceBytes = size_t{256} << 10;
inline constexpr size_t kBounceAlignment = 4096;

// A call reads straight to where the read goes, if the device can; else whole
// blocks to a bounce buffer, of which Take copies what was asked for. A call
// may give less than it asked for: the next goes on behind it.
class ReadSteps {
 public:
  struct Call {
    uint64_t offset;
    size_t num_bytes;
    std::byte* to;
  };

  ReadSteps() = default;
  // `file` outlives it. Requires CheckRange(file, read).
  ReadSteps(const OpenFile* file, const Read& read)
      : file_(file), read_(read) {}

  const Read& read() const { return read_; }
  const OpenFile& file() const { return *file_; }
  bool is_over() const { return num_got_ == read_.num_bytes; }
  // Whether the next call takes a bounce buffer; whether one did.
  bool wants_bounce() const;
  bool has_bounced() const { return has_bounced_; }

  // The next call. Requires !is_over(); `bounce` may be null unless
  // wants_bounce().
  Call Next(std::byte* bounce);
  // What that call gave; false: the file has ended.
  bool Take(const Call& call, size_t num_bytes);

 private:
  uint64_t position() const { return read_.offset + num_got_; }
  size_t num_left() const { return read_.num_bytes - num_got_; }

  const OpenFile* file_ = nullptr;
  Read read_;
  size_t num_got_ = 0;
  bool has_bounced_ = false;
};

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_READ_STEPS_H_
