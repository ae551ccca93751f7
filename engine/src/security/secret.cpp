#include <openssl/crypto.h>

#include <tandem/secret.hpp>
#include <vector>

namespace tandem {

class secret::store {
 public:
  explicit store(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  ~store() { wipe(bytes_); }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

secret::secret(std::span<const std::byte> bytes) {
  if (!bytes.empty()) store_ = std::make_shared<const store>(bytes);
}

secret::secret(std::string_view bytes) : secret(std::as_bytes(std::span(bytes))) {}

std::span<const std::byte> secret::bytes() const noexcept {
  return store_ ? store_->bytes() : std::span<const std::byte>();
}

std::string_view secret::text() const noexcept {
  return {reinterpret_cast<const char*>(bytes().data()), bytes().size()};
}

void wipe(std::span<std::byte> bytes) noexcept {
  OPENSSL_cleanse(bytes.data(), bytes.size());
}

}  // namespace tandem
