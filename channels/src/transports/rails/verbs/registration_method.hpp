#pragma once

#include <cstdint>
#include <string>
#include <tandem/memory.hpp>

namespace tandem::verbs {

/// How memory is registered with a device for RDMA.
enum class registration_method : std::uint8_t {
  plain,        ///< by address: host memory
  dmabuf,       ///< by the dma-buf descriptor that its own driver has exported
  peer_module,  ///< by address, through a peer memory module of the GPU's driver
  none          ///< not possible: payloads go through host memory
};

/// What the method depends on: the memory, the library, the device and the kernel.
struct registration_facts {
  memory_kind kind = memory_kind::host;
  bool is_exported = false;         ///< there is a descriptor
  bool library_has_dmabuf = false;  ///< rdma-core 34 or newer
  /// The errno for an invalid descriptor. EBADF: the device supports dma-buf.
  int dmabuf_probe = 0;
  std::string peer_module;  ///< "nvidia_peermem"; empty: none is loaded
};

struct registration_choice {
  registration_method how = registration_method::none;
  std::string why;  ///< "registered cuda memory by its dma-buf", or why not and what to do
};

/// The method with the fewest requirements: a dma-buf rather than a kernel module.
registration_choice choose_registration_method(const registration_facts& of);

/// The loaded peer memory module for this kind of memory, from the files of the kernel below
/// `root`.
std::string find_peer_module(memory_kind kind, const std::string& root = {});

}  // namespace tandem::verbs
