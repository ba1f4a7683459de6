// What tests of devices share: memory that is filled and read back, rows of
// weights, distances.
#ifndef THERMOCLINE_DEVICE_TESTING_H_
#define THERMOCLINE_DEVICE_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "kernels/testing.h"
#include "tensor/codec.h"

namespace thermocline::device {

// A device to be tested: the suites of test_contract*.h run for each.
struct DeviceMaker {
  std::string name;  // letters and digits
  std::function<std::unique_ptr<Device>()> make;
  // Of 1 to 8 rows every so many are tried: 5 where operations are slow.
  uint32_t token_step = 1;
};

// A number that the environment may set, so that a test is short but where it
// is wanted long.
inline uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

inline void ExpectOk(const Status& status) {
  EXPECT_TRUE(status.has_value()) << status.error().message;
}

// A device, a stream of it, and buffers that live as long as it.
class OnDevice {
 public:
  explicit OnDevice(std::unique_ptr<Device> device)
      : device_(std::move(device)),
        stream_(*device_->MakeStream(Priority::kNormal)) {}

  Device& device() { return *device_; }
  Stream stream() const { return stream_; }

  // So many T, not initialised; at least one.
  template <typename T>
  T* Room(size_t count, MemoryKind kind = MemoryKind::kDevice) {
    auto buffer = device_->Allocate((count == 0 ? 1 : count) * sizeof(T), kind,
                                    "a test's memory");
    if (!buffer.has_value()) {
      ADD_FAILURE() << buffer.error().message;
      return nullptr;
    }
    buffers_.push_back(std::move(*buffer));
    return reinterpret_cast<T*>(buffers_.back().data());
  }

  // The values there.
  template <typename T>
  T* Put(const std::vector<T>& values) {
    T* to = Room<T>(values.size());
    Write(to, values);
    return to;
  }

  template <typename T>
  void Write(T* to, const std::vector<T>& values) {
    ExpectOk(
        device_->Copy(stream_, to, values.data(), values.size() * sizeof(T)));
    ExpectOk(device_->Synchronize(stream_));
  }

  template <typename T>
  std::vector<T> Get(const T* from, size_t count) {
    std::vector<T> values(count);
    ExpectOk(device_->Copy(stream_, values.data(), from, count * sizeof(T)));
    ExpectOk(device_->Synchronize(stream_));
    return values;
  }

  // All that Room and Put gave.
  void FreeAll() { buffers_.clear(); }

  void Run(const kernels::DeviceOp& op) {
    ExpectOk(device_->Run(stream_, op));
    ExpectOk(device_->Synchronize(stream_));
  }

  // Rows as the device keeps them.
  kernels::DeviceMatrix PutMatrix(DType dtype, const kernels::WeightRows& rows,
                                  size_t num_rows, size_t n) {
    const size_t row_bytes = device_->layout().RowBytes(dtype, n);
    std::vector<std::byte> packed(num_rows * row_bytes);
    for (size_t r = 0; r < num_rows; ++r) {
      device_->layout().Pack(dtype, rows.row(r), n,
                             packed.data() + r * row_bytes);
    }
    return {.rows = Put(packed),
            .row_bytes = row_bytes,
            .dtype = dtype,
            .num_rows = static_cast<uint32_t>(num_rows),
            .n = static_cast<uint32_t>(n)};
  }

 private:
  std::unique_ptr<Device> device_;
  Stream stream_;
  std::vector<Buffer> buffers_;  // freed before the device
};

// Types of weights that the device computes.
inline std::vector<DType> TypesOf(const Device& device) {
  std::vector<DType> types;
  for (const DType dtype : kernels::AllTypes()) {
    if (device.layout().CanCompute(dtype)) types.push_back(dtype);
  }
  return types;
}

// About so many elements, odd where the type can have that.
inline size_t WidthOf(DType dtype, size_t about) {
  const size_t block = InfoOf(dtype).block_elems;
  if (block == 1) return about | 1;
  return (about + block - 1) / block * block;
}

inline std::vector<float> RowValues(DType dtype, const std::byte* row,
                                    size_t n) {
  std::vector<float> values(n);
  DequantizeRow(dtype, row, values);
  return values;
}

// x [T, n] as products with the type of weights see it: rounded to 8 bits per
// 32 elements for those in blocks.
inline std::vector<double> SeenBy(DType dtype, const std::vector<float>& x,
                                  size_t num_tokens, size_t n) {
  std::vector<double> seen(x.begin(), x.end());
  if (IsFloat(dtype)) return seen;
  const kernels::ActivationRows rows(x, num_tokens, n);
  for (size_t i = 0; i < num_tokens * n; ++i) {
    const kernels::ActivationRow row = rows.row(i / n, n);
    seen[i] = static_cast<double>(row.d[i % n / 32]) * row.q[i % n];
  }
  return seen;
}

inline double DotOf(const std::vector<float>& row, const double* x) {
  double sum = 0.0;
  for (size_t i = 0; i < row.size(); ++i) sum += row[i] * x[i];
  return sum;
}

// Normalised mean square error; what should be zeros is compared with 1.
template <typename Got>
double Nmse(const std::vector<Got>& got, const std::vector<double>& want) {
  double error = 0.0, power = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    error += d * d;
    power += want[i] * want[i];
  }
  return power > 0.0 ? error / power : error;
}

// In double: f of tensor/op_kinds.h.
inline double ActivationOf(Activation activation, double threshold, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x *
             (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::kFatRelu:
      return x < threshold ? 0.0 : x;
    case Activation::kRelu:
    case Activation::kDRelu:
      return x < 0.0 ? 0.0 : x;
    case Activation::kRelu2:
      return x < 0.0 ? 0.0 : x * x;
  }
  return x;
}

// f(gate) * up, as ActivateArgs.
inline double GatedOf(Activation activation, double threshold, double gate,
                      double up) {
  if (activation == Activation::kDRelu && up < 0.0) up = 0.0;
  return ActivationOf(activation, threshold, gate) * up;
}

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_TESTING_H_
