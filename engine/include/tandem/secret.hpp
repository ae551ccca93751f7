#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tandem {

/// Bytes that nobody else may see. Copies share them; the last one wipes them. Nothing prints or
/// logs them.
class secret {
 public:
  secret() = default;
  /// Copies the bytes; the caller wipes his own.
  explicit secret(std::span<const std::byte> bytes);
  explicit secret(std::string_view bytes);

  bool empty() const noexcept { return bytes().empty(); }
  std::span<const std::byte> bytes() const noexcept;
  std::string_view text() const noexcept;

 private:
  class store;
  std::shared_ptr<const store> store_;
};

/// Overwrites memory that the compiler may think is never read again.
void wipe(std::span<std::byte> bytes) noexcept;

}  // namespace tandem
