// What tests of readers share: files of random bytes, and readers of them.
#ifndef THERMOCLINE_STORAGE_TEST_READER_H_
#define THERMOCLINE_STORAGE_TEST_READER_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "storage/block_reader.h"

namespace thermocline::storage {

inline std::vector<std::byte> RandomBytes(size_t num_bytes, uint64_t seed) {
  std::vector<std::byte> bytes(num_bytes);
  Random random(seed);
  for (size_t i = 0; i < num_bytes; i += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(bytes.data() + i, &word, std::min(sizeof(word), num_bytes - i));
  }
  return bytes;
}

inline void WriteBytes(const std::string& path,
                       std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// Reaps until nothing is left.
inline std::vector<Done> ReapAll(BlockReader& reader, size_t at_once = 7) {
  std::vector<Done> all, some(at_once);
  while (const size_t num = reader.Reap(some, true)) {
    std::move(some.begin(), some.begin() + static_cast<ptrdiff_t>(num),
              std::back_inserter(all));
  }
  return all;
}

// One read, to its end.
inline Status ReadNow(BlockReader& reader, const Read& read) {
  reader.Submit({&read, 1});
  std::vector<Done> done = ReapAll(reader);
  EXPECT_EQ(done.size(), 1u);
  return done.empty() ? Status() : done[0].status;
}

// Memory to read to, with bytes around it that nobody may touch.
class GuardedMemory {
 public:
  // `odd`: how far behind a multiple of 4096 it begins.
  explicit GuardedMemory(size_t num_bytes, size_t odd = 0)
      : num_bytes_(num_bytes), bytes_(num_bytes + 2 * kAround, kUntouched) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    begin_ = 4096 - address % 4096 + odd;
  }

  std::byte* data() { return bytes_.data() + begin_; }
  std::span<const std::byte> bytes() const {
    return std::span(bytes_).subspan(begin_, num_bytes_);
  }
  bool IsUntouchedAround() const {
    static const std::vector<std::byte> untouched(2 * kAround, kUntouched);
    const size_t behind = begin_ + num_bytes_;
    return std::memcmp(bytes_.data(), untouched.data(), begin_) == 0 &&
           std::memcmp(bytes_.data() + behind, untouched.data(),
                       bytes_.size() - behind) == 0;
  }

 private:
  static constexpr size_t kAround = 8192 + 512;
  static constexpr std::byte kUntouched{0x5c};

  size_t num_bytes_;
  size_t begin_;
  std::vector<std::byte> bytes_;
};

}  // namespace thermocline::storage

#endif  // THERMOCLINE_STORAGE_TEST_READER_H_
