// A processor with memory of its own: a GPU, or a simulated one. The host's own
// path is no device.
#ifndef THERMOCLINE_DEVICE_DEVICE_H_
#define THERMOCLINE_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "kernels/device_ops.h"
#include "tensor/dtype.h"

namespace thermocline::device {

// Where memory lies.
enum class MemoryKind : uint8_t {
  kDevice,  // the device's own: only copies and operations reach it
  kPinned,  // the host's, locked: the host reads and writes it, the device
            // copies it at full speed and reads it in operations
};

struct DeviceInfo {
  std::string id;    // "cuda0", "sim0": what --device takes
  std::string name;  // "NVIDIA GeForce RTX 4090"
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;   // when it was asked; the driver's own are gone
  int major = 0, minor = 0;  // compute capability; 0: none
  bool is_simulated = false;
};

// How the device keeps a row of weights. Rows of a type that CanCompute lacks
// cannot be put there.
class RowLayout {
 public:
  virtual ~RowLayout() = default;
  virtual bool CanCompute(DType dtype) const = 0;
  // Of n elements, whole blocks; a multiple of 16. At most 15 bytes more than
  // in a file.
  virtual size_t RowBytes(DType dtype, size_t n) const = 0;
  // From a file's row to RowBytes() of host memory, to be copied over.
  virtual void Pack(DType dtype, const std::byte* row, size_t n,
                    std::byte* out) const = 0;
};

class Device;

// Memory of a device; freed with the object, which the device outlives.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* device, MemoryKind kind, std::byte* data, size_t size)
      : device_(device), kind_(kind), data_(data), size_(size) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  // Pinned: the host's address and the device's, which are the same.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  MemoryKind kind() const { return kind_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  Device* device_ = nullptr;
  MemoryKind kind_ = MemoryKind::kDevice;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Handles of what a device owns; they live as long as it does.
enum class Stream : uint32_t {};
enum class Event : uint32_t {};
enum class Graph : uint32_t {};

// How urgent the work of a stream is where the device can choose.
enum class Priority : uint8_t { kNormal, kHigh };

// Work is enqueued to streams, each in its own order, and goes on beside the
// host. What is enqueued keeps its arguments' values, not what they point at.
// Threads  one at a time, but for Synchronize and IsReached, which any may call
//          beside another one's other calls.
// Errors   kIo "device lost", sticky: every call from then on fails with it,
//          and nothing that was not synchronised before can be trusted.
//          kCorrupt: an operation was given what it must not be given (found by
//          the driver). Enqueuing may report what earlier work did.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // With what is free now.
  virtual Result<DeviceInfo> Info() const = 0;
  virtual const RowLayout& layout() const = 0;

  // `what` is named in errors: "layer 3's records". kResourceExhausted, with
  // what was asked for and what is free. At a multiple of 256 bytes.
  virtual Result<Buffer> Allocate(size_t num_bytes, MemoryKind kind,
                                  std::string_view what) = 0;
  // Bytes of all buffers that live, and the most that ever did, of a kind.
  virtual uint64_t allocated_bytes(MemoryKind kind) const = 0;
  virtual uint64_t peak_bytes(MemoryKind kind) const = 0;

  virtual Result<Stream> MakeStream(Priority priority) = 0;
  virtual Result<Event> MakeEvent() = 0;

  // Between memory of any kind, in a stream's order. Memory of the host that is
  // not pinned is allowed and slower: the call may wait.
  virtual Status Copy(Stream stream, void* to, const void* from,
                      size_t num_bytes) = 0;
  virtual Status Fill(Stream stream, void* to, uint8_t value,
                      size_t num_bytes) = 0;
  virtual Status Run(Stream stream, const kernels::DeviceOp& op) = 0;
  // The event is reached when all that is in the stream now is done; work that
  // is enqueued into `stream` from now on begins after the event is reached.
  // One that was never recorded is reached.
  virtual Status Record(Stream stream, Event event) = 0;
  virtual Status Wait(Stream stream, Event event) = 0;

  // What is enqueued into `stream` between the two is not done but becomes a
  // graph, which Launch enqueues as a whole, as often as wanted. Events and
  // other graphs are no part of one: kInvalidArgument.
  virtual Status BeginGraph(Stream stream) = 0;
  virtual Result<Graph> EndGraph(Stream stream) = 0;
  virtual Status Launch(Stream stream, Graph graph) = 0;

  // Blocks the host until the event is reached, or all of the stream is done.
  virtual Status Synchronize(Event event) = 0;
  virtual Status Synchronize(Stream stream) = 0;
  virtual Result<bool> IsReached(Event event) = 0;

 protected:
  Device() = default;

 private:
  friend class Buffer;
  virtual void Free(MemoryKind kind, std::byte* data, size_t num_bytes) = 0;
};

inline Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (data_ != nullptr) device_->Free(kind_, data_, size_);
  device_ = std::exchange(other.device_, nullptr);
  kind_ = other.kind_;
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

inline Buffer::~Buffer() {
  if (data_ != nullptr) device_->Free(kind_, data_, size_);
}

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_DEVICE_H_
