#include "storage/read_steps.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/math.h"

namespace thermocline::storage {
namespace {

// The kernel reads at most 2 GiB less a page at once.
constexpr size_t kCallBytesMax = size_t{1} << 30;

}  // namespace

bool ReadSteps::wants_bounce() const {
  const auto address = reinterpret_cast<uintptr_t>(read_.to + num_got_);
  if (position() % file_->offset_alignment != 0 ||
      address % file_->memory_alignment != 0) {
    return true;
  }
  // A long read that ends oddly bounces its end alone, a short one as a whole:
  // one call less.
  return num_left() % file_->offset_alignment != 0 && num_left() < kBounceBytes;
}

ReadSteps::Call ReadSteps::Next(std::byte* bounce) {
  TC_DCHECK(!is_over());
  const uint64_t alignment = file_->offset_alignment;
  if (!wants_bounce()) {
    const size_t whole = num_left() / alignment * alignment;
    return {position(), std::min(whole, kCallBytesMax), read_.to + num_got_};
  }
  TC_CHECK(bounce != nullptr);
  has_bounced_ = true;
  const uint64_t begin = position() / alignment * alignment;
  const uint64_t end = RoundUp<uint64_t>(position() + num_left(), alignment);
  return {begin, std::min<size_t>(end - begin, kBounceBytes), bounce};
}

bool ReadSteps::Take(const Call& call, size_t num_bytes) {
  if (call.to == read_.to + num_got_) {
    num_got_ += num_bytes;
    return num_bytes > 0;
  }
  const size_t skipped = position() - call.offset;
  if (num_bytes <= skipped) return false;
  const size_t num = std::min(num_bytes - skipped, num_left());
  std::memcpy(read_.to + num_got_, call.to + skipped, num);
  num_got_ += num;
  return true;
}

}  // namespace thermocline::storage
