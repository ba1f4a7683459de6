// Takes tensors out of a file by name, checking what each role expects.
#ifndef THERMOCLINE_MODEL_TENSOR_BINDER_H_
#define THERMOCLINE_MODEL_TENSOR_BINDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "tensor/tensor_view.h"

namespace thermocline::model {

enum class Need {
  kRequired,
  kOptional,
  kForbidden,  // if it is there, CheckAllTaken says so
};

// Remembers what was taken. Views point into the file, which outlives them.
// kCorrupt: missing, another shape. kUnsupported: a type without kernels, a
// vector that is not F32. Messages name file and tensor.
class TensorBinder {
 public:
  explicit TensorBinder(const gguf::File& file)
      : file_(file), is_taken_(file.tensors().size()) {}

  const gguf::File& file() const { return file_; }
  bool Has(const std::string& name) const {
    return file_.FindTensor(name) != nullptr;
  }

  // Empty views for what is absent and not required.
  Result<TensorView> TakeVector(const std::string& name, size_t length,
                                Need need);
  Result<TensorView> TakeMatrix(const std::string& name, size_t num_rows,
                                size_t num_columns, Need need);
  // `count` matrices in one tensor of three dimensions.
  Result<std::vector<TensorView>> TakeStack(const std::string& name,
                                            size_t count, size_t num_rows,
                                            size_t num_columns);

  // Numbers that are no weights: kCorrupt if they are not of this type too.
  Result<TensorView> TakeData(const std::string& name, DType dtype,
                              size_t num_rows, size_t num_columns, Need need);

  // kUnsupported when a tensor is left that nobody took; `architecture` is for
  // the message.
  Status CheckAllTaken(std::string_view architecture) const;

 private:
  Result<TensorView> Take(const std::string& name, const Shape& expected,
                          Need need, std::optional<DType> data = std::nullopt);

  const gguf::File& file_;
  std::vector<bool> is_taken_;  // by position in file_.tensors()
};

// Rows [first, first + count) of a matrix, or elements of a vector; `view`
// may be empty. They must be in range. (CHECKed)
TensorView SliceRows(const TensorView& view, size_t first, size_t count);
TensorView SliceVector(const TensorView& view, size_t first, size_t count);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_TENSOR_BINDER_H_
