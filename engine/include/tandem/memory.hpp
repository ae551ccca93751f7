/// Views of host and device memory, and its registration with NICs.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)

namespace tandem {

/// Kind of memory. The CPU may access `host` memory only.
enum class memory_kind : std::uint8_t { host, cuda, hip };

/// "host", "cuda" or "hip".
std::string_view name(memory_kind kind) noexcept;

namespace detail {
template <class Range>
concept bytes_like = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;
template <class T>
concept character = std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> ||
    std::same_as<T, char16_t> || std::same_as<T, char32_t>;
/// A string literal or a character array: it is ambiguous whether the terminating zero is included.
template <class Range>
concept character_array = std::is_array_v<Range> && character<std::ranges::range_value_t<Range>>;
}  // namespace detail

/// Bytes to read: pointer, length, memory kind and device. Non-owning; the caller keeps the bytes
/// valid and unchanged until the operation that was given the view has completed.
struct const_view {
  const void* data = nullptr;
  std::size_t bytes = 0;
  memory_kind kind = memory_kind::host;
  int device = 0;  ///< ordinal among the devices of `kind`; 0 for host

  const_view() = default;
  const_view(const void* first, std::size_t length_bytes, memory_kind k = memory_kind::host,
             int ordinal = 0) noexcept
      : data(first), bytes(length_bytes), kind(k), device(ordinal) {}
  /// The elements of a contiguous range in host memory: a string, a vector, a span, an array. Not
  /// an array of characters such as "text": use `std::string_view("text")`, or pointer and length.
  template <detail::bytes_like Range>
  requires(!detail::character_array<Range>) const_view(const Range& range)
  noexcept  // NOLINT: a range is a view of its elements
      : data(std::ranges::data(range)),
        bytes(std::ranges::size(range) * sizeof(std::ranges::range_value_t<Range>)) {}

  /// `length_bytes` from `offset_bytes` on. @pre the part lies inside the view.
  const_view part(std::size_t offset_bytes, std::size_t length_bytes) const noexcept {
    return {static_cast<const std::byte*>(data) + offset_bytes, length_bytes, kind, device};
  }
};

/// Bytes to write, as `const_view`. The caller neither reads nor writes them until completion.
struct mutable_view {
  void* data = nullptr;
  std::size_t bytes = 0;
  memory_kind kind = memory_kind::host;
  int device = 0;

  mutable_view() = default;
  mutable_view(void* first, std::size_t length_bytes, memory_kind k = memory_kind::host,
               int ordinal = 0) noexcept
      : data(first), bytes(length_bytes), kind(k), device(ordinal) {}
  template <detail::bytes_like Range>
  requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
      mutable_view(Range&& range)
  noexcept  // NOLINT: a range is a view of its elements
      : data(std::ranges::data(range)),
        bytes(std::ranges::size(range) * sizeof(std::ranges::range_value_t<Range>)) {}

  operator const_view() const noexcept { return {data, bytes, kind, device}; }
  mutable_view part(std::size_t offset_bytes, std::size_t length_bytes) const noexcept {
    return {static_cast<std::byte*>(data) + offset_bytes, length_bytes, kind, device};
  }
};

/// Where processes of the same host find a range of memory; opaque outside of the fabric or channel
/// that has located it. All zero: nowhere.
using memory_location = std::array<std::uint64_t, 4>;

/// Memory of another rank, accessible in this process for the lifetime of this object.
class mapped_memory {
 public:
  virtual ~mapped_memory() = default;
  virtual mutable_view view() const noexcept = 0;
};

class accelerator;

/// Owns bytes, aligned to a cache line and zeroed. Move-only: a moved-from buffer is empty. Freed
/// by the destructor. Device memory is zeroed before the constructor returns.
/// @par Errors `errc::unsupported_memory` for a kind or device that this machine does not have;
///   `device_failed` if the device is out of memory.
class buffer {
 public:
  buffer() = default;
  explicit buffer(std::size_t bytes, memory_kind kind = memory_kind::host, int device = 0);
  buffer(buffer&& from) noexcept { *this = std::move(from); }
  buffer& operator=(buffer&& from) noexcept {
    data_ = std::move(from.data_);
    bytes_ = std::exchange(from.bytes_, 0);
    kind_ = from.kind_;
    device_ = from.device_;
    return *this;
  }

  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return bytes_; }
  memory_kind kind() const noexcept { return kind_; }
  mutable_view view() const noexcept { return {data_.get(), bytes_, kind_, device_}; }
  /// The bytes as elements of T. @pre host memory, size a multiple of sizeof(T).
  template <class T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(data_.get()), bytes_ / sizeof(T)};
  }

 private:
  struct release {
    release() noexcept : of(nullptr) {}
    explicit release(accelerator* owner) noexcept : of(owner) {}
    void operator()(std::byte* data) const noexcept;
    accelerator* of;  ///< null: host memory
  };
  std::unique_ptr<std::byte[], release> data_;
  std::size_t bytes_ = 0;
  memory_kind kind_ = memory_kind::host;
  int device_ = 0;
};

/// An open dma-buf, through which other devices of the machine access device memory
/// (`cuMemGetHandleForAddressRange`, `hsa_amd_portable_export_dmabuf`). The caller closes it, at
/// any time after registration.
struct dmabuf {
  int descriptor = -1;             ///< negative: none
  std::uint64_t offset_bytes = 0;  ///< offset of the memory in it
};

/// A memory registration with a fabric's NICs, for the lifetime of this object: data sent from it
/// or received into it is transferred zero-copy on lanes that can.
///
/// The memory must stay valid for the lifetime of this object and until every operation on it has
/// completed. A peer that was once granted a receive in it can write to all of it until this ends:
/// register only memory that the job may share. Move-only; destroy it on the fabric's executor.
class region {
 public:
  /// The fabric's record of the registration.
  class record {
   public:
    virtual ~record() = default;
    /// How each NIC accesses the memory, or why it cannot.
    virtual std::string describe() const = 0;
  };

  region() = default;
  region(mutable_view memory, std::unique_ptr<record> by) noexcept
      : memory_(memory), record_(std::move(by)) {}

  mutable_view view() const noexcept { return memory_; }
  /// False: this fabric has no NIC that registers memory; the memory is used without registration.
  explicit operator bool() const noexcept { return record_ != nullptr; }
  /// "rxe0: registered host memory", a line for each device; empty if there is none.
  std::string describe() const { return record_ ? record_->describe() : std::string(); }

 private:
  mutable_view memory_;
  std::unique_ptr<record> record_;
};

}  // namespace tandem

#pragma GCC visibility pop
