#pragma once

#include <memory>
#include <tandem/accelerator.hpp>

namespace tandem::devices {

/// Another process' allocation, mapped for copies of one device here; closed with its last user.
class mapping {
 public:
  mapping(accelerator& on, const accelerator::handle& shared) : on_(on), base_(on.open(shared)) {}
  ~mapping() { on_.close(base_); }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  const std::byte* base() const noexcept { return static_cast<const std::byte*>(base_); }

 private:
  accelerator& on_;
  void* const base_;
};

/// Maps an allocation, or returns the mapping of another channel of this process: drivers refuse to
/// open an allocation twice. Any thread. @par Errors thrown: `device_failed`.
std::shared_ptr<const mapping> map_shared(accelerator& on, const accelerator::handle& shared);

}  // namespace tandem::devices
