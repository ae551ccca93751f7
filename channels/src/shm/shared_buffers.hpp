#pragma once

#include <cstddef>
#include <memory>

#include "shm/shared_pages.hpp"

namespace tandem::shm {

/// The pages of the `shared_buffer` of this process that contains all of these bytes; null where
/// there is none. Any thread. @par Cost  a map look-up under a mutex.
std::shared_ptr<const shared_pages> find_shared_pages(const void* data, std::size_t bytes);

}  // namespace tandem::shm
