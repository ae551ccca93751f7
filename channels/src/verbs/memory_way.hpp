#pragma once

#include <cstdint>
#include <string>
#include <tandem/memory.hpp>
#include <tandem/region.hpp>

namespace tandem::verbs {

/// How a device gets at memory that it is to read and write by itself.
enum class memory_way : std::uint8_t {
  plain,        ///< by its address: the kernel knows its pages
  dmabuf,       ///< by the descriptor under which its own driver has exported it
  peer_module,  ///< by its address, which a module of the GPU's driver explains to the kernel
  none          ///< not at all: it goes through host memory
};

/// What is known of the memory, the library, the device and the kernel.
struct memory_facts {
  memory_kind kind = memory_kind::host;
  bool is_exported = false;         ///< there is a descriptor
  bool library_has_dmabuf = false;  ///< rdma-core 34 or newer
  /// What the device said to a descriptor that is none. EBADF: it takes them.
  int dmabuf_probe = 0;
  std::string peer_module;  ///< "nvidia_peermem"; empty: none is loaded
};

struct memory_choice {
  memory_way how = memory_way::none;
  std::string why;  ///< "registered cuda memory by its dma-buf", or why not and what to do
};

/// The way that needs the least of the machine: no module where a descriptor does.
memory_choice choose_memory_way(const memory_facts& of);

/// The loaded module that explains this kind of memory to RDMA devices, by what the kernel shows
/// below `root`.
std::string find_peer_module(memory_kind kind, const std::string& root = {});

}  // namespace tandem::verbs
