#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>
#include <type_traits>

/// The messages between a test and the process that has the other end of its channel. Both are of
/// one build.
namespace tandem::test::far {

enum class message_type : std::uint8_t {
  // To the far end:
  open,    // settings; answered by `opened` with a port
  up,      // when the lanes are up; answered by `up` with limits
  start,   // an operation
  cancel,  // an operation
  fail,    // the channel
  stats,   // answered by `stats`
  drop,    // the channel; the last message
  // From the far end:
  opened,
  acknowledged,  // start, cancel or fail was carried out
  done,          // an operation
};

/// A message: its length, its type, and its content.
class packer {
 public:
  explicit packer(message_type what) : bytes_(sizeof(std::uint32_t), '\0') { put(what); }
  template <class T>
  packer& put(const T& value) requires std::is_trivially_copyable_v<T> {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  packer& put_text(std::string_view text) {
    put(text.size());
    bytes_ += text;
    return *this;
  }
  std::string take() {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - sizeof(std::uint32_t));
    std::memcpy(bytes_.data(), &length, sizeof(length));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

class unpacker {
 public:
  explicit unpacker(std::string_view frame) : rest_(frame) {}
  template <class T>
  T take() {
    T value{};
    std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view text() { return next(take<std::size_t>()); }

 private:
  std::string_view next(std::size_t bytes) {
    if (rest_.size() < bytes) throw error(errc::protocol_violation, "a frame ends too soon");
    const std::string_view found = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return found;
  }
  std::string_view rest_;
};

void put_code(packer& into, const error_code& code);
error_code take_code(unpacker& from);
void put_error(packer& into, const error& failure);
error take_error(unpacker& from);
void put_settings(packer& into, const settings& options);
settings take_settings(unpacker& from);
void put_limits(packer& into, const channel_limits& limits);
channel_limits take_limits(unpacker& from);

}  // namespace tandem::test::far
