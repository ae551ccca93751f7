#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <tandem.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "errors.hpp"

/// What operations do with tensors: their memory, checks of them, and how their elements are
/// combined.
namespace tandem::torch_backend {

/// The type in which elements travel and are combined. bool is 0 or 1 in a byte.
inline tandem_type type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return TANDEM_FLOAT32;
    case at::kDouble:
      return TANDEM_FLOAT64;
    case at::kInt:
      return TANDEM_INT32;
    case at::kLong:
      return TANDEM_INT64;
    case at::kChar:
      return TANDEM_INT8;
    case at::kShort:
      return TANDEM_INT16;
    case at::kByte:
    case at::kBool:
      return TANDEM_UINT8;
    case at::kUInt16:
      return TANDEM_UINT16;
    case at::kUInt32:
      return TANDEM_UINT32;
    case at::kUInt64:
      return TANDEM_UINT64;
    case at::kHalf:
      return TANDEM_FLOAT16;
    case at::kBFloat16:
      return TANDEM_BFLOAT16;
    case at::kFloat8_e4m3fn:
      return TANDEM_FLOAT8_E4M3;
    case at::kFloat8_e5m2:
      return TANDEM_FLOAT8_E5M2;
    default:
      TORCH_CHECK_TYPE(false, "tandem: tensors of type ", type, " cannot be reduced");
  }
}

inline void check_tensor(const char* call, const Tensor& t) {
  TORCH_CHECK_VALUE(t.defined(), "tandem: ", call, ": a tensor is undefined");
  TORCH_CHECK_VALUE(t.layout() == at::kStrided, "tandem: ", call, ": the tensor's layout is ",
                    t.layout(), "; pass a dense tensor");
  TORCH_CHECK_VALUE(t.is_cpu() || t.is_cuda(), "tandem: ", call, ": the tensor is on ", t.device(),
                    "; move it to the CPU or to a GPU of NVIDIA or AMD");
}

inline const Tensor& only_one(const char* call, const tensors& all) {
  TORCH_CHECK_VALUE(all.size() == 1, "tandem: ", call, ": ", all.size(), " tensors, expected one");
  check_tensor(call, all.front());
  return all.front();
}

inline void check_same_type(const char* call, const Tensor& one, const Tensor& other) {
  TORCH_CHECK_VALUE(one.scalar_type() == other.scalar_type(), "tandem: ", call,
                    ": tensors of types ", one.scalar_type(), " and ", other.scalar_type());
}

/// Whether its elements lie one after the other in memory, as they are.
inline bool is_dense(const Tensor& t) {
  return t.is_contiguous() && !t.is_conj() && !t.is_neg();
}

/// A tensor of the same elements for which that is so: itself, or a copy.
inline Tensor dense(const Tensor& t) {
  return is_dense(t) ? t : t.resolve_conj().resolve_neg().contiguous();
}

/// PyTorch for ROCm calls AMD's GPUs "cuda".
#ifdef TANDEM_TORCH_HIP
constexpr tandem_memory_kind gpu_memory = TANDEM_HIP;
#else
constexpr tandem_memory_kind gpu_memory = TANDEM_CUDA;
#endif

inline tandem_buffer buffer_of(const Tensor& t) {
  if (t.is_cpu()) return {t.data_ptr(), t.nbytes(), TANDEM_HOST, 0};
  return {t.data_ptr(), t.nbytes(), gpu_memory, t.get_device()};
}

/// The stream of the calling thread on that device.
inline c10::Stream current_stream(c10::Device of) {
  return c10::impl::VirtualGuardImpl(of.type()).getStream(of);
}

inline std::size_t bytes_of(std::int64_t elements, const Tensor& like) {
  return static_cast<std::size_t>(elements) * like.element_size();
}

/// Whether all tensors follow each other in memory, so that they are one buffer.
inline bool are_consecutive(const tensors& all) {
  const char* expected = static_cast<const char*>(all.front().data_ptr());
  for (const Tensor& t : all) {
    if (!is_dense(t) || t.data_ptr() != expected) return false;
    expected += t.nbytes();
  }
  return true;
}

inline bool are_equally_long(const tensors& all) {
  return std::all_of(all.begin(), all.end(),
                     [&](const Tensor& t) { return t.numel() == all.front().numel(); });
}

inline std::vector<std::size_t> lengths_of(const tensors& all) {
  std::vector<std::size_t> bytes;
  for (const Tensor& t : all) bytes.push_back(t.nbytes());
  return bytes;
}

/// One buffer for a list of tensors: their own memory if they follow each other there.
inline Tensor joined_memory(const tensors& all) {
  const Tensor& first = all.front();
  std::int64_t elements = 0;
  for (const Tensor& t : all) elements += t.numel();
  if (are_consecutive(all)) {
    return at::from_blob(
        first.data_ptr(), {elements}, [keep = all](void*) {}, first.options());
  }
  return at::empty({elements}, first.options());
}

inline Tensor joined(const tensors& all) {
  const Tensor into = joined_memory(all);
  if (into.data_ptr() == all.front().data_ptr()) return into;
  std::int64_t at = 0;
  for (const Tensor& t : all) {
    into.narrow(0, at, t.numel()).copy_(t.reshape({-1}));
    at += t.numel();
  }
  return into;
}

inline void distribute(const Tensor& from, const tensors& all) {
  if (!all.empty() && from.data_ptr() == all.front().data_ptr() && are_consecutive(all)) return;
  std::int64_t at = 0;
  for (const Tensor& t : all) {
    t.copy_(from.narrow(0, at, t.numel()).view(t.sizes()));
    at += t.numel();
  }
}

/// How elements of a tensor are combined. Complex numbers are pairs of real ones; the sum of bools
/// is "or", as in NCCL.
inline tandem_reduction reduction_of(const c10d::ReduceOp& op, const Tensor& like) {
  using ops = c10d::ReduceOp;
  const bool is_bool = like.scalar_type() == at::kBool;
  const bool is_complex = like.is_complex();
  const at::ScalarType type =
      is_complex ? c10::toRealValueType(like.scalar_type()) : like.scalar_type();
  tandem_reduction how{type_of(type), TANDEM_SUM, 1};
  switch (op.op_) {
    case ops::SUM:
      how.op = is_bool ? TANDEM_MAXIMUM : TANDEM_SUM;
      break;
    case ops::AVG:
      TORCH_CHECK_TYPE(!is_bool, "tandem: bool tensors have no average");
      how.op = TANDEM_AVERAGE;
      break;
    case ops::PRODUCT:
      how.op = is_bool ? TANDEM_MINIMUM : TANDEM_PRODUCT;
      break;
    case ops::MIN:
      how.op = TANDEM_MINIMUM;
      break;
    case ops::MAX:
      how.op = TANDEM_MAXIMUM;
      break;
    case ops::BAND:
      how.op = TANDEM_BAND;
      break;
    case ops::BOR:
      how.op = TANDEM_BOR;
      break;
    case ops::BXOR:
      how.op = TANDEM_BXOR;
      break;
    case ops::PREMUL_SUM: {
      const auto* scale = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
      TORCH_CHECK_VALUE(scale != nullptr, "tandem: PREMUL_SUM without a factor");
      how.op = TANDEM_PREMULTIPLIED_SUM;
      how.factor = scale->tensor_factor.defined() ? scale->tensor_factor.item<double>()
                                                  : scale->double_factor;
      break;
    }
    default:
      TORCH_CHECK_VALUE(false, "tandem: unknown reduction ", static_cast<int>(op.op_));
  }
  const bool has_parts =
      how.op == TANDEM_SUM || how.op == TANDEM_AVERAGE || how.op == TANDEM_PREMULTIPLIED_SUM;
  TORCH_CHECK_TYPE(!is_complex || has_parts, "tandem: complex numbers have sums and averages only");
  return how;
}

}  // namespace tandem::torch_backend
