// A cursor over untrusted bytes: every read is checked against what is left.
#ifndef THERMOCLINE_GGUF_BYTE_READER_H_
#define THERMOCLINE_GGUF_BYTE_READER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace thermocline::gguf {

static_assert(std::endian::native == std::endian::little,
              "values are copied as they are in the file: little-endian");

// Errors say what the file lacks, not where: callers annotate them with the
// field. After an error the position is unchanged.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  Result<T> Read() {
    static_assert(std::is_trivially_copyable_v<T>);
    TC_RETURN_IF_ERROR(Require(sizeof(T)));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // The next `num_bytes`, in place.
  Result<std::span<const std::byte>> ReadBytes(uint64_t num_bytes) {
    TC_RETURN_IF_ERROR(Require(num_bytes));
    auto bytes = bytes_.subspan(position_, num_bytes);
    position_ += num_bytes;
    return bytes;
  }

  // A string: u64 length, then bytes. kCorrupt past max_bytes.
  Result<std::string_view> ReadString(uint64_t max_bytes) {
    const uint64_t start = position_;
    TC_ASSIGN_OR_RETURN(const uint64_t num_bytes, Read<uint64_t>());
    if (num_bytes > max_bytes || num_bytes > remaining()) {
      const uint64_t num_left = remaining();
      position_ = start;
      if (num_bytes > max_bytes) {
        return Fail(ErrorCode::kCorrupt,
                    "a string of {} bytes; at most {} are allowed", num_bytes,
                    max_bytes);
      }
      return Truncated(num_bytes, num_left);
    }
    TC_ASSIGN_OR_RETURN(const auto bytes, ReadBytes(num_bytes));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()),
                            bytes.size());
  }

 private:
  static tl::unexpected<Error> Truncated(uint64_t num_needed,
                                         uint64_t num_left) {
    return Fail(ErrorCode::kCorrupt,
                "the file ends here: {} bytes are needed, {} are left "
                "(a truncated download?)",
                num_needed, num_left);
  }

  Status Require(uint64_t num_bytes) const {
    if (num_bytes > remaining()) return Truncated(num_bytes, remaining());
    return {};
  }

  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

}  // namespace thermocline::gguf

#endif  // THERMOCLINE_GGUF_BYTE_READER_H_
