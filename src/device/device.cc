#include "device/device.h"

namespace thermocline::device {

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (data_ != nullptr) device_->Free(kind_, data_, size_);
  device_ = std::exchange(other.device_, nullptr);
  kind_ = other.kind_;
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) device_->Free(kind_, data_, size_);
}

}  // namespace thermocline::device
