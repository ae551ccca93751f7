#pragma once

#include <cstdint>
#include <string>
#include <tandem/detail/ibverbs.hpp>
#include <tandem/memory.hpp>
#include <vector>

#include "transports/rails/verbs/registration_method.hpp"

namespace tandem::verbs {

/// Inline data requested for queue pairs: records up to here are sent inline where the NIC can.
inline constexpr std::uint32_t requested_inline_bytes = 256;

/// A capability that a device may have, and the result of probing it.
struct capability {
  bool has = false;
  std::string what;  ///< "dma-buf", "immediate data"
  std::string how;   ///< how much, or why not: "up to 400 bytes", "ibv_reg_dmabuf_mr: ..."
};

/// Capabilities of a device that its attributes do not show, found by probing: the device is
/// opened, gets a queue pair and a page of memory, and is closed again. Some milliseconds.
///
/// - messages: the maximum size;
/// - immediate data: a reliable queue pair can be created, all of which carry it (InfiniBand
///   specification 1.4, 9.2.6);
/// - inline sending: bytes that a work request may hold itself;
/// - relaxed ordering: the flag is accepted for a registration. Since Linux 5.6 a driver that does
///   not know it may ignore it, so this is no guarantee;
/// - dma-buf: probed with an invalid descriptor, as UCX does (`uct_ib_md_check_dmabuf`): EBADF
///   shows that descriptors are supported, EOPNOTSUPP and EPROTONOSUPPORT that the driver or the
///   kernel does not support them.
std::vector<capability> probe(const detail::ibverbs& driver, const std::string& device,
                              std::uint64_t max_message_bytes);

/// Registers an invalid descriptor. @return the errno; `EBADF`: the device supports dma-buf.
/// @pre `driver` has reg_dmabuf_mr
int try_dmabuf(const detail::ibverbs& driver, ibv_pd* domain);

/// How an open device registers memory of this kind.
/// @param is_exported   the memory's own driver has exported a descriptor of it
/// @param dmabuf_probe  the result of `try_dmabuf`; -1: not yet probed
registration_choice find_registration_method(const detail::ibverbs& driver, ibv_pd* domain,
                                             memory_kind kind, bool is_exported, int& dmabuf_probe);

/// How a device would register memory of this kind, found by probing. Opens and closes it.
registration_choice probe_registration(const detail::ibverbs& driver, const std::string& device,
                                       memory_kind kind, bool is_exported);

/// "messages up to 8 MiB"; "no dma-buf: ...".
std::string describe(const capability& one);

}  // namespace tandem::verbs
