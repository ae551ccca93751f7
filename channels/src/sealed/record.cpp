#include "sealed/record.hpp"

#include <algorithm>
#include <cstring>
#include <tandem/detail/trust.hpp>
#include <utility>

#include "protocol/frame.hpp"

namespace tandem::sealed {

using trust::cipher;

sequence::sequence(secret first, cipher::direction which, std::uint64_t per_key)
    : key_(std::move(first)), cipher_(trust::derive_key(key_, "key"), which), per_key_(per_key) {
  const secret mask = trust::derive_key(key_, "mask");
  std::copy_n(mask.bytes().begin(), mask_.size(), mask_.begin());
}

cipher& sequence::next() {
  if (number_ == per_key_) {
    key_ = trust::derive_key(key_, "next");
    cipher_.change_key(trust::derive_key(key_, "key"));
    number_ = 0;
  }
  cipher::nonce once;
  protocol::put<std::uint64_t>(once.data(), number_++);
  std::fill(once.begin() + 8, once.end(), std::byte{0});
  for (std::size_t i = 0; i < once.size(); ++i) once[i] ^= mask_[i];
  cipher_.begin(once);
  return cipher_;
}

sealer::sealer(secret key, std::uint64_t per_key)
    : sequence_(std::move(key), cipher::direction::encrypt, per_key) {}

void sealer::seal(cursor& from, std::size_t bytes, std::byte* to) {
  cipher& with = sequence_.next();
  protocol::put<std::uint32_t>(to, static_cast<std::uint32_t>(bytes));
  to += length_bytes;
  while (bytes > 0) {
    const std::span<const std::byte> some = from.step(bytes);
    with.update(some, to);
    to += some.size();
    bytes -= some.size();
  }
  const cipher::tag made = with.finish();
  std::copy(made.begin(), made.end(), to);
}

opener::opener(secret key, std::uint64_t per_key)
    : sequence_(std::move(key), cipher::direction::decrypt, per_key) {}

std::size_t opener::text_bytes(const std::byte* length) noexcept {
  const std::size_t bytes = protocol::take<std::uint32_t>(length);
  return bytes <= max_text_bytes ? bytes : 0;
}

bool opener::open(std::span<const std::byte> record, cursor& to) {
  if (broken_) return false;
  cipher& with = sequence_.next();
  cursor written = to;
  std::span<const std::byte> text = record.subspan(length_bytes, record.size() - overhead_bytes);
  while (!text.empty()) {
    const std::span<std::byte> some = to.step(text.size());
    with.update(text.first(some.size()), some.data());
    text = text.subspan(some.size());
  }
  cipher::tag given;
  std::copy(record.end() - given.size(), record.end(), given.begin());
  if (with.verify(given)) return true;
  broken_ = true;
  while (written.done_bytes() < to.done_bytes()) {
    const std::span<std::byte> some = written.step(to.done_bytes() - written.done_bytes());
    std::memset(some.data(), 0, some.size());
  }
  return false;
}

}  // namespace tandem::sealed
