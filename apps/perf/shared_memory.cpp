#include "perf/shared_memory.hpp"

#include <tandem/channels.hpp>

namespace tandem::perf {

std::shared_ptr<std::byte> shared_memory(std::size_t bytes) {
  const auto made = std::make_shared<shm::shared_buffer>(bytes);
  return {made, made->data()};
}

}  // namespace tandem::perf
