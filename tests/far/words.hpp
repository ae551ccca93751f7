#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>
#include <type_traits>

/// What a test and a process that has the other end of its channel say to each other. Both are of
/// one build.
namespace tandem::test::far {

enum class word : std::uint8_t {
  // To the far end:
  open,    // settings; its answer is `opened` with a port
  up,      // once the lanes are; its answer is `up` with limits
  start,   // an operation
  cancel,  // an operation
  fail,    // the channel
  stats,   // its answer is `stats`
  drop,    // the channel; no more words
  // And back:
  opened,
  heard,  // start, cancel and fail are carried out
  done,   // an operation
};

/// A frame: its length, a word, and what belongs to it.
class packer {
 public:
  explicit packer(word what) : bytes_(sizeof(std::uint32_t), '\0') { put(what); }
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
