#include "joining.hpp"

#include <cstddef>
#include <memory>
#include <utility>

#include "call_group.hpp"

namespace tandem::nccl_abi {
namespace {

bool has_member(const config* how, std::size_t end) {
  return how != nullptr && how->magic == config_magic && how->size >= end;
}

}  // namespace

bool is_blocking(const config* how) {
  if (how != nullptr && how->magic != config_magic) {
    refuse(invalid_argument, "the configuration was not initialised with NCCL_CONFIG_INITIALIZER");
  }
  if (!has_member(how, offsetof(config, blocking) + sizeof how->blocking)) return true;
  return how->blocking != 0;
}

void post_join(comm* into, comm_rank::planner plan, memory_kind kind, int device, bool blocking) {
  auto made = std::make_shared<comm_rank>(std::move(plan), kind, device);
  call_group::of_thread().join(std::move(made), blocking, into);
}

}  // namespace tandem::nccl_abi
