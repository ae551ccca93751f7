#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#pragma GCC visibility push(default)

namespace tandem {

/// Confidential bytes. Copies share them; the last one wipes them. Never printed or logged.
class secret {
 public:
  secret() = default;
  /// Copies the bytes; the caller wipes its own copy.
  explicit secret(std::span<const std::byte> bytes);
  explicit secret(std::string_view bytes);

  bool empty() const noexcept { return bytes().empty(); }
  std::span<const std::byte> bytes() const noexcept;
  std::string_view text() const noexcept;

 private:
  class store;
  std::shared_ptr<const store> store_;
};

/// Overwrites memory in a way that the compiler cannot optimise away.
void wipe(std::span<std::byte> bytes) noexcept;

}  // namespace tandem

#pragma GCC visibility pop
