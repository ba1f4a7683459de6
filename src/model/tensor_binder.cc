#include "model/tensor_binder.h"

#include "base/check.h"
#include "base/quote.h"
#include "tensor/dtype.h"

namespace thermocline::model {
namespace {

// Tables of inverse frequencies that old converters copied along; the angles
// are computed from the metadata.
bool IsHarmless(std::string_view name) {
  return name == "rope.freqs" ||
         (name.starts_with("blk.") && name.ends_with(".attn_rot_embd.weight"));
}

Shape MakeShape(size_t columns, size_t rows, size_t count, int rank) {
  return {{columns, rows, count, 1}, rank};
}

}  // namespace

Result<TensorView> TensorBinder::Take(const std::string& name,
                                      const Shape& expected, Need need,
                                      std::optional<DType> data) {
  if (need == Need::kForbidden) return TensorView();
  const gguf::TensorInfo* info = file_.FindTensor(name);
  if (info == nullptr) {
    if (need == Need::kOptional) return TensorView();
    return Fail(ErrorCode::kCorrupt, "{}: tensor \"{}\" is missing",
                file_.path(), name);
  }
  // Trailing extents of 1 do not matter, so the rank does not.
  if (info->shape.ne != expected.ne) {
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor {} has the shape {}; the metadata say {}",
                file_.path(), Quote(name), ToString(info->shape),
                ToString(expected));
  }
  if (data && info->dtype != *data) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor {} is {}; it must be {}",
                file_.path(), Quote(name), NameOf(info->dtype), NameOf(*data));
  }
  if (!data && !InfoOf(info->dtype).can_compute) {
    return Fail(ErrorCode::kUnsupported,
                "{}: tensor {} is {}, which this version cannot compute with",
                file_.path(), Quote(name), NameOf(info->dtype));
  }
  is_taken_[static_cast<size_t>(info - file_.tensors().data())] = true;
  return TensorView{info->dtype, info->shape, info->data};
}

Result<TensorView> TensorBinder::TakeVector(const std::string& name,
                                            size_t length, Need need) {
  TC_ASSIGN_OR_RETURN(const TensorView view,
                      Take(name, MakeShape(length, 1, 1, 1), need));
  if (view && view.dtype != DType::kF32) {
    return Fail(ErrorCode::kUnsupported,
                "{}: tensor {} is {}; norms, biases and RoPE factors must be "
                "F32",
                file_.path(), Quote(name), NameOf(view.dtype));
  }
  return view;
}

Result<TensorView> TensorBinder::TakeMatrix(const std::string& name,
                                            size_t num_rows, size_t num_columns,
                                            Need need) {
  return Take(name, MakeShape(num_columns, num_rows, 1, 2), need);
}

Result<TensorView> TensorBinder::TakeData(const std::string& name, DType dtype,
                                          size_t num_rows, size_t num_columns,
                                          Need need) {
  return Take(name, MakeShape(num_columns, num_rows, 1, 2), need, dtype);
}

Result<std::vector<TensorView>> TensorBinder::TakeStack(const std::string& name,
                                                        size_t count,
                                                        size_t num_rows,
                                                        size_t num_columns) {
  TC_ASSIGN_OR_RETURN(
      const TensorView stack,
      Take(name, MakeShape(num_columns, num_rows, count, 3), Need::kRequired));
  std::vector<TensorView> matrices;
  for (size_t i = 0; i < count; ++i) {
    matrices.push_back(SliceRows(stack, i * num_rows, num_rows));
  }
  return matrices;
}

Status TensorBinder::CheckAllTaken(std::string_view architecture) const {
  for (size_t i = 0; i < is_taken_.size(); ++i) {
    const std::string& name = file_.tensors()[i].name;
    if (is_taken_[i] || IsHarmless(name)) continue;
    return Fail(ErrorCode::kUnsupported,
                "{}: tensor {} is unknown to the architecture \"{}\"; without "
                "it the result would be another",
                file_.path(), Quote(name), architecture);
  }
  return {};
}

TensorView SliceRows(const TensorView& view, size_t first, size_t count) {
  if (!view) return view;
  TC_CHECK(first <= view.shape.num_rows() &&
           count <= view.shape.num_rows() - first);
  return {view.dtype,
          {{view.shape.ne[0], count, 1, 1}, 2},
          view.data_from(first * view.row_stride()),
          view.stride_bytes};
}

TensorView SliceVector(const TensorView& view, size_t first, size_t count) {
  if (!view) return view;
  TC_CHECK(view.dtype == DType::kF32 && first <= view.shape.ne[0] &&
           count <= view.shape.ne[0] - first);
  return {
      view.dtype, {{count, 1, 1, 1}, 1}, view.data_from(first * sizeof(float))};
}

}  // namespace thermocline::model
