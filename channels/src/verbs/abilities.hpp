#pragma once

#include <cstdint>
#include <string>
#include <tandem/detail/ibverbs.hpp>
#include <tandem/memory.hpp>
#include <vector>

#include "verbs/memory_way.hpp"

namespace tandem::verbs {

/// Up to here the NIC takes a short record out of the request itself, where it can.
inline constexpr std::uint32_t inline_wish_bytes = 256;

/// Something that a device may be able to do, and how it answered when it was asked.
struct ability {
  bool has = false;
  std::string what;  ///< "dma-buf", "immediate data"
  std::string how;   ///< how much, or why not: "up to 400 bytes", "ibv_reg_dmabuf_mr: ..."
};

/// What a device can do beyond what its attributes say, found out by trying: it is opened, gets a
/// queue pair and a page of memory, and is closed again. Some milliseconds.
///
/// - messages: the longest one;
/// - immediate data: a reliable queue pair can be made, all of which carry it (InfiniBand
///   specification 1.4, 9.2.6);
/// - inline sending: bytes that a request may hold itself;
/// - relaxed ordering: the flag is taken for a registration. Since Linux 5.6 a driver that does not
///   know it may ignore it, so this is no promise;
/// - dma-buf: as UCX asks (`uct_ib_md_check_dmabuf`), by a descriptor that is none: EBADF says that
///   somebody looked at it, EOPNOTSUPP and EPROTONOSUPPORT that the driver or the kernel does not.
std::vector<ability> probe(const detail::ibverbs& driver, const std::string& device,
                           std::uint64_t max_message_bytes);

/// What a device says to a descriptor that is none. @return an errno; `EBADF`: it knows what one
/// is.
/// @pre `driver` has reg_dmabuf_mr
int try_dmabuf(const detail::ibverbs& driver, ibv_pd* domain);

/// How an open device gets at memory of this kind.
/// @param is_exported   the memory's own driver gives a descriptor of it
/// @param dmabuf_probe  what `try_dmabuf` has said; -1: not yet asked
memory_choice find_memory_way(const detail::ibverbs& driver, ibv_pd* domain, memory_kind kind,
                              bool is_exported, int& dmabuf_probe);

/// How a device would get at memory of this kind, found out by trying. Opens and closes it.
memory_choice probe_memory(const detail::ibverbs& driver, const std::string& device,
                           memory_kind kind, bool is_exported);

/// "messages up to 8 MiB"; "no dma-buf: ...".
std::string describe(const ability& one);

}  // namespace tandem::verbs
