#pragma once

#include <cstddef>
#include <string>
#include <tandem/detail/nccl.hpp>
#include <tandem/memory.hpp>

#include "abi.hpp"

namespace tandem::nccl_abi {

/// The vendor's own library, which carries out calls inside an island: functions that
/// `detail::nccl` does not have. Null where that version does not.
struct vendor_library {
  const detail::nccl* base = nullptr;  ///< null: no library here, or too old
  std::string text;                    ///< its path, or why there is none

  detail::nc::result (*finalize)(detail::nc::comm which) = nullptr;
  detail::nc::result (*register_buffer)(detail::nc::comm of, void* from, std::size_t bytes,
                                        void** into) = nullptr;
  detail::nc::result (*deregister)(detail::nc::comm of, void* handle) = nullptr;
  detail::nc::result (*register_window)(detail::nc::comm of, void* from, std::size_t bytes,
                                        window* into, int flags) = nullptr;
  detail::nc::result (*deregister_window)(detail::nc::comm of, window which) = nullptr;
  detail::nc::result (*allocate)(void** into, std::size_t bytes) = nullptr;
  detail::nc::result (*free)(void* which) = nullptr;
};

/// Found on the first call: the file that TANDEM_VENDOR_NCCL names, else one beside PyTorch's
/// libraries, in LD_LIBRARY_PATH, or in the usual folders, never this library itself, which has the
/// same name. Any thread.
const vendor_library& vendor_library_of(memory_kind kind);
/// Null before that, and where there is none: a program that asks for the version at its start may
/// fork later, and must find no device in use.
const vendor_library* find_opened_library() noexcept;

}  // namespace tandem::nccl_abi
