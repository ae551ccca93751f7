#include "call_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tandem::detail {
namespace {

// From the most significant bit: collective, algorithm, type, operation, root (each its value plus
// one; 0: none), bytes.
constexpr unsigned what_shift = 60, how_shift = 56, type_shift = 52, op_shift = 48, root_shift = 36;
constexpr std::uint64_t max_bytes = (std::uint64_t{1} << root_shift) - 1;
constexpr std::uint64_t max_roots = (1 << 12) - 1;

std::uint64_t numbered(auto value, unsigned shift) noexcept {
  return (static_cast<std::uint64_t>(value) + 1) << shift;
}

std::string_view way(algorithm how) noexcept {
  if (how == by_islands) return "islands";
  return how == by_channels ? "channels" : name(how);
}

}  // namespace

call_record::call_record(collective what, algorithm how, std::size_t bytes, int root) noexcept
    : bits_(numbered(what, what_shift) | numbered(how, how_shift) |
            std::min<std::uint64_t>(static_cast<std::uint64_t>(root + 1), max_roots) << root_shift |
            std::min<std::uint64_t>(bytes, max_bytes)) {}

call_record::call_record(collective what, algorithm how, std::size_t bytes, data_type type,
                         reduce_op op, int root) noexcept
    : call_record(what, how, bytes, root) {
  bits_ |= numbered(type, type_shift) | numbered(op, op_shift);
}

std::uint64_t call_record::field(unsigned shift, unsigned width) const noexcept {
  return bits_ >> shift & ((std::uint64_t{1} << width) - 1);
}

const char* call_record::name() const noexcept {
  return tandem::name(static_cast<collective>(field(what_shift, 4) - 1)).data();
}

bool call_record::needs_all_ranks() const noexcept {
  return field(what_shift, 4) != 0 && field(root_shift, 12) == 0;
}

std::string call_record::text() const {
  if (field(what_shift, 4) == 0) return "no collective";
  std::string text = name();
  const std::uint64_t bytes = field(0, root_shift);
  if (bytes > 0) text += fmt::format(" of {} bytes", bytes);
  if (const std::uint64_t root = field(root_shift, 12)) {
    text += fmt::format(" with root {}", root - 1);
  }
  text += fmt::format(" ({}", way(static_cast<algorithm>(field(how_shift, 4) - 1)));
  if (const std::uint64_t type = field(type_shift, 4)) {
    text += fmt::format(", {}", tandem::name(static_cast<data_type>(type - 1)));
  }
  if (const std::uint64_t op = field(op_shift, 4)) {
    text += fmt::format(", {}", tandem::name(static_cast<reduce_op>(op - 1)));
  }
  return text + ")";
}

std::uint64_t call_record::bytes() const noexcept {
  return field(0, root_shift);
}

}  // namespace tandem::detail
