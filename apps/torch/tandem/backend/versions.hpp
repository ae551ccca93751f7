#pragma once

#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <string>

/// What PyTorch's C++ interface lacks in some of the versions from 2.6 on. Asked of the types,
/// since a constraint needs no list of versions.
namespace tandem::torch_backend {

/// The CUstream or hipStream_t.
template <class Stream>
void* native_handle_of(const Stream& of) {
  if constexpr (requires { of.native_handle(); }) {
    return of.native_handle();
  } else {
    TORCH_CHECK(false, "tandem: tensors on GPUs need a later version of PyTorch");
  }
}

/// Whether the caller of a collective waits for it at once.
template <class Options>
bool waits_at_once(const Options& of) {
  if constexpr (requires { of.asyncOp; }) {
    return !of.asyncOp;
  } else {
    return false;
  }
}

/// The name of the group that a split is to make.
template <class Options>
std::string group_name_of(const Options& of) {
  if constexpr (requires { of.group_name; }) {
    return of.group_name;
  } else {
    return "split";
  }
}

}  // namespace tandem::torch_backend
