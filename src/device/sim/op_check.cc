#include "device/sim/op_check.h"

#include <string_view>
#include <variant>

#include "tensor/dtype.h"

namespace thermocline::device {
namespace {

// Null: nothing is wrong. Else what is.
class OpChecker {
 public:
  explicit OpChecker(const RowLayout& layout) : layout_(layout) {}

  const char* operator()(const kernels::NormArgs& a) const {
    return a.n == 0 ? "n is 0" : nullptr;
  }

  const char* operator()(const kernels::GemvArgs& a) const {
    if (const char* wrong = Tokens(a.num_tokens)) return wrong;
    return Matrix(a.weights);
  }

  const char* operator()(const kernels::RopeArgs& a) const {
    if (const char* wrong = Tokens(a.num_tokens)) return wrong;
    return uint64_t{a.num_pairs} * 2 > a.head_width
               ? "num_pairs do not fit head_width"
               : nullptr;
  }

  const char* operator()(const kernels::KvAppendArgs& a) const {
    if (const char* wrong = Tokens(a.num_tokens)) return wrong;
    return Kv(a.kv);
  }

  const char* operator()(const kernels::DecodeAttentionArgs& a) const {
    if (const char* wrong = Tokens(a.num_tokens)) return wrong;
    if (const char* wrong = Kv(a.kv)) return wrong;
    if (a.num_heads == 0 || a.num_heads % a.kv.num_kv_heads != 0) {
      return "num_heads is no multiple of num_kv_heads";
    }
    if (a.max_positions == 0) return "max_positions is 0";
    const uint64_t num_pages =
        (uint64_t{a.max_positions} + kernels::kDevicePage - 1) /
        kernels::kDevicePage;
    return a.num_tokens > 1 && num_pages > a.table_stride
               ? "table_stride is less than the pages of max_positions"
               : nullptr;
  }

  const char* operator()(const kernels::ActivateArgs& a) const {
    return a.gate == nullptr && InfoOf(a.activation).needs_gate
               ? "the activation needs a gate"
               : nullptr;
  }

  const char* operator()(const kernels::AddRowsScaledArgs& a) const {
    return Tokens(a.num_tokens);
  }

  const char* operator()(const kernels::PredictArgs& a) const {
    if (const char* wrong = Tokens(a.num_tokens)) return wrong;
    if (const char* wrong = Matrix(a.up)) return wrong;
    if (const char* wrong = Matrix(a.down)) return wrong;
    return a.down.n != a.up.num_rows ? "down.n is not up.num_rows" : nullptr;
  }

  const char* operator()(const kernels::SparseFfnArgs& a) const {
    if (const char* wrong = Tokens(a.num_tokens)) return wrong;
    if (a.n == 0) return "n is 0";
    if (!a.gated && InfoOf(a.activation).needs_gate) {
      return "the activation needs a gate";
    }
    if (a.record_bytes % 16 != 0) return "record_bytes is no multiple of 16";
    if (a.gated) {
      if (const char* wrong = Row(a.gate_dtype, a.n, 0, a)) return wrong;
    }
    if (const char* wrong = Row(a.up_dtype, a.n, a.up_offset, a)) return wrong;
    return Row(a.down_dtype, a.n, a.down_offset, a);
  }

  const char* operator()(const kernels::ArgMaxArgs& a) const {
    if (const char* wrong = Tokens(a.num_tokens)) return wrong;
    return a.n == 0 ? "n is 0" : nullptr;
  }

 private:
  static const char* Tokens(uint32_t num_tokens) {
    return num_tokens == 0 || num_tokens > kernels::kDeviceRows
               ? "num_tokens is not 1 to 8"
               : nullptr;
  }

  const char* Type(DType dtype, size_t n) const {
    if (!layout_.CanCompute(dtype)) {
      return "weights are of a type that the device cannot compute";
    }
    return n % InfoOf(dtype).block_elems != 0 ? "n is no number of whole blocks"
                                              : nullptr;
  }

  const char* Matrix(const kernels::DeviceMatrix& matrix) const {
    if (!matrix || matrix.num_rows == 0 || matrix.n == 0) {
      return "a matrix is empty";
    }
    if (const char* wrong = Type(matrix.dtype, matrix.n)) return wrong;
    if (matrix.row_bytes % 16 != 0) return "row_bytes is no multiple of 16";
    return matrix.row_bytes < layout_.RowBytes(matrix.dtype, matrix.n)
               ? "row_bytes is less than a row's"
               : nullptr;
  }

  const char* Row(DType dtype, size_t n, size_t offset,
                  const kernels::SparseFfnArgs& args) const {
    if (const char* wrong = Type(dtype, n)) return wrong;
    if (offset % 16 != 0) return "a row's offset is no multiple of 16";
    const size_t num_bytes = layout_.RowBytes(dtype, n);
    return num_bytes > args.record_bytes ||
                   offset > args.record_bytes - num_bytes
               ? "a row ends behind its record"
               : nullptr;
  }

  static const char* Kv(const kernels::DeviceKv& kv) {
    if (kv.num_kv_heads == 0 || kv.k_width == 0 || kv.v_width == 0) {
      return "kv has no heads or no width";
    }
    if (kv.k_width % 8 != 0 || kv.v_width % 8 != 0 ||
        kv.k_width > kernels::kDeviceMaxWidth ||
        kv.v_width > kernels::kDeviceMaxWidth) {
      return "a width of kv is no multiple of 8 up to 256";
    }
    if (kv.page_bytes % 16 != 0 || kv.k_offset % 16 != 0 ||
        kv.v_offset % 16 != 0) {
      return "kv has an offset that is no multiple of 16";
    }
    const auto ends_behind = [&](size_t offset, size_t width) {
      const size_t num_bytes =
          width * kv.num_kv_heads * kernels::kDevicePage * sizeof(uint16_t);
      return num_bytes > kv.page_bytes || offset > kv.page_bytes - num_bytes;
    };
    return ends_behind(kv.k_offset, kv.k_width) ||
                   ends_behind(kv.v_offset, kv.v_width)
               ? "keys or values end behind their page"
               : nullptr;
  }

  const RowLayout& layout_;
};

}  // namespace

Status CheckOp(const kernels::DeviceOp& op, const RowLayout& layout) {
  const char* wrong = std::visit(OpChecker(layout), op);
  if (wrong == nullptr) return {};
  return Fail(ErrorCode::kCorrupt, "{}: {}", NameOf(op), wrong);
}

}  // namespace thermocline::device
